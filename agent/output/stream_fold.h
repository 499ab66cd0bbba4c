// StreamFold: bytes of several workers' streams -> the text of one console, folded. It cuts the
// streams into lines for LineFold, and knows how long a line without its end may wait. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/output/line_fold.h"
#include "agent/output/log_filter.h"

namespace ddprun {

class StreamFold {
 public:
  using Time = LineFold::Time;

  /// What becomes of a line that has no end yet.
  enum class Unfinished {
    kept,    ///< waits for it, as LogFilter has it: teed streams are shown by lines
    passed,  ///< a prompt or a progress bar is to be seen: within kWait, at once when it has a
             ///< carriage return, when its begin is seen already, or when its worker is alone
  };

  StreamFold(int streams, Unfinished unfinished, const LineFold::Label& label);

  /// From now on this stream is waited for. `prefix` and `filters`: LogFilter's, for `filtered`;
  /// only where unfinished lines are kept.
  void join(int stream, std::string prefix, std::vector<std::string> filters);
  /// Appends what can be shown to `shown`, and lines that match a filter to `filtered`: those at
  /// once, each with its own worker's prefix.
  void feed(int stream, std::string_view bytes, Time now, std::string& shown,
            std::string& filtered);
  /// Nobody writes to this stream any more.
  void end(int stream, Time now, std::string& shown, std::string& filtered);

  /// As LineFold's.
  void tick(Time now, std::string& shown);
  [[nodiscard]] std::optional<Time> deadline() const;
  /// The begin of a line that matches a filter, and the stream that it came from.
  using OnFiltered = std::function<void(int stream, std::string_view text)>;
  /// Everything that waits, lines without an end included.
  void flush(Time now, std::string& shown, const OnFiltered& on_filtered);

 private:
  struct Stream {
    LogFilter filter;
    std::optional<Time> unfinished_until;
  };
  LogFilter::OnPiece adder(int stream, Time now, std::string& shown);
  void release(int stream, Time now, std::string& shown, std::string& filtered);
  std::string_view pass_whole_lines(int stream, std::string_view bytes, Time now,
                                    std::string& shown, std::string& filtered);

  Unfinished unfinished_;
  LineFold fold_;
  std::vector<Stream> streams_;
};

}  // namespace ddprun
