// LogFilter: the bytes of one stream of one worker -> whole lines with a prefix. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// "[<role><local_rank>]:", or the template with ${role_name}, ${rank} and ${local_rank} put in
/// (string_template.h), which is then all of the prefix.
std::string line_prefix(const std::string* line_prefix_template, const std::string& role, int rank,
                        int local_rank);

class LogFilter {
 public:
  /// `filters`: a line that contains any of them also goes to `filtered`; none: nothing does.
  LogFilter(std::string prefix, std::vector<std::string> filters);

  /// Longest piece of an unfinished line that is kept waiting for its end. A longer line is passed
  /// on in pieces, with the prefix on the first alone, and matches filters by its first piece.
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  /// Appends prefixed text to `shown`, and matching lines (prefixed too) to `filtered`.
  void feed(std::string_view bytes, std::string& shown, std::string& filtered);
  /// The end of the stream: a last line without newline is passed on as it is.
  void finish(std::string& shown, std::string& filtered);

 private:
  void pass_on(std::string& shown, std::string& filtered);

  std::string prefix_;
  std::vector<std::string> filters_;
  std::string line_;               // begun, not ended
  bool inside_long_line_ = false;  // its first piece has been passed on
  bool matches_ = false;           // that piece contained a filter's text
};

}  // namespace ddprun
