// LeaderCalls: carries the calls of a leader (node/leader.h, CallVoters and CallEndpoints) to the
// agents that do not follow it, each on a connection of its own. Internal to control.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/control/credentials.h"
#include "rendezvous/node/leader.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class LeaderCalls : public std::enable_shared_from_this<LeaderCalls> {
 public:
  using Answered = std::function<void(CallAnswered)>;

  /// `endpoints` are those where this agent does not listen. A call takes `patience` for each
  /// address at most. `answered` is called on the loop, while this lives.
  static std::shared_ptr<LeaderCalls> create(boost::asio::io_context& io,
                                             const std::vector<Endpoint>& endpoints,
                                             std::chrono::milliseconds patience,
                                             Credentials credentials, Answered answered);

  void carry_out(const CallVoters& order);
  void carry_out(const CallEndpoints& order);

  ~LeaderCalls();

 private:
  struct Place;  ///< an endpoint, with its resolver

  LeaderCalls(boost::asio::io_context& io, const std::vector<Endpoint>& endpoints,
              std::chrono::milliseconds patience, Credentials credentials, Answered answered);
  void resolve(Place& place, const message::Follow& call);
  void call(Place& place, std::vector<std::string> addresses, const message::Follow& call);

  boost::asio::io_context& io_;
  std::chrono::milliseconds patience_;
  Credentials credentials_;
  Answered answered_;
  std::map<VoterId, std::shared_ptr<void>> voter_calls_;  ///< under way
  std::vector<std::unique_ptr<Place>> places_;
};

}  // namespace ddprun
