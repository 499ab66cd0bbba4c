// IncidentBuilder: gathers what is known of the end of one attempt, and tells the cause apart from
// its victims and from the workers that we stopped ourselves (complaint I-20: torchrun names the
// first timestamp of each node, which is as often a victim as the cause).
//
// The blame rule, in order:
//   1. A record with after_stop is stopped_by_us: its agent had signalled it before it ended.
//   2. An origin other than a worker (a lost node, growth) is the cause when it is dated before
//      every worker that failed by itself and does not say that it failed for a lost peer: those
//      workers are its victims.
//   3. Otherwise the cause is the earliest record that does not say that it failed for a lost peer.
//      If all say so, they lost a rank that did not fail: the first that had ended with 0; else
//      one that was stopped, but had told of an error of its own before. Else nobody knows, and the
//      earliest of them stands for it. Ties go to the lower rank. All others are victims.
// "Earliest" is by the coordinator's own clock: arrival of the report minus the record's age. Wall
// clocks of nodes may disagree by minutes, this differs by the report's travel time only; and
// a victim fails after its cause by at least the time that a closed connection takes to be seen.
//   0. Before all that: when the attempt is stopped because workers hang, whoever keeps the others
//      waiting (hang_diagnosis.h) is the cause, although we ended it; unless a worker had failed by
//      itself, or a node was lost, before.
// A silent node is dated back to when it was last heard: its silence began there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/hang_diagnosis.h"

namespace ddprun {

/// Bytes of error files and stderr tails kept of one incident, most blamed first. A summary must
/// stay small enough to be sent to thousands of nodes.
inline constexpr std::size_t kIncidentEvidenceBytesMax = 512 * 1024;
/// Lost or joined nodes named in a reason; more are counted.
inline constexpr std::size_t kNamesInReasonMax = 4;
/// Ranks that ended with code 0 which an agent reports beside its failures, and an incident names.
inline constexpr std::size_t kLeaversMax = 8;

/// SIGTERM; no header of the system is included for its sake.
inline constexpr int kSigTerm = 15;
/// "was killed by SIGKILL", "exited with code 3".
std::string to_clause(const ExitStatus& exit);

class IncidentBuilder {
 public:
  /// `world_size` of the attempt that ends.
  IncidentBuilder(AttemptNumber attempt, Instant detected_at, int world_size);

  /// A member was lost. `lost_at` is when it was last known to be alive.
  void node_lost(const std::string& host_name, const std::string& why, Instant lost_at);
  /// The node that hosted the coordinator was lost; told by its successor.
  void coordinator_lost(const std::string& why);
  /// A node joined, and the world is stopped to take it in.
  void node_leaves(const std::string& host_name, Instant at);
  void node_joined(const std::string& host_name, Instant at);
  /// Workers make no progress, and the attempt is stopped for that.
  void hung(Instant at);
  /// Where workers of a node stood. Of a rank the first word counts: what comes later may be told
  /// after others have been ended.
  void add_positions(const std::string& host, int group_rank,
                     const std::vector<WorkerPosition>& positions);
  /// A worker's end. A second record of the same rank replaces the first (reports come twice, the
  /// second with all evidence). A success is no failure, yet it may be what others lost a peer by.
  /// Records out of the world are ignored.
  void add(FailureRecord record, Instant arrived_at);
  /// Records that a node had to leave out.
  void count_dropped(int records);

  /// False when rule 2 holds: what began with a lost node or with growth costs no restart. (An
  /// incident without any cause, from an agent that stopped by itself, does: or it could go on for
  /// ever.)
  [[nodiscard]] bool spends_restart() const;
  /// One clause, from what is known by now.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] Instant detected_at() const { return detected_at_; }
  /// When what began it happened, as far as is known by now; not after detected_at().
  [[nodiscard]] Instant happened_at() const;
  [[nodiscard]] IncidentKind kind() const;
  [[nodiscard]] AttemptNumber attempt() const { return attempt_; }

  /// The ordered incident; the builder is empty afterwards. Does not set what only the future
  /// knows: spent_restart, downtime, resumed_from.
  [[nodiscard]] Incident build();

 private:
  struct Entry {
    FailureRecord record;
    Instant failed_at{};
  };
  struct Names {
    std::vector<std::string> hosts;
    int count = 0;
    void add(const std::string& host);
    [[nodiscard]] std::string text() const;
  };

  [[nodiscard]] const Entry* cause() const;
  [[nodiscard]] bool began_with_hang() const;
  [[nodiscard]] bool may_be_late(int rank) const;
  [[nodiscard]] HangDiagnosis hang_verdict() const;
  void settle_hang();
  void settle_leaver();
  void set_blame();
  void drop_surplus(std::size_t keep);
  [[nodiscard]] const Entry* first_failed() const;
  [[nodiscard]] const Entry* lost_by_victims() const;

  struct Stand {
    WorkerPosition position;
    std::string host;
    int group_rank = 0;
  };
  AttemptNumber attempt_;
  Instant detected_at_;
  std::vector<Entry> entries_;
  std::vector<Entry> leavers_;  ///< the first kLeaversMax that ended with 0, and were not told to
  std::vector<bool> seen_;      ///< by rank, also of records that were dropped since
  int dropped_ = 0;
  Names lost_;
  std::string why_lost_;  ///< of the first one
  std::string coordinator_lost_;
  Names joined_;
  Names leaving_;
  /// The earliest lost node or growth.
  std::optional<Instant> origin_;
  std::optional<Instant> hung_at_;
  std::map<int, Stand> stands_;      ///< by rank
  std::optional<int> settled_rank_;  ///< whose entry is the cause, although it did not fail
};

/// Takes the bulky evidence out of an incident that is no longer the newest: the cause keeps its
/// stderr tail, nothing else.
void drop_old_evidence(Incident& incident);

}  // namespace ddprun
