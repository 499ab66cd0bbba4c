// A machine of the election model: its agent, and its coordinator if it leads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "tests/sim/election_model.h"

namespace ddprun::sim {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

inline constexpr Instant kHeartbeat = 3s;
inline constexpr Instant kLease = kHeartbeat * 9 / 10;
inline constexpr Instant kKill = kHeartbeat / 10;
inline constexpr Instant kBeat = kHeartbeat / 4;
inline constexpr CandidacyTimes kTimes{kHeartbeat / 10, kHeartbeat / 20, kLease + kKill};
inline constexpr std::size_t kStandbys = 3;

struct ElectionModel::Machine {
  int index = 0;
  bool up = true;
  std::uint64_t life = 0;  ///< of the process
  // The agent.
  ElectorId id{};
  Elector elector;
  std::optional<int> coordinator;
  std::uint64_t connection = 0;
  bool leaving = false;
  bool saw_close = false;
  Instant lease_until{};
  std::optional<Instant> echo;  ///< the coordinator's time in its last answer
  std::optional<AttemptNumber> live;
  std::optional<AttemptNumber> dying;
  std::optional<Succession> succession;
  std::size_t place = 0;
  std::unique_ptr<Candidacy> candidacy;
  // The coordinator.
  bool leads = false;
  Term term{};
  Succession state;
  AttemptNumber next{};
  RosterNumber newest_roster{};
  struct Follower {
    ElectorId id{};
    std::uint64_t connection = 0;
  };
  std::map<int, Follower> followers;
  std::map<int, Instant> heard;  ///< when each follower last spoke
  std::map<int, Instant> fresh;  ///< when an answer went out that the follower echoed
  std::set<int> members;         ///< of the attempt that runs or is being stopped
  bool stopping = false;
  std::optional<Roster> planned;
  std::set<int> owe;  ///< who has to acknowledge the plan
  bool preparing = false;
  std::set<int> prepared;
};

}  // namespace ddprun::sim
