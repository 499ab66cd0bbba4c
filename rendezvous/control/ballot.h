// Ballot: asks electors for their votes, each on a call of its own and one at a time. Internal to
// control; what the answers mean is Candidacy's.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rendezvous/control/peer_call.h"
#include "rendezvous/membership/elector.h"

namespace ddprun {

class Ballot : public std::enable_shared_from_this<Ballot> {
 public:
  /// Answers come from the loop, while this lives.
  struct Hooks {
    std::function<void(ElectorId, const Vote&)> voted;
    std::function<void(ElectorId)> gone;  ///< its process is no more
  };

  static std::shared_ptr<Ballot> open(boost::asio::io_context& io, std::string job_id,
                                      std::chrono::milliseconds patience, Hooks hooks);

  /// Nothing where this one is being asked already.
  void ask(const message::ElectorAddress& elector, const VoteRequest& request);

 private:
  Ballot(boost::asio::io_context& io, std::string job_id, std::chrono::milliseconds patience,
         Hooks hooks);
  void on_answer(ElectorId from, const PeerAnswer& answer);

  boost::asio::io_context& io_;
  std::string job_id_;
  std::chrono::milliseconds patience_;
  Hooks hooks_;
  std::map<ElectorId, std::shared_ptr<void>> calls_;
};

}  // namespace ddprun
