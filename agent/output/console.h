// Console: one of the agent's own standard streams, as a sink that never blocks the loop. What a
// slow reader does not take waits in a bounded buffer; writers look at full() and come back.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "agent/output/open_line.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class Console {
 public:
  /// `fd` stays the caller's. Its flags are not changed, since the user's shell shares them.
  Console(boost::asio::io_context& io, int fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  static constexpr std::size_t kBufferBytesMax = 1024 * 1024;

  /// Writes what the stream takes at once and keeps the rest. What meets an error (a closed pipe, a
  /// full disk) is swallowed: the workers and their files matter more than the console.
  void write(std::string_view bytes);
  /// The same of one of several streams that are shown by lines (open_line.h).
  void write_from(const void* stream, std::string_view bytes);
  /// Escape sequences after which the cursor stands at the begin of a line.
  void write_escapes(std::string_view bytes);
  /// Something else writes a line to the same descriptor: ends one that has no end yet.
  void end_line();
  /// errno of the first error; 0: there was none.
  [[nodiscard]] int failure() const;
  /// Everything is swallowed from here on: the reader is gone.
  [[nodiscard]] bool is_broken() const;
  /// kBufferBytesMax or more wait.
  [[nodiscard]] bool full() const;
  /// Called once, on the loop, when it is not full any more.
  void on_room(std::function<void()> callback);
  /// Called once, on the loop, when nothing waits any more.
  void on_flushed(std::function<void()> callback);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  OpenLine line_;  ///< of streams that are shown by lines
  bool has_open_line_ = false;
};

}  // namespace ddprun
