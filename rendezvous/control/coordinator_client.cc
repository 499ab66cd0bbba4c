#include "rendezvous/control/coordinator_client.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// The agent that hosts the coordinator is a client of it by a socket pair. Both are one process
/// there, so neither can be silent for the other, and no beats are sent.
bool is_socket_pair(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == AF_UNIX;
}

}  // namespace

struct CoordinatorClient::Impl : std::enable_shared_from_this<CoordinatorClient::Impl>,
                                 private ConnectionHandler {
  Impl(NodeDescription description, CoordinatorOrders& the_orders,
       std::shared_ptr<spdlog::logger> the_log)
      : node(std::move(description)), orders(the_orders), log(std::move(the_log)) {}

  void connect(boost::asio::io_context& io, Channel channel,
               std::optional<message::Accepted> greeted,
               std::chrono::milliseconds heartbeat_timeout,
               std::chrono::steady_clock::time_point asked_at) {
    const int socket = channel.socket.get();
    const bool local = is_socket_pair(socket);
    local_address = net::local_end(socket).host();
    peer_address = net::far_end(socket).host();
    where = local ? "coordinator in this agent" : "coordinator at " + net::far_end(socket).host();
    // join.cc has read the coordinator's preamble already, where there is an answer.
    ConnectionOptions how;
    how.expect_preamble = !greeted;
    how.preamble_timeout = local ? std::chrono::milliseconds(0) : heartbeat_timeout;
    how.heartbeat_timeout = local ? std::chrono::milliseconds(0) : heartbeat_timeout;
    how.beats = true;
    how.asked_at = asked_at;
    // To the coordinator, a closed connection means that no worker of this node is left. So the
    // socket stays open until the agent has ended them and this client dies.
    how.keep_open_when_closed = true;
    // Sent also where this side gives up a coordinator that is silent: that one may lead on, and
    // must not count this node as dead and thereby as a follower.
    static const std::string kLeaving = encode(message::Leaving{});
    how.last_word = kLeaving;
    how.frame_bytes_max = kCoordinatorFrameBytesMax;
    // It is closed before this object dies (~CoordinatorClient).
    connection = Connection::create(io, std::move(channel), how, *this);
    // With the stamp of the answer the first beat can echo a contact.
    if (greeted) {
      connection->take_stamp(greeted->stamp);
    }
    connection->start();
    if (!greeted) {
      connection->send(preamble() + encode(message::Hello{node}));
    }
  }

  // --- What the coordinator says ------------------------------------------------------------

  void on_message(std::uint64_t /*id*/, message::Message said) override {
    const auto alive = shared_from_this();  // an order may end in the death of its client
    std::visit([this](const auto& order) { obey(order); }, said);
  }

  void obey(const message::Accepted& order) {
    connection->take_stamp(order.stamp);
    orders.told(order);
  }

  /// StateKept is an acknowledgement in the sense of Raft: it counts for the commit of that state.
  /// The stamp goes with it only if the state is kept, since a stamp that returns counts as
  /// contact.
  void obey(const message::VoterState& order) {
    if (orders.voter_state(order)) {
      connection->take_stamp(order.stamp, true);
      say(message::StateKept{order.replicated.configuration.number, order.stamp});
    }
  }

  void obey(const message::Story& order) { orders.told(order); }

  void obey(const message::MoreNodes& order) { orders.told(order); }

  void obey(const message::TellWorld& order) { orders.told(order); }

  void obey(const message::AskEnvironment&) { say(message::TellEnvironment{orders.environment()}); }

  /// The coordinator closes on purpose, as one that is deposed does. Its process lives on.
  void obey(const message::Farewell& order) { lose(order.why, false); }

  void obey(const message::Rejected& order) {
    end();
    orders.rejected(Error{order.why, where, order.todo});
  }

  /// Attempt numbers only rise, across coordinators too (docs/failover.md). An older one would
  /// start workers beside those of a newer attempt.
  void obey(const message::Assigned& order) {
    if (newest && order.world.attempt <= *newest) {
      log->warn("ignored an assignment of attempt {}, which is over", number(order.world.attempt));
      return;
    }
    newest = order.world.attempt;
    connection->world_begins();
    orders.assign(order);
  }

  /// A Stop for an older attempt crosses the assignment of a newer one, whose workers must not
  /// stop.
  void obey(const message::Stop& order) {
    if (newest == order.attempt) {
      orders.stop(order);
    }
  }

  /// Closing is the receipt: the coordinator exits when every agent has closed (drain.h).
  void obey(const message::Finish& order) {
    end();
    orders.finish(order.summary);
  }

  void obey(const message::Waiting& order) {
    orders.told(order);  // a spare waits for no world
    orders.waiting(order.table);
  }

  void obey(const message::TellIncident& order) { log->warn("{}", order.text); }

  void obey(const message::AskToLeave&) { orders.leave_asked(); }

  /// An answer without a question is ignored: it may follow the loss that answered for it.
  void obey(const message::DrainAnswer& order) {
    if (unanswered_drains > 0) {
      --unanswered_drains;
      orders.drain_answered(order.why_not);
    }
  }

  template <class Other>
  void obey(const Other&) {
    lose("it broke the protocol: it sent a message that only agents send");
  }

  void on_ended(std::uint64_t /*id*/, const CloseReason& end) override {
    lose(end.why, end.by_peer);
  }

  /// Another version is final, because the same binary would answer again. Anything else may be
  /// another process at the port, and the search for the coordinator goes on.
  void on_no_preamble(std::uint64_t /*id*/, PreambleCheck check, std::string bytes) override {
    const auto alive = shared_from_this();
    if (check.verdict == PreambleVerdict::other_version) {
      end();
      orders.rejected(Error{versions_clause("it", check.version, "this agent"), where,
                            "install the same ddprun on all nodes"});
      return;
    }
    lose(bytes.empty() ? "it does not answer" : "it does not speak ddprun's control protocol");
  }

  void lose(const std::string& why, bool closed = false) {
    const auto alive = shared_from_this();
    if (!over) {
      leave();
      orders.lost({Error{"the coordinator was lost: " + why, where, {}}, why,
                   connection->stamp_came_at(), closed});
    }
  }

  /// A node that closes without Leaving counts as dead, and so as a voter that votes for no other
  /// coordinator. From here on no order is obeyed. The connection is held, because workers still
  /// run, and the coordinator must not start others before they are gone.
  void leave() {
    say(message::Leaving{});
    over = true;
    connection->hold();
    answer_drains();
  }

  void end() {
    over = true;
    connection->close();
    answer_drains();
  }

  /// Nobody else will.
  void answer_drains() {
    for (int left = std::exchange(unanswered_drains, 0); left > 0; --left) {
      orders.drain_answered(
          "the coordinator was lost before it answered; see in the status whether the node leaves");
    }
  }

  void say(const message::Message& said) {
    if (!over) {
      connection->send(encode(said));
    }
  }

  NodeDescription node;
  CoordinatorOrders& orders;
  std::shared_ptr<spdlog::logger> log;
  std::string where;
  std::string local_address;
  std::string peer_address;
  std::shared_ptr<Connection> connection;
  std::optional<AttemptNumber> newest;  ///< the last attempt assigned
  int unanswered_drains = 0;
  bool over = false;
};

