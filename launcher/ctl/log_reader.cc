#include "launcher/ctl/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/ctl/status_view.h"
#include "rendezvous/base/fd.h"

namespace ddprun {
namespace {

/// A line that is longer comes in pieces.
/// Progress bars may write megabytes without a line's end.
constexpr std::size_t kLineBytesMax = 64UL * 1024;

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
  files_ = std::move(now);
  return files_.size();
}

/// Opened each time: a follower holds no descriptor for each of a hundred files, and one that is
/// removed frees its disk. Lines of several workers are never mixed within a line.
void LogReader::show(bool rest) {
  for (auto& [path, file] : files_) {
    show(path, file, rest);
  }
}

/// To its end: what is written meanwhile comes in this round or in the next.
void LogReader::show(const std::string& path, File& file, bool rest) const {
  std::array<char, 64UL * 1024> bytes{};
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
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
