// FilteredLog: a node's file of the lines that match a filter, of all its workers in one attempt.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class FilteredLog {
 public:
  /// Goes on with a file that is there.
  static Result<std::shared_ptr<FilteredLog>> open(const std::string& path);
  explicit FilteredLog(Fd fd) : fd_(std::move(fd)) {}

  /// Text of one of several streams, each line with its prefix. A last line without an end goes on
  /// with the stream's next text; if another stream writes before that, the line ends there.
  void append(const void* stream, std::string_view text);

 private:
  Fd fd_;
  const void* open_by_ = nullptr;  ///< whose line has no end yet; only compared
};

}  // namespace ddprun
