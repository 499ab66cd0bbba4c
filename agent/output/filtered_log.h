// FilteredLog: a node's file of the lines that match a filter, of all its workers in one attempt.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "agent/output/open_line.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class FilteredLog {
 public:
  /// Goes on with a file that is there.
  static Result<std::shared_ptr<FilteredLog>> open(const std::string& path);
  explicit FilteredLog(Fd fd) : fd_(std::move(fd)) {}

  /// Text of one of several streams, whose lines may come in pieces (open_line.h).
  void append(const void* stream, std::string_view text);

 private:
  Fd fd_;
  OpenLine line_;
};

}  // namespace ddprun
