// FailureEvidence: exit status, error file and last lines of stderr -> FailureRecord.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// What the agent knows of a worker that ended.
struct WorkerEnd {
  std::string node;
  World world;
  int local_rank = 0;
  std::int32_t pid = 0;
  ExitStatus exit;
  bool after_stop = false;
  std::chrono::sys_time<std::chrono::microseconds> exit_time{};
  std::string error_file_path;   ///< empty when there was none to write
  std::string error_file_bytes;  ///< empty when the worker wrote none
  std::string stderr_tail;
};

/// Pure. Message: the error file's, or "Signal 9 (SIGKILL) received by PID 123", or the exit code
/// with the last line of stderr. An unreadable error file is said so and loses nothing else.
FailureRecord make_failure_record(WorkerEnd end);

/// Pure. The last whole lines of `text`, at most `bytes_max`; one longer line is cut at its begin.
std::string last_lines(std::string_view text, std::size_t bytes_max);

/// The end of a file by last_lines; empty when it cannot be read.
std::string read_tail(const std::string& path, std::size_t bytes_max);
/// The whole file up to `bytes_max`; empty when it cannot be read.
std::string read_bounded(const std::string& path, std::size_t bytes_max);

}  // namespace ddprun
