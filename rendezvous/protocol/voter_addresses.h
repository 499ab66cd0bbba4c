// VoterAddresses: where the agents of a job are reached, each life of one by its own number. Those
// that are away are kept for a time: they may look for the job. Pure.
#pragma once

#include <map>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

class VoterAddresses {
 public:
  VoterAddresses() = default;
  /// All of them are away, from `now` on. Of two places of one agent the later one counts. An agent
  /// without a vote (voter 0) is not listed, here and in learn().
  explicit VoterAddresses(const std::vector<message::VoterAddress>& known, Instant now = {});

  /// It is away, unless more is known of it.
  void learn(const message::VoterAddress& address, Instant now);
  /// It is here, by one more connection.
  void add(message::VoterAddress address);
  /// It has one connection less.
  void went(VoterId agent, Instant now);
  /// It has one connection less, and was refused: nobody is to call it, unless it has another
  /// connection, or is of one of these configurations.
  void refused(VoterId agent, Instant now, const std::vector<const Configuration*>& but);
  /// Drops those that went before `limit`, but nobody of these configurations.
  void forget(Instant limit, const std::vector<const Configuration*>& but);

  /// Null where it is not known; until the next change.
  [[nodiscard]] const message::VoterAddress* find(VoterId agent) const;
  [[nodiscard]] std::vector<message::VoterAddress> all() const;
  [[nodiscard]] std::vector<VoterId> absent() const;

 private:
  struct Known {
    message::VoterAddress address;
    int connections = 0;
    Instant away_since{};  ///< where it has none
  };
  std::map<VoterId, Known> known_;
};

}  // namespace ddprun
