// OutputPump: a worker's stderr that nobody redirected (on a terminal its stdout with it) on its
// way to the console. Its last lines are kept, so that a failure can be explained without any
// decorator in the script (field I-19).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/output/console.h"
#include "agent/output/output_sink.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class OutputPump {
 public:
  /// A pipe whose read end is ours; what comes out is `sink`'s. Its console outlives the relay.
  static Result<std::unique_ptr<OutputPump>> create(boost::asio::io_context& io, OutputSink sink);
  /// The same, shown byte for byte.
  static Result<std::unique_ptr<OutputPump>> create(boost::asio::io_context& io, Console& console);
  /// The same for a rank that --local-ranks-filter keeps off the console: only the tail is kept.
  static Result<std::unique_ptr<OutputPump>> create_hidden(boost::asio::io_context& io);
  /// A terminal in place of the pipe, with the size and attributes of the terminal `like`. An Error
  /// where the system gives none (pseudo_terminal.h).
  static Result<std::unique_ptr<OutputPump>> create_terminal(boost::asio::io_context& io,
                                                             OutputSink sink, int like);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  /// What comes in one turn of the loop at most: the agent's other duties get their turn in
  /// between, also while a worker writes 100 MB/s.
  static constexpr std::size_t kBytesPerTurn = 64 * 1024;

  /// What the worker opens as its stderr: the write end, by its name under /proc.
  [[nodiscard]] std::string path() const;
  /// Once the worker has been spawned: the relay then ends with the last process that writes to it.
  void close_write_end();
  /// Gives a terminal the size that `like` has now; nothing for a pipe.
  void copy_window_size_of(int like);

  /// The last lines so far, as a terminal would show them (output_tail.h), after reading whatever
  /// waits to be read. At most kStderrTailBytesMax.
  [[nodiscard]] std::string tail();

 private:
  struct Impl;

 public:
  /// For create() alone: nobody else can name Impl.
  explicit OutputPump(std::shared_ptr<Impl> impl);

 private:
  static std::unique_ptr<OutputPump> start(boost::asio::io_context& io, OutputSink sink, int ours,
                                           int workers);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
