// LogLayout: which directories and files an attempt has on this node, and where each worker's
// streams go. Names are torchrun's (torchrun contract, section 7).
#pragma once

#include <string>

#include "agent/job_spec.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// One worker's streams and files. Paths are absolute.
struct WorkerLogs {
  /// Empty: inherited. "/dev/null": filtered off the console by --local-ranks-filter, or
  /// redirected while there are no files. What is only teed and has no file stays on the console.
  std::string stdout_path;
  std::string stderr_path;
  bool echo_stdout = false;  ///< the agent follows the file and shows it, prefixed
  bool echo_stderr = false;
  std::string stacks_file;  ///< for stacks when the job hangs; empty without files
  std::string error_file;   ///< for TORCHELASTIC_ERROR_FILE; empty without files
};

/// The run directory of one agent: `<base>/<job id>_<random8>`, made once.
class LogLayout {
 public:
  /// Makes the base (--log-dir, or `ddprun_<random8>` in TMPDIR or else /tmp, for this user alone)
  /// and the run directory. With --log-dir /dev/null nothing is made. An unwritable directory, or a
  /// file in its place, is one sentence. A slash in the job id becomes '_': a name must not leave
  /// the directory; an id beyond 200 bytes is cut.
  static Result<LogLayout> create(const LogSpec& spec, const std::string& job_id);

  /// Makes `attempt_<n>/<local_rank>` for all workers; what an earlier run left there is wiped.
  Result<void> make_attempt(AttemptNumber attempt, int local_world_size) const;

  /// For the end of the agent: removes what create() made where no attempt has begun in it.
  void remove_unused() const;

  /// Pure. Where one worker's streams go.
  [[nodiscard]] WorkerLogs worker(const LogSpec& spec, AttemptNumber attempt, int local_rank) const;

  /// `attempt_<n>/filtered_stdout.log` and its sibling; empty without files.
  [[nodiscard]] std::string filtered_stdout(AttemptNumber attempt) const;
  [[nodiscard]] std::string filtered_stderr(AttemptNumber attempt) const;

  /// Empty with --log-dir /dev/null.
  [[nodiscard]] const std::string& run_dir() const { return run_dir_; }

 private:
  LogLayout(std::string run_dir, std::string temporary_base)
      : run_dir_(std::move(run_dir)), temporary_base_(std::move(temporary_base)) {}
  [[nodiscard]] std::string attempt_dir(AttemptNumber attempt) const;
  std::string run_dir_;
  std::string temporary_base_;  ///< empty with --log-dir: that one is the user's
};

}  // namespace ddprun
