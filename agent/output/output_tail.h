// OutputTail: the end of a worker's output as a person would have seen it, kept while it goes by.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// The last lines of `text` as a terminal would show them, at most `bytes_max`: without escape
/// sequences and control characters, and of a line that was written over by carriage returns (a
/// progress bar) the last state alone. Whole lines, unless one line fills it all.
std::string shown_tail(std::string_view text, std::size_t bytes_max);

/// The end of one stream of a worker, for people who ask what it wrote last.
struct StreamTail {
  int rank = 0;
  std::string stream;  ///< "stdout", "stderr", or "terminal" for both in one
  std::string text;    ///< as shown_tail() gives it; empty: nothing was written, or none is kept
};

class OutputTail {
 public:
  /// `bytes_max`: of what text() returns. A few times as much is kept.
  explicit OutputTail(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  void append(std::string_view bytes);
  [[nodiscard]] std::string text() const { return shown_tail(kept_, bytes_max_); }

 private:
  std::size_t bytes_max_;
  std::string kept_;
};

}  // namespace ddprun
