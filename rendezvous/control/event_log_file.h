// EventLogFile: the file of --event-log. Every agent opens it at its start, so that a path that
// cannot be written is told then and not when a successor needs it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class EventLogFile {
 public:
  /// Made when it is not there, else continued; null for an empty path. `node` is the name of this
  /// machine in the lines.
  static Result<std::shared_ptr<EventLogFile>> open(const std::string& path, std::string node);

  /// One write for each line, so that none is mixed with another process's. 0, or errno: the line,
  /// or the rest of it, is not there then; the next one begins a new line all the same.
  int append(std::string line);
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& node() const { return node_; }

 private:
  EventLogFile(Fd fd, std::string path, std::string node, bool torn)
      : fd_(std::move(fd)), path_(std::move(path)), node_(std::move(node)), torn_(torn) {}
  Fd fd_;
  std::string path_;
  std::string node_;
  bool torn_ = false;  ///< its last line has no end
};

}  // namespace ddprun