std::unique_ptr<CoordinatorClient> CoordinatorClient::create(
    boost::asio::io_context& io, Channel connection, std::optional<message::Accepted> greeted,
    NodeDescription node, std::chrono::milliseconds heartbeat_timeout, CoordinatorOrders& orders,
    std::shared_ptr<spdlog::logger> log, std::chrono::steady_clock::time_point asked_at) {
  auto impl = std::make_shared<Impl>(std::move(node), orders, std::move(log));
  impl->connect(io, std::move(connection), greeted, heartbeat_timeout, asked_at);
  return std::unique_ptr<CoordinatorClient>(new CoordinatorClient(std::move(impl)));
}

CoordinatorClient::CoordinatorClient(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

/// The workers are gone by now, or the job is over: the socket closes, and the coordinator sees it.
CoordinatorClient::~CoordinatorClient() {
  impl_->end();
}

std::string CoordinatorClient::local_address() const {
  return impl_->local_address;
}

std::string CoordinatorClient::peer_address() const {
  return impl_->peer_address;
}

void CoordinatorClient::leave() {
  impl_->leave();
}

void CoordinatorClient::workers_started(AttemptNumber attempt) {
  impl_->say(message::Started{attempt});
}

void CoordinatorClient::worker_failed(AttemptNumber attempt, FailureRecord record) {
  impl_->say(message::Failed{attempt, std::move(record)});
}

void CoordinatorClient::workers_finished(AttemptNumber attempt, TrainingProgress progress) {
  impl_->say(message::Finished{attempt, progress});
}

void CoordinatorClient::workers_progress(AttemptNumber attempt, TrainingProgress progress) {
  impl_->say(message::Progress{attempt, progress});
}

void CoordinatorClient::workers_stopped(AttemptNumber attempt, std::vector<FailureRecord> records,
                                        TrainingProgress progress) {
  // A node with many workers may have more records than one incident keeps. The rest is counted.
  const int dropped = bound_records(records);
  impl_->say(message::Stopped{attempt, std::move(records), dropped, progress});
}

void CoordinatorClient::workers_hung(AttemptNumber attempt, std::vector<WorkerPosition> positions,
                                     std::string why) {
  impl_->say(message::Hung{attempt, std::move(positions), std::move(why)});
}

void CoordinatorClient::request_stop(int signal, StopWish wish, const std::string& notice) {
  impl_->say(message::StopRequest{signal, wish, notice});
}

void CoordinatorClient::drain(const std::string& node) {
  ++impl_->unanswered_drains;
  impl_->over ? impl_->answer_drains() : impl_->say(message::DrainNode{node});
}

void CoordinatorClient::give_up(const Error& why) {
  impl_->say(message::GiveUp{why.sentence()});
}

}  // namespace ddprun
