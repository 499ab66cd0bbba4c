// Campaign: many stories on all cores, each core in a process of its own, so that a failed check
// (which aborts) is found like any other fault; and what to print of a story that went wrong.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/fault.h"

namespace ddprun::sim {

struct Tally {
  std::uint64_t stories = 0;
  std::uint64_t left_out = 0;  ///< of jobs larger than Seeds::nodes_max
  std::uint64_t events = 0;
  std::uint64_t digest = 0;  ///< a sum over all stories (Cluster::digest): two builds tell the same
  std::uint64_t attempts = 0;
  std::uint64_t incidents = 0;
  std::uint64_t contests = 0;     ///< for a node rank
  std::uint64_t takeovers = 0;    ///< coordinators that came after others
  std::uint64_t begun_twice = 0;  ///< see Observer
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t stopped = 0;
  std::uint64_t impossible = 0;
  std::uint64_t unended = 0;  ///< nobody was left who could
};
std::string to_text(const Tally& tally);

struct Campaign {
  Tally tally;
  std::optional<std::uint64_t> failed_seed;  ///< one of the first
};

/// Which stories a campaign tells, until one goes wrong: seeds first .. first+count-1.
struct Seeds {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  /// No story begins after so many seconds; 0: without a limit.
  std::uint64_t seconds = 0;
  /// Stories of more nodes are left out: one of a thousand costs as much as thousands.
  int nodes_max = std::numeric_limits<int>::max();
};
Campaign run_seeds(const Seeds& seeds, int processes);

/// What is wrong with one story, in a process of its own; empty: nothing.
std::string verdict_of(const SimOptions& options, const std::vector<Fault>& schedule);

/// A story as a file that parse_story reads: "seed 7" and the faults.
std::string story_text(std::uint64_t seed, const std::vector<Fault>& schedule);
struct Story {
  std::uint64_t seed = 0;
  std::vector<Fault> schedule;
};
/// None, with the line in `bad_line`: that line is not understood. '#' begins a comment.
std::optional<Story> parse_story(const std::string& text, std::string& bad_line);

/// The minimised schedule of a seed that goes wrong.
struct Explanation {
  std::vector<Fault> faults;
  std::string text;  ///< a story, with what is wrong as a comment on top
};
Explanation explain(std::uint64_t seed);

}  // namespace ddprun::sim
