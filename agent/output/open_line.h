// OpenLine: where several streams are shown by lines, and a line may come in pieces: it ends where
// another stream writes, and what comes of it later has a line of its own. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace ddprun {

class OpenLine {
 public:
  /// Appends `text`, the next piece of `stream` (only compared), to what is written. A last line
  /// without a newline stays open for the stream's next piece.
  void append(const void* stream, std::string_view text, std::string& to);
  /// Somebody else writes a line next: whether one was open, which has to end before.
  bool end();

 private:
  const void* open_by_ = nullptr;
  std::set<const void*> cut_;  ///< whose line was ended by another
};

}  // namespace ddprun
