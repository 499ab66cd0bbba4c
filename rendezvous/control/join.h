// join: finds the coordinator at the rendezvous endpoints, or binds the first one, and leaves it
// with a greeted or a listening socket. What is tried, in which order and for how long is
// LeaderSearch's; here are the name service, the sockets and one timer. Every way this can fail is
// an Error sentence of its own that names host, address, port and how long was tried.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/control/coordinator_client.h"
#include "rendezvous/control/credentials.h"
#include "rendezvous/node/leader_search.h"

namespace ddprun {

/// This machine owns the endpoint: a bound, listening socket (dual-stack where the host allows).
struct JoinedAsHost {
  Fd listener;
  Endpoint bound;    ///< numeric, with the real port
  std::string note;  ///< a sentence: why this node hosts, and why nobody else may come then
};

/// Somebody else's coordinator (maybe on this machine): connected, hello said and accepted.
struct JoinedAsClient {
  Channel connection;
  std::string peer;  ///< numeric address and port, for messages
  message::Accepted accepted;
  bool at_endpoint = false;  ///< at the request's first endpoint, and not by the word of another
  std::chrono::steady_clock::time_point asked_at = {};  ///< when the hello went
};

using Joined = std::variant<JoinedAsHost, JoinedAsClient>;
using OnJoined = std::function<void(Result<Joined>)>;

/// Runs on the loop until it can tell; then calls `done` once. Destroying the returned handle
/// before that cancels it: `done` is not called.
class JoinAttempt;
struct JoinAttemptDeleter {
  void operator()(JoinAttempt* attempt) const;
};
using JoinHandle = std::unique_ptr<JoinAttempt, JoinAttemptDeleter>;

/// Once `done` was called with an Error: whether it is a coordinator's, which another try would not
/// change.
[[nodiscard]] bool was_rejected(const JoinHandle& attempt);

/// `credentials`: shown to who is asked, and asked for.
JoinHandle join_endpoint(boost::asio::io_context& io, SearchRequest request,
                         Credentials credentials, OnJoined done,
                         std::shared_ptr<spdlog::logger> log);

}  // namespace ddprun
