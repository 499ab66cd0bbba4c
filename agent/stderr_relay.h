// StderrRelay: a worker's stderr that nobody redirected. It goes to the agent's own stderr as it
// is, byte for byte, and its last lines are kept, so that a failure can be explained without any
// decorator in the script (field I-19).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/console.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class StderrRelay {
 public:
  /// A pipe whose read end is ours. `console` outlives the relay.
  static Result<std::unique_ptr<StderrRelay>> create(boost::asio::io_context& io, Console& console);
  /// The same for a rank that --local-ranks-filter keeps off the console: only the tail is kept.
  static Result<std::unique_ptr<StderrRelay>> create_hidden(boost::asio::io_context& io);
  ~StderrRelay();
  StderrRelay(const StderrRelay&) = delete;
  StderrRelay& operator=(const StderrRelay&) = delete;

  /// What the worker opens as its stderr: the write end, by its name under /proc.
  [[nodiscard]] std::string path() const;
  /// Once the worker has been spawned: the pipe then ends with the last process that writes to it.
  void close_write_end();

  /// The last lines so far, after reading whatever is in the pipe. At most kStderrTailBytesMax.
  [[nodiscard]] std::string tail();

 private:
  struct Impl;

 public:
  /// For create() alone: nobody else can name Impl.
  explicit StderrRelay(std::shared_ptr<Impl> impl);

 private:
  static Result<std::unique_ptr<StderrRelay>> make(boost::asio::io_context& io, Console* console);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
