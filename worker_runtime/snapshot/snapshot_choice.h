// Which snapshot all ranks go on from, decided from what each of them found. Pure: every rank is
// given the same reports and comes to the same answer, so nobody has to be asked.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"
#include "worker_runtime/snapshot/snapshot_fault.h"

namespace ddp {

/// One snapshot as ranks compare it: the attempt that wrote it, its number, and the checksum of its
/// manifest (which covers all of its bytes), so that two disks that hold different states under one
/// number are told apart. Older before newer: an attempt does not know which numbers an earlier one
/// used on the disk of a node that is lost, so the attempt comes first.
struct Candidate {
  std::uint64_t attempt = 0;
  std::uint64_t number = 0;
  std::uint64_t digest = 0;
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

/// A snapshot that may be good, and that a rank cannot read.
struct Withheld {
  std::uint64_t attempt = 0;  ///< that wrote it; 0: not known
  std::uint64_t number = 0;
  Fault fault = Fault::unreadable;  ///< not damaged
  std::string why;                  ///< beginning with the file concerned
  friend bool operator==(const Withheld&, const Withheld&) = default;
};

/// What one rank found at the snapshot path.
struct RankReport {
  /// Of the node that the rank is on; the same for all when they share the directory.
  std::int64_t disk = 0;
  /// Every snapshot that the rank could read and verify; any order.
  std::vector<Candidate> verified;
  std::vector<Withheld> withheld;
  /// The highest attempt that had left a mark on its disk; 0: none.
  std::uint64_t marked = 0;
  /// The highest number it saw, those included that it could not read; 0 = none.
  std::uint64_t highest_number = 0;
  /// One line for each snapshot that was passed over, beginning with the file concerned.
  std::vector<std::string> complaints;
  /// Not empty: training must not start, and why.
  std::string problem;
  bool problem_stays = false;  ///< as Choice::problem_stays
  friend bool operator==(const RankReport&, const RankReport&) = default;
};

std::string encode_report(const RankReport& report);
ddprun::Result<RankReport> decode_report(std::string_view bytes);

struct Choice {
  /// Nothing: a fresh start.
  std::optional<Candidate> chosen;
  /// The lowest rank that has it.
  int source = 0;
  /// Some rank has to be sent it.
  bool send = false;
  /// Number of the next snapshot that is written: one that no rank has ever seen.
  std::uint64_t next_number = 1;
  /// Not empty: training must not start, and why; the rest means nothing then.
  std::string problem;
  /// The next attempt will have the same problem: people have to end it.
  bool problem_stays = false;
};

/// The newest snapshot that every rank with any has verified. When there is none such (a disk was
/// full for a while, or holds an older run's), the newest of all: it is complete and verified too,
/// and can be sent.
///
/// Training does not start where that would lose what a snapshot holds that only people can make
/// readable (forbidden, newer): when nothing as new was verified. For one that the disk does not
/// give, an older one will do, but not none at all. Needs at least one report.
Choice choose(const std::vector<RankReport>& reports);

/// Of all that left a mark or a snapshot that could be read; 0: none.
std::uint64_t highest_attempt(const std::vector<RankReport>& reports);

/// The complaints that rank `rank` should say, so that each is said once per disk.
std::vector<std::string> complaints_to_say(const std::vector<RankReport>& reports, int rank);

}  // namespace ddp
