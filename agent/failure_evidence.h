// FailureEvidence: exit status, error file and last lines of stderr -> FailureRecord.
#pragma once

#include <chrono>
#include <ctime>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// What is read of an error file: enough for any that a program writes about itself, and a bound
/// for what a broken one may cost.
inline constexpr std::size_t kErrorFileReadMax = 4 * 1024 * 1024;
/// FailureRecord::message is one line of at most this; the whole text is in the error file.
inline constexpr std::size_t kMessageBytesMax = 512;

/// What the agent knows of a worker that ended.
struct WorkerEnd {
  std::string node;
  World world;
  int local_rank = 0;
  std::int32_t pid = 0;
  ExitStatus exit;
  bool after_stop = false;
  bool dies_of_term = false;  ///< it had no handler for the SIGTERM that it was stopped by
  bool told_failure = false;  ///< its error file was there when it was stopped
  /// What the agent knows of why it ended; one clause, may be empty.
  std::string known_reason = {};
  std::chrono::sys_time<std::chrono::microseconds> exit_time{};
  std::uint64_t failure_kind = 0;    ///< ProgressPage's
  std::string error_file_path = {};  ///< empty when there was none to write
  /// Its begin; larger than kErrorFileReadMax: there is more. Error: why it cannot be read.
  Result<std::string> error_file = std::string();
  std::string stderr_tail = {};
};

/// Pure. Message: the error file's, or "Signal 9 (SIGKILL) received by PID 123", or the exit code
/// with what stderr says of it (error_line.h). An unreadable error file is reported; the other
/// evidence is kept. One beyond kErrorFileBytesMax goes into the record shortened: the begin of its
/// message, the end of its stack. A time in whole seconds (Python's) means some moment of that
/// second, up to the exit: the latest is taken, or a victim's would come before the cause's own,
/// which is exact.
FailureRecord make_failure_record(WorkerEnd end);

/// Pure. The last whole lines of `text`, at most `bytes_max`; one longer line is cut at its begin.
std::string last_lines(std::string_view text, std::size_t bytes_max);

/// The clock of a file's times.
timespec coarse_time();
/// A file that holds something, and was last written before `moment`, by a tick of that clock at
/// least.
bool was_written_before(const timespec& moment, const std::string& path);

/// A clause where the file system of that log is full; else empty.
std::string lost_log_clause(const std::string& path);

/// The end of a file by last_lines; empty when it cannot be read.
std::string read_tail(const std::string& path, std::size_t bytes_max);
/// The whole file up to `bytes_max`; empty where there is none. Error: why it cannot be read, in
/// a few words.
Result<std::string> read_bounded(const std::string& path, std::size_t bytes_max);

}  // namespace ddprun
