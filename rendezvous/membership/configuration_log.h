// ConfigurationLog: which configurations a coordinator knows of, and how it numbers its own. Pure.
#pragma once

#include <set>

#include "rendezvous/membership/configuration.h"

namespace ddprun {

class ConfigurationLog {
 public:
  /// `known`: what the coordinator takes over; empty for a new job.
  ConfigurationLog(VoterId self, const ReplicatedState& known)
      : self_(self), newest_(known.configuration.number), position_(known.log_position()) {}

  /// It was committed, was dropped by one that was, or is this coordinator's own.
  [[nodiscard]] bool knows(ConfigurationNumber configuration) const {
    return position_.covers(configuration) || is_own(configuration);
  }
  /// This coordinator has proposed it.
  [[nodiscard]] bool is_own(ConfigurationNumber configuration) const;

  /// The number of a proposal of that term. Numbers only rise: one that was abandoned stays used.
  ConfigurationNumber propose(Term term);
  /// A voter's copy names this one as its newest: the coordinator goes on from it.
  void adopt(ConfigurationNumber configuration);
  /// This one is in use: all up to it are settled.
  void settle(ConfigurationNumber configuration) { position_ = {configuration, configuration, {}}; }

  [[nodiscard]] ConfigurationNumber newest() const { return newest_; }
  [[nodiscard]] ConfigurationNumber settled() const { return position_.settled; }

 private:
  VoterId self_;
  ConfigurationNumber newest_;
  LogPosition position_;      ///< besides its own proposals
  std::set<Term> own_terms_;  ///< in which it has proposed
};

}  // namespace ddprun
