// FailureRecord: one worker's end that was not success, with all the evidence that its node had.
// Incident: all records of one attempt's end, ordered. JobSummary: what every node prints at the
// end of the job. Plain values; incident.{h,cc} decides who was the cause.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/snapshot_number.h"
#include "rendezvous/membership/training_time.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// How a process ended; an exit code and a signal number are never mixed up.
struct ExitStatus {
  enum class Kind : std::uint8_t { exited, signalled };
  Kind kind = Kind::exited;
  int value = 0;  ///< exit code 0..255, or the signal's number

  [[nodiscard]] bool success() const { return kind == Kind::exited && value == 0; }
  /// As Python and torchrun write it: the exit code, or minus the signal.
  [[nodiscard]] int torchrun_code() const { return kind == Kind::exited ? value : -value; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// Why a worker of a failed attempt ended.
enum class Blame : std::uint8_t {
  cause,          ///< the first to fail by itself
  victim,         ///< failed by itself too, after the cause or because of a lost peer
  stopped_by_us,  ///< ended by the signal that its agent sent
};

struct FailureRecord {
  std::string node;  ///< host name of the node
  int group_rank = 0;
  int rank = 0;
  int local_rank = 0;
  std::int32_t pid = 0;
  ExitStatus exit;
  /// Wall clock of the node: from the error file where there is one, else of the exit.
  std::chrono::sys_time<std::chrono::microseconds> time{};
  /// How long before the report was sent the exit was noticed; lets the coordinator order records
  /// of nodes whose wall clocks disagree.
  std::chrono::nanoseconds age{};
  /// The agent had already signalled this worker when it ended.
  bool after_stop = false;
  /// The worker's own record said that it failed for a lost peer.
  bool peer_lost = false;
  std::string message;          ///< one line: from the error file, or "Signal 9 (SIGKILL) ..."
  std::string error_file_path;  ///< empty when the worker wrote none
  std::string error_file_json;  ///< content of that file, bounded by kErrorFileBytesMax
  std::string stderr_tail;      ///< last lines, bounded by kStderrTailBytesMax; empty when not kept
  std::string note;             ///< what its agent knows besides; one clause, may be empty
  Blame blame = Blame::cause;   ///< set by the coordinator
  bool out_of_memory = false;   ///< the kernel killed it for want of memory
  bool do_not_retry = false;    ///< its own record says that another attempt is of no use
  bool hung = false;            ///< it kept the others waiting, and was ended for that
  std::string stack = {};       ///< newest frames of a worker that hung, at most kStackBytesMax
  std::string stacks_path = {};  ///< file with the stacks of all its threads; empty: none
  bool own_error = false;        ///< it was stopped, but had told of an error of its own before
  friend bool operator==(const FailureRecord&, const FailureRecord&) = default;
};

/// An error file larger than this is cut out of the report (the file itself stays).
inline constexpr std::size_t kErrorFileBytesMax = 64UL * 1024;
/// Enough for a Python traceback; bounds what a thousand failing ranks can send.
inline constexpr std::size_t kStderrTailBytesMax = 4UL * 1024;
/// Some twenty frames.
inline constexpr std::size_t kStackBytesMax = 2UL * 1024;
/// Records kept of one incident; the rest are counted only.
inline constexpr std::size_t kIncidentRecordsMax = 64;

/// One failure or membership change, from its detection to the next attempt's first step.
struct Incident {
  AttemptNumber attempt{};  ///< the attempt that ended
  std::string reason;  ///< one clause: "rank 1 on n2 was killed by SIGKILL", "node n2 was lost ..."
  std::vector<FailureRecord>
      records;                 ///< the cause first, then victims by time, then stopped by us
  int records_dropped = 0;     ///< beyond kIncidentRecordsMax
  bool spent_restart = false;  ///< counted against --max-restarts
  bool node_lost = false;      ///< nodes were lost, and that was the cause
  /// From when it happened until all workers of the next attempt had started, or made their first
  /// step where they tell; none when no attempt followed. The sum of `parts`.
  std::optional<std::chrono::nanoseconds> downtime;
  std::optional<SnapshotNumber> resumed_from;  ///< where the next attempt went on, when known
  std::optional<AttemptNumber> next_attempt;   ///< none when none followed
  IncidentKind kind = IncidentKind::worker_failed;
  BreakDown parts = {};
  LostWork lost = {};
  std::chrono::nanoseconds at{};  ///< when it happened, of the job's wall time (Accounts::wall)
  friend bool operator==(const Incident&, const Incident&) = default;
};

/// What the next decision of the restart policy depends on, beside the restarts that are used.
struct RestartState {
  /// How long ago restarts of --restart-window were spent, the oldest first.
  std::vector<std::chrono::nanoseconds> spent_ago = {};
  // Attempts in a row, up to the newest that ended:
  int before_first_step = 0;
  int without_progress = 0;
  std::optional<SnapshotNumber> best_saved = {};  ///< the newest snapshot
  std::int64_t best_steps = 0;                    ///< of one attempt, since that snapshot
  friend bool operator==(const RestartState&, const RestartState&) = default;
};
/// Restarts of a window that are told to another coordinator, the newest.
inline constexpr std::size_t kRestartsToldMax = 1000;

enum class Verdict : std::uint8_t {
  succeeded,   ///< all workers of all nodes exited 0
  failed,      ///< a worker failed and the budget was spent
  stopped,     ///< somebody asked an agent to stop (a signal)
  impossible,  ///< too few nodes in time, or nothing could be started
  preempted,   ///< it was asked to save and end: the same command goes on from there
  left,        ///< of one node alone: it has left in order, and the job goes on
  disagreed,   ///< the nodes' environments differ, which --require-same-env makes an error
};

/// The end of the job, equal on every node.
struct JobSummary {
  Verdict verdict = Verdict::succeeded;
  std::string reason;   ///< one sentence when the verdict is not succeeded
  int stop_signal = 0;  ///< of Verdict::stopped and preempted; 0: a deadline
  int attempts = 0;
  int restarts_used = 0;
  int max_restarts = 0;
  std::vector<Incident> incidents;  ///< in order; the last one holds the final cause when failed
  int incidents_dropped = 0;        ///< older ones, which are not kept any more
  TrainingProgress progress;        ///< of rank 0's node, when told
  Accounts accounts = {};           ///< of the job's time
  RestartState restart_state = {};  ///< while the job goes on, for the next coordinator
  friend bool operator==(const JobSummary&, const JobSummary&) = default;
};

}  // namespace ddprun
