#include "worker_runtime/snapshot/snapshot_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddp {
namespace {

// The report's bytes: fixed-width little-endian integers; a text is its length and its bytes. Both
// ends are the same program on the same kind of machine; the bounds catch one that is not.

void put(std::string& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(value >> shift)));
  }
}

void put(std::string& bytes, std::string_view text) {
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t number() {
    if (rest_.size() < 8) {
      return fail();
    }
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i) {
      value = value << 8 | static_cast<unsigned char>(rest_[static_cast<std::size_t>(i)]);
    }
    rest_.remove_prefix(8);
    return value;
  }

  /// A count of things that take 8 bytes each at least.
  std::uint64_t count() {
    const auto value = number();
    return value > rest_.size() / 8 ? fail() : value;
  }

  std::string text() {
    const auto length = number();
    if (length > rest_.size()) {
      fail();
      return {};
    }
    std::string value(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return value;
  }

  [[nodiscard]] bool ended_well() const { return good_ && rest_.empty(); }

 private:
  std::uint64_t fail() {
    // From here on all reads give 0; ended_well() says so once, at the end.
    good_ = false;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool good_ = true;
};

bool has(const RankReport& report, const Candidate& candidate) {
  return std::find(report.verified.begin(), report.verified.end(), candidate) !=
         report.verified.end();
}

/// What to do about a snapshot without which training must not start.
std::string sentence_of(const Withheld& withheld) {
  switch (withheld.fault) {
    case Fault::newer:
      return withheld.why + "; train with that version, or move the snapshot away";
    case Fault::forbidden:
      return withheld.why + "; let the user who trains read it, or choose another snapshot path";
    case Fault::unreadable:
    case Fault::damaged:
      break;
  }
  return withheld.why +
         ", and no other snapshot can be read; mend the disk, or move the snapshot away";
}

/// A path alone does not say where, when each node has its own disk.
std::string node_of(const std::vector<RankReport>& reports, std::size_t rank) {
  const bool shared = std::all_of(reports.begin(), reports.end(), [&](const RankReport& other) {
    return other.disk == reports[rank].disk;
  });
  return shared ? "" : "on the node of rank " + std::to_string(rank) + ": ";
}

/// Whether the chosen snapshot is at least as new. Where the attempt of the other is not known,
/// numbers tell, unless its disk has seen a later attempt than that of the chosen one.
bool covers(const Choice& choice, const std::vector<RankReport>& reports, const RankReport& report,
            const Withheld& withheld) {
  const auto& [attempt, number, digest] = *choice.chosen;
  if (withheld.attempt != 0) {
    return std::pair(attempt, number) >= std::pair(withheld.attempt, withheld.number);
  }
  return number >= withheld.number &&
         reports[static_cast<std::size_t>(choice.source)].marked >= report.marked;
}

/// Sets the problem where something would be lost by what was chosen.
void refuse_loss(const std::vector<RankReport>& reports, Choice& choice) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    for (const auto& withheld : reports[rank].withheld) {
      const bool waits_for_people = withheld.fault != Fault::unreadable;
      const bool replaced =
          choice.chosen && (!waits_for_people || covers(choice, reports, reports[rank], withheld));
      if (!replaced && choice.problem.empty()) {
        choice.problem = node_of(reports, rank) + sentence_of(withheld);
        choice.problem_stays = waits_for_people;
      }
    }
  }
}

}  // namespace

std::string encode_report(const RankReport& report) {
  std::string bytes;
  // In the order in which decode_report() reads.
  put(bytes, static_cast<std::uint64_t>(report.disk));
  put(bytes, report.highest_number);
  put(bytes, report.marked);
  put(bytes, std::uint64_t{report.verified.size()});
  for (const auto& candidate : report.verified) {
    put(bytes, candidate.attempt);
    put(bytes, candidate.number);
    put(bytes, candidate.digest);
  }
  put(bytes, std::uint64_t{report.withheld.size()});
  for (const auto& withheld : report.withheld) {
    put(bytes, withheld.attempt);
    put(bytes, withheld.number);
    put(bytes, static_cast<std::uint64_t>(withheld.fault));
    put(bytes, withheld.why);
  }
  put(bytes, std::uint64_t{report.complaints.size()});
  for (const auto& complaint : report.complaints) {
    put(bytes, complaint);
  }
  put(bytes, report.problem);
  put(bytes, std::uint64_t{report.problem_stays ? 1U : 0U});
  return bytes;
}

