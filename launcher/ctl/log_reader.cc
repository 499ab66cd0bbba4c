#include "launcher/ctl/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/ctl/status_view.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// A line that is longer comes in pieces: progress bars may write megabytes without a line's end.
constexpr std::size_t kLineBytesMax = 64UL * 1024;

/// Attempts that may come and go between two statuses, and are shown all the same.
constexpr int kMissedMax = 100;

}  // namespace

/// By path: an attempt has files of its own, and one that is read already goes on where it is.
std::size_t LogReader::take(const nlohmann::json& status, const std::optional<int>& rank) {
  std::map<std::string, File> now;
  const auto workers = status.find("workers");
  for (std::size_t i = 0; workers != status.end() && i < workers->size(); ++i) {
    const nlohmann::json& worker = (*workers)[i];
    const std::string of = text_in(worker, "rank");
    if (rank && of != std::to_string(*rank)) {
      continue;
    }
    for (const char* const stream : {"stdout", "stderr"}) {
      const auto path = worker.find(stream);
      if (path == worker.end() || !path->is_string() || *path == "/dev/null") {
        continue;
      }
      // One that is read already goes on where it is; one path may serve both streams.
      const auto before = files_.find(path->get<std::string>());
      File file = before != files_.end() ? before->second : File();
      file.name = "[rank " + of + " " + stream + "] ";
      now.try_emplace(path->get<std::string>(), std::move(file));
    }
  }
  // The workers of an attempt before have ended: their last words have no more to come.
  for (auto& [path, file] : files_) {
    if (!now.contains(path)) {
      show(path, file, true);
    }
  }
  // An attempt that was shorter than the time between two statuses has left its files.
  const auto attempt = status.find("attempt");
  const bool numbered = attempt != status.end() && attempt->is_number_integer();
  const int newest = numbered ? attempt->get<int>() : attempt_.value_or(0);
  for (int missed = std::max(attempt_.value_or(newest) + 1, newest - kMissedMax); missed < newest;
       ++missed) {
    show_attempt(missed);
  }
  files_ = std::move(now);
  attempt_ = newest;
  return files_.size();
}

void LogReader::show_later() {
  for (int later = 1; later <= kMissedMax && show_attempt(attempt_.value_or(0) + later); ++later) {
  }
}

/// False: it has no files. LogLayout gives each attempt a directory of its own, and the agent's
/// status names only those of the newest; the others differ by the number in that name.
bool LogReader::show_attempt(int attempt) {
  const std::string own = "/attempt_" + std::to_string(attempt_.value_or(0)) + "/";
  bool found = false;
  for (const auto& [path, file] : files_) {
    const auto at = path.rfind(own);
    if (at == std::string::npos) {
      continue;
    }
    std::string other = path;
    other.replace(at, own.size(), "/attempt_" + std::to_string(attempt) + "/");
    if (::access(other.c_str(), R_OK) != 0) {
      continue;
    }
    found = true;
    File whole;
    whole.name = file.name;
    show(other, whole, true);
  }
  return found;
}

/// Opened each time: a follower holds no descriptor for each of a hundred files, and one that is
/// removed frees its disk. Lines of several workers are never mixed within a line.
void LogReader::show(bool rest) {
  for (auto& [path, file] : files_) {
    show(path, file, rest);
  }
}

/// To its end: what is written meanwhile comes in this round or in the next.
void LogReader::show(const std::string& path, File& file, bool rest) {
  std::array<char, 64UL * 1024> bytes{};
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && !unread_) {
    unread_ = Error{std::string("cannot be read: ") + std::strerror(errno), printable(path),
                    "look for the file in the job's --log-dir"};
  }
  // Somebody made room on a full disk (`: > stdout.log`); what follows is new.
  struct stat status {};
  if (fd && ::fstat(fd.get(), &status) == 0 && status.st_size < file.at) {
    file.at = 0;
  }
  ssize_t got = 0;
  while (fd && (got = ::pread(fd.get(), bytes.data(), bytes.size(), file.at)) > 0) {
    file.at += got;
    for (const char c : std::string_view(bytes.data(), static_cast<std::size_t>(got))) {
      file.line += c;
      if (c == '\n' || file.line.size() >= kLineBytesMax) {
        write_(file.name + std::exchange(file.line, {}) + (c == '\n' ? "" : "\n"));
      }
    }
  }
  // Only at the end: a line that is still being written would come in two.
  if (rest && !file.line.empty()) {
    write_(file.name + std::exchange(file.line, {}) + "\n");
  }
}

}  // namespace ddprun
