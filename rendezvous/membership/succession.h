// Succession: what a standby knows of the job, so that it can go on when the coordinator's host is
// gone. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rendezvous/membership/world.h"

namespace ddprun {

/// One coordinator's reign, from 1; the next coordinator of the job has a higher one.
enum class Term : std::uint32_t {};
/// One life of one agent: drawn at random by itself, so an agent that starts again is another one
/// and its vote of before is not its own.
enum class ElectorId : std::uint64_t {};

constexpr std::uint32_t number(Term term) {
  return static_cast<std::uint32_t>(term);
}
constexpr std::uint64_t number(ElectorId id) {
  return static_cast<std::uint64_t>(id);
}

/// Counts the changes of who is in the world, over all terms; attempts of an unchanged world share
/// one.
enum class RosterNumber : std::uint32_t {};
constexpr std::uint32_t number(RosterNumber roster) {
  return static_cast<std::uint32_t>(roster);
}

/// Who decides for the job: the nodes of its newest world, and witnesses.
struct Roster {
  RosterNumber number{};
  std::vector<ElectorId> electors;

  friend bool operator==(const Roster&, const Roster&) = default;
};

/// A new roster reaches every standby, then a quorum of the roster before, and only then is a world
/// of it handed out: so whoever may become the coordinator knows it, and whoever does not is told
/// so by one of the electors that it needs.
struct Succession {
  Term term{};
  ElectorId coordinator{};
  AttemptNumber attempt{};  ///< the newest when this was sent
  Roster roster;
  Roster roster_before;  ///< no electors: there was none

  friend bool operator==(const Succession&, const Succession&) = default;
};

/// An elector that its agent has given up: it votes no more. What it promised stays promised. One
/// that gave its word to several candidates is named once for each.
struct FormerElector {
  ElectorId elector{};
  ElectorId promised_to{};  ///< 0: nobody
  Term followed{};          ///< the newest that it followed

  friend bool operator==(const FormerElector&, const FormerElector&) = default;
};
/// Of one agent; older ones are in no roster any more.
inline constexpr std::size_t kFormerMax = 8;

/// What an agent that lost its coordinator remembers. It tells the next one, which may know
/// nothing: a new process at the endpoint, while a successor reigns elsewhere.
struct Past {
  Term term{};
  AttemptNumber attempt{};
  RosterNumber roster{};
  int electors = 0;    ///< of that roster
  int group_rank = 0;  ///< its own, in that attempt
  /// That coordinator was at the job's first endpoint: who holds it now knows that it is no more.
  bool at_endpoint = false;

  friend bool operator==(const Past&, const Past&) = default;
};

}  // namespace ddprun
