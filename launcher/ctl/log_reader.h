// LogReader: the files to which the workers of a node write (--redirects, --tee), shown and
// followed. The agent is only asked where they are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"

namespace ddprun {

class LogReader {
 public:
  /// `write` takes whole lines with their ends, but for the last one of a file that ends without.
  explicit LogReader(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

  /// Takes over the files of a status. Those of an attempt before are shown to their end, and then
  /// no more; those of attempts that came and went since the status before, whole, by the ranks
  /// that these workers had before. How many there are now; `rank`: of that one alone.
  std::size_t take(const nlohmann::json& status, const std::optional<int>& rank);
  [[nodiscard]] bool has_files() const { return !files_.empty(); }
  /// The agent has ended: shows the files of attempts that began after the newest status, whole.
  void show_later();
  /// Writes what has come since, in whole lines; `rest`: also a line that has no end yet. A file
  /// that has become shorter is read from its begin.
  void show(bool rest);
  /// The first file that could not be read, and why: somebody has removed it, or its path has bytes
  /// that are no UTF-8, and so is not the one that the agent's answer, which is JSON, has.
  [[nodiscard]] const std::optional<Error>& unread() const { return unread_; }

 private:
  struct File {
    std::string name;  ///< "[rank 3 stderr] "
    std::int64_t at = 0;
    std::string line;  ///< begun, and not ended yet
  };
  void show(const std::string& path, File& file, bool rest);
  bool show_attempt(int attempt);
  std::function<void(const std::string&)> write_;
  std::map<std::string, File> files_;  ///< by path
  std::optional<int> attempt_;         ///< of these files
  std::optional<Error> unread_;
};

}  // namespace ddprun
