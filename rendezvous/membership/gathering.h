// Gathering: how long the job waits for nodes before an attempt, and what it says meanwhile. Pure.
//
//   enough at once    max nodes; or min nodes when the job ran before: all known-alive nodes are
//                     connected then, so there is nobody to wait for (complaint I-26)
//   last call         first gathering only: min nodes are here, more may come for a while
//   join timeout      fewer than min nodes: nobody waits longer than this
// Nodes that were refused for good are not waited for: the rest of max is enough at once, and where
// it is fewer than min, the job is given up at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/report_schedule.h"

namespace ddprun {

struct GatheringRules {
  std::size_t min_nodes = 1;
  std::size_t max_nodes = 1;
  std::chrono::nanoseconds join_timeout{};
  std::chrono::nanoseconds last_call_timeout{};
};

/// When a node was lost and a replacement is waited for, people want to know sooner than while the
/// first nodes come (kReportFirst).
inline constexpr std::chrono::milliseconds kReportAgain{500};

class Gathering {
 public:
  enum class Decision : std::uint8_t { wait, start, give_up };

  explicit Gathering(GatheringRules rules);

  /// Begins to wait. `first`: no attempt has run yet, so the last call applies. `waited`: of the
  /// join timeout so much is over.
  void begin(Instant now, bool first, std::chrono::nanoseconds waited = {});
  /// To be asked whenever the number of nodes or the time has changed. `will_not_come`: so many of
  /// max nodes were refused for good.
  Decision decide(Instant now, std::size_t nodes, std::size_t will_not_come = 0);
  /// Without so many of max nodes fewer than min can ever be here.
  [[nodiscard]] bool is_hopeless(std::size_t will_not_come) const {
    return rules_.max_nodes - std::min(will_not_come, rules_.max_nodes) < rules_.min_nodes;
  }
  /// Somebody came, went or was refused: the next report is due sooner.
  void changed(Instant now) { pace_.changed(now); }
  /// True when a report about the nodes waited for is due; it is then not due again for a while.
  bool report_due(Instant now) { return pace_.due(now); }
  /// When to ask again at the latest.
  [[nodiscard]] Instant next_deadline() const;
  /// When the next report may be due.
  [[nodiscard]] Instant next_report() const { return pace_.next(); }

  [[nodiscard]] std::optional<Instant> last_call_ends() const { return last_call_ends_; }
  [[nodiscard]] Instant join_deadline() const { return since_ + rules_.join_timeout; }
  [[nodiscard]] Instant since() const { return since_; }

 private:
  GatheringRules rules_;
  Instant since_{};
  bool first_ = true;
  std::optional<Instant> last_call_ends_;
  ReportSchedule pace_;
};

}  // namespace ddprun
