// VoteCollector: asks voters for their votes, each on a call of its own and one at a time. Internal
// to control; what the answers mean is Election's.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rendezvous/control/peer_rpc.h"
#include "rendezvous/membership/voter.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class VoteCollector : public std::enable_shared_from_this<VoteCollector> {
 public:
  /// Answers come from the loop, while this lives.
  struct Hooks {
    std::function<void(VoterId, const Vote&)> voted;
    std::function<void(VoterId)> gone;  ///< its process is no more
    /// The voter has a coordinator, and says where that is.
    std::function<void(const message::Moved&)> named;
  };

  static std::shared_ptr<VoteCollector> open(boost::asio::io_context& io, std::string job_id,
                                             std::chrono::milliseconds patience,
                                             Credentials credentials, Hooks hooks);

  /// Nothing where this one is being asked already.
  void ask(const message::VoterAddress& voter, const VoteRequest& request);

 private:
  VoteCollector(boost::asio::io_context& io, std::string job_id, std::chrono::milliseconds patience,
                Credentials credentials, Hooks hooks);
  void on_answer(VoterId from, const PeerAnswer& answer);

  boost::asio::io_context& io_;
  std::string job_id_;
  std::chrono::milliseconds patience_;
  Credentials credentials_;
  Hooks hooks_;
  std::map<VoterId, std::shared_ptr<void>> calls_;
};

}  // namespace ddprun
