#include "agent/failure_evidence.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/peer_loss_patterns.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/error_line.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract/error_file.h"
#include "rendezvous/contract/progress_channel.h"

namespace ddprun {
namespace {

using std::chrono::microseconds;
using WallTime = std::chrono::sys_time<microseconds>;

constexpr std::string_view kCut = " ...";

/// At most `bytes_max`, never ending inside a UTF-8 character.
std::string shortened(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return std::string(text);
  }
  std::size_t size = bytes_max - kCut.size();
  // 10xxxxxx is a byte inside a UTF-8 character.
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) {
    --size;
  }
  return std::string(text.substr(0, size)) + std::string(kCut);
}

/// The last line that says anything; of one that was written over by carriage returns (a progress
/// bar) what a terminal would show.
std::string last_line(std::string_view text) {
  text = trimmed(text);
  const auto begin = text.find_last_of("\n\r");
  return shortened(begin == std::string_view::npos ? text : text.substr(begin + 1),
                   kMessageBytesMax / 2);
}

std::string first_line(std::string_view text) {
  text = trimmed(text);
  return shortened(trimmed(text.substr(0, text.find('\n'))), kMessageBytesMax);
}

/// See make_failure_record.
WallTime latest_moment(WallTime told, WallTime exited) {
  const bool whole_seconds = told.time_since_epoch() % std::chrono::seconds(1) == microseconds(0);
  if (!whole_seconds || exited < told) {
    return told;
  }
  return std::min(exited, told + std::chrono::seconds(1) - microseconds(1));
}

/// The text of an error file as it goes into a record.
std::string bounded_json(std::string json, ErrorRecord record) {
  if (json.size() <= kErrorFileBytesMax) {
    return json;
  }
  // JSON may spell one byte as six ("\u001b").
  constexpr std::size_t kPartBytesMax = kErrorFileBytesMax / 16;
  record.message = shortened(record.message, kPartBytesMax);
  record.callstack = last_lines(record.callstack, kPartBytesMax);
  json = to_json(record);
  DDP_CHECK(json.size() <= kErrorFileBytesMax, "a shortened error file is still too long");
  return json;
}

std::string message_without_error_file(const WorkerEnd& end) {
  const std::string_view error = error_line(end.stderr_tail);
  const std::string by_stderr =
      error.empty() ? ""
      : trimmed(end.stderr_tail).ends_with(error)
          ? "; last line of stderr: " + last_line(end.stderr_tail)
          : "; error on stderr: " + shortened(error, kMessageBytesMax / 2);
  if (end.exit.kind == ExitStatus::Kind::exited) {
    return fmt::format("exited with code {}{}", end.exit.value, by_stderr);
  }
  // torchrun's sentence, since tools look for it. A signal from outside has nothing to do with what
  // the worker wrote.
  return fmt::format("Signal {} ({}) received by PID {}{}", end.exit.value,
                     signal_name(end.exit.value), end.pid,
                     end.exit.value == SIGABRT ? by_stderr : "");
}

/// It was on its way out when it was told to stop: its error file was there, or what it did after
/// that tells. What SIGTERM ends writes nothing more, and what exits all the same had begun to.
bool failed_before_stop(const WorkerEnd& end) {
  const bool exited = end.exit.kind == ExitStatus::Kind::exited;
  const bool tells = end.dies_of_term &&
                     (exited || (end.exit.value == SIGTERM && ends_in_traceback(end.stderr_tail)));
  return end.after_stop && !end.exit.success() && (end.told_failure || tells);
}

}  // namespace

