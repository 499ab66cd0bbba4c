#include "agent/failure_evidence.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "agent/signals.h"
#include "rendezvous/contract/error_file.h"

namespace ddprun {
namespace {

/// The last line that says anything.
std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  const auto newline = text.rfind('\n');
  return std::string(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

std::string message_without_error_file(const WorkerEnd& end) {
  if (end.exit.kind == ExitStatus::Kind::signalled) {
    return "Signal " + std::to_string(end.exit.value) + " (" + signal_name(end.exit.value) +
           ") received by PID " + std::to_string(end.pid);
  }
  std::string message = "exited with code " + std::to_string(end.exit.value);
  if (const std::string line = last_line(end.stderr_tail); !line.empty()) {
    message += "; last line of stderr: " + line;
  }
  return message;
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
  if (!end.error_file_bytes.empty()) {
    record.error_file_path = end.error_file_path;
    if (const auto parsed = parse_error_record(end.error_file_bytes)) {
      record.message = parsed->message;
      record.peer_lost = parsed->peer_lost;
      if (parsed->time.time_since_epoch().count() > 0) {
        record.time = parsed->time;
      }
      record.error_file_json = std::move(end.error_file_bytes);
    } else {
      record.message += "; " + parsed.error().what;
    }
  }
  record.stderr_tail = std::move(end.stderr_tail);
  return record;
}

std::string last_lines(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return std::string(text);
  }
  std::string_view tail = text.substr(text.size() - bytes_max);
  // Whole lines only, unless one line fills it all.
  const auto newline = tail.find('\n');
  if (newline != std::string_view::npos && newline + 1 < tail.size()) {
    tail.remove_prefix(newline + 1);
  }
  return std::string(tail);
}

std::string read_tail(const std::string& path, std::size_t bytes_max) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return {};
  }
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(0, file.tellg()));
  const std::size_t wanted = std::min(size, bytes_max + 1);  // one more shows that it was cut
  file.seekg(static_cast<std::streamoff>(size - wanted));
  std::string text(wanted, '\0');
  file.read(text.data(), static_cast<std::streamsize>(wanted));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return last_lines(text, bytes_max);
}

std::string read_bounded(const std::string& path, std::size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes_max, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes_max));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace ddprun