ddprun::Result<RankReport> decode_report(std::string_view bytes) {
  Reader reader(bytes);
  RankReport report;
  report.disk = static_cast<std::int64_t>(reader.number());
  report.highest_number = reader.number();
  report.marked = reader.number();
  // count() is bounded by the bytes that are there, so a wrong one makes no long loop.
  for (auto left = reader.count(); left > 0; --left) {
    Candidate candidate;
    candidate.attempt = reader.number();
    candidate.number = reader.number();
    candidate.digest = reader.number();
    report.verified.push_back(candidate);
  }
  for (auto left = reader.count(); left > 0; --left) {
    Withheld withheld;
    withheld.attempt = reader.number();
    withheld.number = reader.number();
    withheld.fault = static_cast<Fault>(reader.number());
    withheld.why = reader.text();
    report.withheld.push_back(withheld);
  }
  for (auto left = reader.count(); left > 0; --left) {
    report.complaints.push_back(reader.text());
  }
  report.problem = reader.text();
  report.problem_stays = reader.number() != 0;
  if (!reader.ended_well()) {
    return ddprun::Error{"another rank's list of snapshots cannot be read", "",
                         "run the same build of the worker runtime on every node"};
  }
  return report;
}

Choice choose(const std::vector<RankReport>& reports) {
  DDP_CHECK(!reports.empty(), "a world has at least one rank");
  Choice choice;
  // In the order of attempts, then numbers: its end is the newest.
  std::set<Candidate> all;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const RankReport& report = reports[rank];
    if (choice.problem.empty() && !report.problem.empty()) {
      choice.problem = node_of(reports, rank) + report.problem;
      choice.problem_stays = report.problem_stays;
    }
    // Those that nobody could read count as well: a number stands for one state for ever.
    choice.next_number = std::max(choice.next_number, report.highest_number + 1);
    for (const auto& candidate : report.verified) {
      all.insert(candidate);
      choice.next_number = std::max(choice.next_number, candidate.number + 1);
    }
  }
  if (all.empty()) {
    refuse_loss(reports, choice);
    return choice;
  }
  // Newest first; equals by digest, so that every rank decides alike.
  const auto common = std::find_if(all.rbegin(), all.rend(), [&](const Candidate& candidate) {
    return std::all_of(reports.begin(), reports.end(), [&](const RankReport& report) {
      // A rank without any snapshot, as on a new node's disk, has no say: it is sent what the
      // others have.
      return report.verified.empty() || has(report, candidate);
    });
  });
  // Without one in common a send cannot be avoided, and the newest loses least.
  choice.chosen = common != all.rend() ? *common : *all.rbegin();
  const auto lacks = [&](const RankReport& report) { return !has(report, *choice.chosen); };
  // Decided alike on every rank, since the root of a broadcast must be.
  choice.source =
      static_cast<int>(std::find_if_not(reports.begin(), reports.end(), lacks) - reports.begin());
  choice.send = std::any_of(reports.begin(), reports.end(), lacks);
  DDP_CHECK(static_cast<std::size_t>(choice.source) < reports.size(), "somebody has the chosen");
  refuse_loss(reports, choice);
  return choice;
}

std::uint64_t highest_attempt(const std::vector<RankReport>& reports) {
  std::uint64_t highest = 0;
  for (const auto& report : reports) {
    highest = std::max(highest, report.marked);
    for (const auto& candidate : report.verified) {
      highest = std::max(highest, candidate.attempt);
    }
    for (const auto& withheld : report.withheld) {
      highest = std::max(highest, withheld.attempt);
    }
  }
  return highest;
}

std::vector<std::string> complaints_to_say(const std::vector<RankReport>& reports, int rank) {
  const auto& mine = reports.at(static_cast<std::size_t>(rank));
  std::set<std::string> said;
  for (int lower = 0; lower < rank; ++lower) {
    const auto& other = reports[static_cast<std::size_t>(lower)];
    // Ranks of one disk find the same damage; the lowest of them reports it.
    if (other.disk == mine.disk) {
      said.insert(other.complaints.begin(), other.complaints.end());
    }
  }
  std::vector<std::string> mine_to_say;
  for (const auto& complaint : mine.complaints) {
    if (said.insert(complaint).second) {
      mine_to_say.push_back(complaint);
    }
  }
  return mine_to_say;
}

}  // namespace ddp
