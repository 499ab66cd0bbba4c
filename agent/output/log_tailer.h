// LogTailer: reads files while workers write them (inotify, never polled) and hands the bytes to
// their sinks. A sink that is full makes its file wait; the file keeps everything meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/output/output_sink.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class LogTailer {
 public:
  /// One inotify instance for all files of an attempt.
  static Result<std::unique_ptr<LogTailer>> create(boost::asio::io_context& io);
  ~LogTailer();
  LogTailer(const LogTailer&) = delete;
  LogTailer& operator=(const LogTailer&) = delete;

  /// Bytes read per turn of the loop, over all files: the agent's other duties get their turn in
  /// between, also while a worker writes 100 MB/s.
  static constexpr std::size_t kBytesPerTurn = 256 * 1024;

  using Sink = OutputSink;

  /// Starts at the file's begin; the file is made if it is not there. A file that shrinks is read
  /// on from its new begin.
  Result<void> follow(const std::string& path, Sink sink);

  /// Nobody writes any more: reads every file to its end, calls each at_end, then `done` (once, on
  /// the loop).
  void finish(std::function<void()> done);

 private:
  struct Impl;

 public:
  /// For create() alone: nobody else can name Impl.
  explicit LogTailer(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
