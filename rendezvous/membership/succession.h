// Succession: what a standby knows of the job, so that it can go on when the coordinator's host is
// gone. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Rises with every change of who is in the world that is announced, over all terms: the term, bits
/// of the coordinator's elector, and a count. So two of them never announce the same, also where
/// one of them announced it in a term that it never got the votes for. Attempts of an unchanged
/// world share one.
enum class RosterNumber : std::uint64_t {};
constexpr std::uint64_t number(RosterNumber roster) {
  return static_cast<std::uint64_t>(roster);
}
inline constexpr unsigned kRosterCountBits = 20;
inline constexpr unsigned kRosterMakerBits = 16;

constexpr Term term_of(RosterNumber roster) {
  return Term{static_cast<std::uint32_t>(number(roster) >> (kRosterCountBits + kRosterMakerBits))};
}
constexpr std::uint64_t maker_of(RosterNumber roster) {
  return (number(roster) >> kRosterCountBits) & ((1U << kRosterMakerBits) - 1);
}
constexpr std::uint64_t count_of(RosterNumber roster) {
  return number(roster) & ((1U << kRosterCountBits) - 1);
}
constexpr RosterNumber make_roster(Term term, ElectorId maker, std::uint64_t count) {
  const std::uint64_t bits = number(maker) & ((1U << kRosterMakerBits) - 1);
  return RosterNumber{
      ((std::uint64_t{number(term)} << kRosterMakerBits | bits) << kRosterCountBits) + count};
}
constexpr RosterNumber next_roster(RosterNumber newest, Term term, ElectorId maker) {
  const RosterNumber first = make_roster(term, maker, 1);
  const bool goes_on = term_of(newest) == term && maker_of(newest) == maker_of(first);
  return goes_on ? RosterNumber{number(newest) + 1} : first;
}

/// Which rosters somebody knows of: all up to the one that was certainly in use, and then those of
/// one coordinator, each of which but the newest it has dropped. There may be others in between, of
/// a rival, and one of these may be in use.
struct Horizon {
  RosterNumber settled{};
  RosterNumber newest{};
  Term since{};  ///< of that coordinator; for the newest it may have risen to a later one

  [[nodiscard]] constexpr bool covers(RosterNumber roster) const {
    return roster <= settled || (roster <= newest && maker_of(roster) == maker_of(newest) &&
                                 (term_of(roster) == since || term_of(roster) == term_of(newest)));
  }
  friend bool operator==(const Horizon&, const Horizon&) = default;
};

/// Who decides for the job: the nodes of its newest world, and witnesses.
struct Roster {
  RosterNumber number{};
  std::vector<ElectorId> electors;

  friend bool operator==(const Roster&, const Roster&) = default;
};

/// Of a succession.
inline constexpr std::size_t kBeforeMax = 4;

/// A new roster reaches every standby, then a quorum of the roster before, and only then is a world
/// of it handed out: so whoever may become the coordinator knows it, and whoever does not is told
/// so by one of the electors that it needs.
struct Succession {
  Term term{};
  Term since{};  ///< of the coordinator, until a world of this roster is handed out
  ElectorId coordinator{};
  AttemptNumber attempt{};  ///< the newest when this was sent
  Roster roster;
  /// What may be in use instead, newest first: one, or more where coordinators died one after the
  /// other before they handed out a world. None for a first world.
  std::vector<Roster> before;
  RosterNumber settled{};  ///< all up to this one are dropped, or among these
  /// The job is over, and this roster announces nothing but that: whoever knows of it hands out no
  /// world any more.
  bool ends = false;

  [[nodiscard]] Horizon horizon() const { return {settled, roster.number, since}; }
  /// All of them, newest first.
  [[nodiscard]] std::vector<const Roster*> rosters() const {
    std::vector<const Roster*> all{&roster};
    for (const Roster& one : before) {
      all.push_back(&one);
    }
    return all;
  }
  friend bool operator==(const Succession&, const Succession&) = default;
};

/// What an elector has given its word for. Its agent says it when it joins: a coordinator of an
/// older term has to rise above that term before it may count on this elector (reign.h).
struct Pledge {
  Term term{};            ///< the newest that it followed, or gave its vote for
  ElectorId to{};         ///< the coordinator of that term, or who stood for it
  RosterNumber roster{};  ///< the newest that it has prepared for

  friend bool operator==(const Pledge&, const Pledge&) = default;
};

/// What an agent remembers of the newest world that it was part of, or of the first one that it has
/// prepared for. It tells the next coordinator, which may know nothing: a new process at the
/// endpoint, while a successor reigns elsewhere.
struct Past {
  Term term{};
  AttemptNumber attempt{};
  RosterNumber roster{};
  int electors = 0;               ///< of that roster
  std::optional<int> group_rank;  ///< its own, in that attempt; none: no world was handed out to it
  /// That coordinator was at the job's first endpoint: who holds it now knows that it is no more.
  bool at_endpoint = false;

  friend bool operator==(const Past&, const Past&) = default;
};

}  // namespace ddprun
