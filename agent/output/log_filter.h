// LogFilter: the bytes of one stream of one worker -> whole lines with a prefix. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// "[<role><local_rank>]:", or the template with ${role_name}, ${rank} and ${local_rank} put in
/// (string_template.h), which is then all of the prefix.
/// The ranks are texts: a line of several workers has lists of them ("0-7").
std::string line_prefix(const std::string* line_prefix_template, const std::string& role,
                        const std::string& rank, const std::string& local_rank);

/// A line, or a part of one. The text ends in a newline if and only if it ends the line.
struct LinePiece {
  std::string_view text;
  bool begins = true;
  bool ends = true;
};

class LogFilter {
 public:
  /// `filters`: a line that contains any of them also goes to `filtered`; none: nothing does.
  LogFilter(std::string prefix, std::vector<std::string> filters);

  /// Longest piece of an unfinished line that is kept waiting for its end. A longer line is passed
  /// on in pieces, with the prefix on the first alone, and matches filters by its first piece.
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  /// Gets each piece, without the prefix; its text is valid during the call alone.
  using OnPiece = std::function<void(const LinePiece&)>;

  /// Appends prefixed text to `shown`, and matching lines (prefixed too) to `filtered`.
  void feed(std::string_view bytes, std::string& shown, std::string& filtered);
  void feed(std::string_view bytes, const OnPiece& shown, std::string& filtered);
  /// The end of the stream: a last line without newline is passed on as it is.
  void finish(std::string& shown, std::string& filtered);
  void finish(const OnPiece& shown, std::string& filtered);

  /// What has been fed of a line whose end has not: the part that has not been passed on.
  [[nodiscard]] std::string_view unfinished() const { return line_; }
  /// The begin of that line has been passed on.
  [[nodiscard]] bool inside_line() const { return inside_line_; }
  /// A line has begun whose end has not been fed.
  [[nodiscard]] bool has_open_line() const { return inside_line_ || !line_.empty(); }
  /// Passes on what is unfinished, without waiting for its end.
  void release(const OnPiece& shown, std::string& filtered);

 private:
  void pass_on(bool ends, const OnPiece& shown, std::string& filtered);
  OnPiece prefixed(std::string& shown) const;

  std::string prefix_;
  std::vector<std::string> filters_;
  std::string line_;          // begun, not ended
  bool inside_line_ = false;  // its first piece has been passed on
  bool matches_ = false;      // that piece contained a filter's text
};

}  // namespace ddprun
