// DeadLeader: a coordinator by way of a consensus service of which its followers know that its
// process is gone. Its entry may be replaced before its lease is over.
#pragma once

#include "rendezvous/membership/configuration.h"

namespace ddprun {

struct DeadLeader {
  Term term{};  ///< up to which it led
  VoterId voter{};

  /// An entry of another voter, although of no later term, is that of a living coordinator:
  /// somebody has removed the entries, and it made them anew.
  [[nodiscard]] bool made(Term entry_term, VoterId entry_voter) const {
    return entry_voter == voter && entry_term <= term;
  }
  friend bool operator==(const DeadLeader&, const DeadLeader&) = default;
};

}  // namespace ddprun
