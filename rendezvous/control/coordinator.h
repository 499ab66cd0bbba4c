// Coordinator: the thin shell around Leader (node/leader.h). It accepts agents at the rendezvous
// endpoint, stamps time on what they say, and carries out what Leader decides. It decides nothing
// by itself. Single-threaded: lives on the io_context of its agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/control/channel.h"
#include "rendezvous/control/coordinator_options.h"
#include "rendezvous/membership/restart_policy.h"
#include "rendezvous/membership/takeover_state.h"
#include "rendezvous/membership/world.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

class Membership;
struct StepDown;

struct CoordinatorHooks {
  /// Opens the fresh store of an attempt, closing the one before, and returns its port. Control
  /// and store do not know each other: the agent, which owns both, joins them here. `addresses` are
  /// those by which the attempt's nodes came, and this host's.
  std::function<Result<std::uint16_t>(AttemptNumber, std::vector<std::string> addresses)>
      open_store;
  /// A connection whose first bytes are no hello of ours but may be a store client's (static
  /// backend: MASTER_PORT is the endpoint's port). The bytes have been read from it already. When
  /// empty, such a connection is logged once per address and closed.
  std::function<void(Fd, std::string)> foreign_connection;
  /// A connection that has shown the job's credentials and is no agent's: ddpctl's, on any machine.
  /// The bytes have been read from it already.
  std::function<void(Channel, std::string)> operator_connection;
  /// A coordinator of a later term leads, or (none) this one may have lost its quorum to one: no
  /// worker of this job may live here any more. The owner stops its workers and calls resign().
  std::function<void(const StepDown&)> deposed;
};

class Coordinator {
 public:
  /// `listener` is bound, listening and non-blocking (see join.h). Nothing is accepted before the
  /// loop runs.
  static std::unique_ptr<Coordinator> create(boost::asio::io_context& io, Fd listener,
                                             CoordinatorOptions options, CoordinatorHooks hooks,
                                             std::shared_ptr<spdlog::logger> log);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// One end of a socket pair whose other end is served like any accepted connection: the agent
  /// that hosts the coordinator is a client of it as all others are.
  Result<Fd> connect_local();

  /// Accepts nobody any more, and closes the connections that have said nothing yet. Nodes that are
  /// here are served on.
  void close_port();
  /// Says farewell to all agents, and hands the listening socket back. Nothing is done after this.
  Fd resign(const std::string& why);
  [[nodiscard]] const Membership& membership() const;

  /// The address of this machine by which most other nodes came, as of the newest attempt; a
  /// loopback one when none came from elsewhere.
  [[nodiscard]] std::string common_address() const;

  /// True when the job is over and every connected agent has been sent the summary and has closed,
  /// or a short grace has passed: only then may the hosting agent exit.
  [[nodiscard]] bool drained() const;
  /// Called once, on the loop, when drained() becomes true.
  void on_drained(std::function<void()> callback);

 private:
  struct Impl;
  explicit Coordinator(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
