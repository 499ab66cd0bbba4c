// LogFollower: reads files while workers write them (inotify, never polled) and hands the bytes to
// their sinks. Console: the agent's own standard streams as a sink that never blocks the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

/// One of the agent's standard streams. Writes never block the loop: what a slow reader does not
/// take waits in a bounded buffer, and followers stop reading their files meanwhile (the files keep
/// everything, so nothing is lost). The descriptor's flags are not changed: the user's shell shares
/// them.
class Console {
 public:
  Console(boost::asio::io_context& io, int fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  static constexpr std::size_t kBufferBytesMax = 1024 * 1024;

  void write(std::string_view bytes);
  /// More than kBufferBytesMax waits: come back after `on_room`.
  [[nodiscard]] bool full() const;
  /// Called once on the loop when it is no longer full (or has failed: then it swallows all).
  void on_room(std::function<void()> callback);
  /// Called once on the loop when all has been written (at once when nothing waits).
  void on_flushed(std::function<void()> callback);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Follows any number of files of one attempt with one inotify instance.
class LogFollower {
 public:
  static Result<std::unique_ptr<LogFollower>> create(boost::asio::io_context& io);
  ~LogFollower();
  LogFollower(const LogFollower&) = delete;
  LogFollower& operator=(const LogFollower&) = delete;

  /// Takes bytes in order. Returns the console to wait for when it is full, else nullptr.
  using Sink = std::function<Console*(std::string_view bytes)>;

  /// Starts at the file's begin; the file is made if it is not there. A file that shrinks is read
  /// on from its new begin. At most 256 KiB are read per turn of the loop, so that the agent's
  /// other duties go on while a worker writes 100 MB/s.
  Result<void> follow(const std::string& path, Sink sink, std::function<void()> at_end);

  /// Nobody writes any more: reads every file to its end, calls each `at_end`, then `done`.
  void finish(std::function<void()> done);

 private:
  struct Impl;
  explicit LogFollower(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
