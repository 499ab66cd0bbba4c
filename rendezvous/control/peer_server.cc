#include "rendezvous/control/peer_server.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "rendezvous/control/listener.h"
#include "rendezvous/control/local_endpoints.h"
#include "rendezvous/membership/admission.h"

namespace ddprun {
namespace {

/// A machine resolves its own name from /etc/hosts. The names of others may not exist yet, as those
/// of pods that are still to start, so this agent does not wait long for them.
constexpr std::chrono::milliseconds kNamesPatience{2'000};
/// A process that dies closes its connections some time before the port that it listens at.
constexpr std::chrono::milliseconds kRetryAfter{100};
constexpr int kTries = 50;

}  // namespace

struct PeerServer::Retry {
  explicit Retry(boost::asio::io_context& io) : timer(io) {}
  boost::asio::steady_timer timer;
};

std::shared_ptr<PeerServer> PeerServer::create(boost::asio::io_context& io,
                                               std::vector<Endpoint> endpoints, Answer answer,
                                               Credentials credentials,
                                               std::shared_ptr<spdlog::logger> log) {
  return std::shared_ptr<PeerServer>(new PeerServer(io, std::move(endpoints), std::move(answer),
                                                    std::move(credentials), std::move(log)));
}

PeerServer::PeerServer(boost::asio::io_context& io, std::vector<Endpoint> endpoints, Answer answer,
                       Credentials credentials, std::shared_ptr<spdlog::logger> log)
    : io_(io),
      endpoints_(std::move(endpoints)),
      answer_(std::move(answer)),
      credentials_(std::move(credentials)),
      log_(std::move(log)),
      own_(endpoints_.size()),
      retry_(std::make_unique<Retry>(io)) {}

PeerServer::~PeerServer() = default;

void PeerServer::open(std::function<void(const Result<void>&)> opened) {
  // With one endpoint the gate needs no name: its port is the system's choice. Whether the endpoint
  // is this machine's matters only when the coordinator there is lost.
  const bool needs_names = endpoints_.size() > 1;
  if (!needs_names) {
    opened(open_gate());
  }
  resolve_local(io_, endpoints_, kNamesPatience,
                [weak = weak_from_this(), needs_names,
                 opened = std::move(opened)](const std::vector<bool>& own) {
                  const auto self = weak.lock();
                  if (!self) {
                    return;
                  }
                  self->own_ = own;
                  if (needs_names) {
                    opened(self->open_gate());
                  }
                });
}

Result<void> PeerServer::open_gate() {
  const std::string& host = endpoints_.front().host;
  Listening listening;
  // The first one's port is for the coordinator that begins the job, also where another endpoint
  // is the same place by another name.
  const auto is_first = [this](std::size_t i) {
    return own_.front() && endpoints_[i].port == endpoints_.front().port;
  };
  for (std::size_t i = 1; i < endpoints_.size() && !listening.socket; ++i) {
    if (own_[i] && !is_first(i)) {
      listening = listen_at_host(host, endpoints_[i].port);
      place_ = i;
      if (!listening.socket) {
        log_->warn(
            "cannot listen at {}, an endpoint on this machine: {}; agents that search there do "
            "not find this one; name a free port in --rdzv-endpoint, and a port of its own for "
            "each agent of this machine",
            to_text(endpoints_[i]), std::generic_category().message(listening.errno_value));
      }
    }
  }
  if (!listening.socket) {
    place_.reset();
    listening = listen_ephemeral(host, endpoints_);
  }
  if (!listening.socket) {
    return errno_error(listening.errno_value, "cannot listen for the other agents", host,
                       "check this machine's limits on open files and ports");
  }
  port_ = port_of(listening.socket);
  gate_ = answer_at(std::move(listening.socket), at_endpoint());
  return {};
}

/// A node that means another job is rejected here already: its search came by an endpoint of its
/// own job, whose number this port has by chance.
std::shared_ptr<PeerListener> PeerServer::answer_at(Fd listener, bool at_endpoint, bool at_first) {
  return PeerListener::open(
      io_, std::move(listener),
      [answer = answer_, at_endpoint, at_first](
          const message::Message& question,
          const std::string& from) -> std::optional<message::Message> {
        if (const auto* hello = std::get_if<message::Hello>(&question)) {
          if (auto astray = stray(at_endpoint, hello->node)) {
            return message::Rejected{std::move(astray->why), std::move(astray->todo)};
          }
        }
        return answer(question, at_first && is_own_address(from));
      },
      credentials_);
}

/// Agents that connect while the coordinator takes over wait in the backlog of the same socket.
Fd PeerServer::release_listener() {
  return std::exchange(gate_, nullptr)->close();
}

/// Agents find the coordinator at its endpoint from here on, so the port of the gate is closed.
void PeerServer::give_way_to(std::uint16_t endpoint_port) {
  (void)release_listener();
  leave_first_endpoint();
  port_ = endpoint_port;
  place_ = 0;
}

void PeerServer::reopen(Fd listener) {
  gate_ = answer_at(std::move(listener), at_endpoint());
}

std::vector<Endpoint> PeerServer::other_endpoints() const {
  std::vector<Endpoint> others;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    if (place_ != i && !(i == 0 && door_)) {
      others.push_back(endpoints_[i]);
    }
  }
  return others;
}

void PeerServer::listen_at_first_endpoint() {
  tries_left_ = kTries;
  try_first_endpoint();
}

void PeerServer::leave_first_endpoint() {
  tries_left_ = 0;
  retry_->timer.cancel();
  // The port is free at once. An agent that has just asked here still gets its answer.
  if (door_) {
    door_->close_port();
    leaving_ = std::exchange(door_, nullptr);
  }
}

/// An agent of this machine that starts at the first endpoint would find nobody there, and begin a
/// job of its own beside this one. Through this door it is redirected.
void PeerServer::try_first_endpoint() {
  const Endpoint& first = endpoints_.front();
  if (door_ || tries_left_ == 0 || first.port == port_ || first.port == 0 || !own_.front()) {
    return;
  }
  if (Listening listening = listen_at_host(first.host, first.port); listening.socket) {
    door_ = answer_at(std::move(listening.socket), true, true);
    return;
  }
  --tries_left_;
  retry_->timer.expires_after(kRetryAfter);
  retry_->timer.async_wait([weak = weak_from_this()](boost::system::error_code cancelled) {
    if (const auto self = weak.lock(); self && !cancelled) {
      self->try_first_endpoint();
    }
  });
}

}  // namespace ddprun