FailureRecord make_failure_record(WorkerEnd end) {
  FailureRecord record;
  record.node = end.node;
  record.group_rank = end.world.group_rank;
  record.rank = end.world.base_rank + end.local_rank;
  record.local_rank = end.local_rank;
  record.pid = end.pid;
  record.exit = end.exit;
  record.time = end.exit_time;
  record.after_stop = end.after_stop;
  record.message = message_without_error_file(end);
  record.peer_lost = (end.failure_kind & ProgressPage::kFailedByLostPeer) != 0;
  record.do_not_retry = (end.failure_kind & ProgressPage::kFailedForGood) != 0;
  if (!end.error_file || !end.error_file->empty()) {
    record.error_file_path = end.error_file_path;
    if (!end.error_file) {
      record.message += "; the error file cannot be read: " + end.error_file.error().what;
    } else if (end.error_file->size() > kErrorFileReadMax) {
      record.message += fmt::format("; the error file is not read (it has more than {} MiB)",
                                    kErrorFileReadMax >> 20);
    } else if (const auto parsed = parse_error_record(*end.error_file)) {
      if (std::string line = first_line(parsed->message); !line.empty()) {
        record.message = std::move(line);
      }
      record.peer_lost = record.peer_lost || parsed->peer_lost;
      record.do_not_retry = record.do_not_retry || parsed->do_not_retry;
      // A file without a time leaves that of the exit.
      if (parsed->time.time_since_epoch().count() > 0) {
        record.time = latest_moment(parsed->time, end.exit_time);
      }
      record.error_file_json = bounded_json(std::move(*end.error_file), *parsed);
    } else {
      record.message += "; " + parsed.error().what;
    }
  }
  // A script without the runtime shows it only by its words (peer_loss_patterns.h).
  const std::string_view error = error_line(end.stderr_tail);
  record.peer_lost = record.peer_lost || names_lost_peer(record.message) || names_lost_peer(error);
  record.own_error = failed_before_stop(end) && !record.peer_lost;
  if (record.own_error && record.exit.kind == ExitStatus::Kind::signalled) {
    const bool by_file = !record.error_file_json.empty();
    record.message = shortened(by_file ? record.message : error, kMessageBytesMax / 2) +
                     "; stopped on its way out";
  }
  if (!end.known_reason.empty()) {
    record.message = shortened(record.message, kMessageBytesMax - end.known_reason.size() - 2) +
                     "; " + end.known_reason;
  }
  record.note = std::move(end.known_reason);
  record.stderr_tail = std::move(end.stderr_tail);
  return record;
}

std::string last_lines(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return std::string(text);
  }
  // A newline before the cut: the first line of the tail is whole.
  const char before = text[text.size() - bytes_max - 1];
  std::string_view tail = text.substr(text.size() - bytes_max);
  if (before == '\n') {
    return std::string(tail);
  }
  // Whole lines only, unless one line fills it all.
  if (const auto newline = tail.find('\n');
      newline != std::string_view::npos && newline + 1 < tail.size()) {
    tail.remove_prefix(newline + 1);
    return std::string(tail);
  }
  while (!tail.empty() && (static_cast<unsigned char>(tail.front()) & 0xC0U) == 0x80U) {
    tail.remove_prefix(1);  // the rest of a UTF-8 character
  }
  return std::string(tail);
}

namespace {

/// At most `bytes_max` from `offset`; what can be read when the rest cannot.
std::string read_from(int fd, off_t offset, std::size_t bytes_max) {
  std::string text(bytes_max, '\0');
  std::size_t size = 0;
  while (size < bytes_max) {
    const ssize_t got =
        ::pread(fd, text.data() + size, bytes_max - size, offset + static_cast<off_t>(size));
    if (got <= 0) {
      break;
    }
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

struct OpenFile {
  Fd fd;
  std::size_t size = 0;
};

/// To open a FIFO would wait for its writer, and to read a device might never end.
Result<OpenFile> open_plain_file(const std::string& path) {
  OpenFile file{Fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)), 0};
  struct stat status {};
  if (!file.fd || ::fstat(file.fd.get(), &status) != 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return missing ? Result<OpenFile>(OpenFile{}) : Error{std::strerror(errno), "", ""};
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{"it is not a regular file", "", ""};
  }
  file.size = static_cast<std::size_t>(status.st_size);
  return file;
}

}  // namespace

timespec coarse_time() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now;
}

bool was_written_before(const timespec& moment, const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_size > 0 &&
         std::pair(status.st_mtim.tv_sec, status.st_mtim.tv_nsec) <
             std::pair(moment.tv_sec, moment.tv_nsec);
}

std::string lost_log_clause(const std::string& path) {
  struct stat status {};
  struct statvfs system {};
  const bool is_full = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                       ::statvfs(path.c_str(), &system) == 0 && system.f_blocks > 0 &&
                       system.f_bavail == 0;
  return is_full ? "no space is left for its log " + path : "";
}

std::string read_tail(const std::string& path, std::size_t bytes_max) {
  const auto file = open_plain_file(path);
  if (!file) {
    return "";
  }
  // One byte more shows whether the first line is whole.
  const std::size_t wanted = std::min(file->size, bytes_max + 1);
  return last_lines(read_from(file->fd.get(), static_cast<off_t>(file->size - wanted), wanted),
                    bytes_max);
}

Result<std::string> read_bounded(const std::string& path, std::size_t bytes_max) {
  const auto file = open_plain_file(path);
  if (!file) {
    return file.error();
  }
  return read_from(file->fd.get(), 0, std::min(file->size, bytes_max));
}

}  // namespace ddprun
