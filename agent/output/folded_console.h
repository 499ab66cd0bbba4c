// FoldedConsole: a StreamFold in front of a console, with the clock and the timer that it needs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/output/console.h"
#include "agent/output/output_sink.h"
#include "agent/output/stream_fold.h"

namespace ddprun {

class FoldedConsole {
 public:
  /// `console` outlives it.
  FoldedConsole(boost::asio::io_context& io, Console& console, StreamFold fold);
  /// Shows what still waits. Sinks may outlive it: what they take then is swallowed.
  ~FoldedConsole();
  FoldedConsole(const FoldedConsole&) = delete;
  FoldedConsole& operator=(const FoldedConsole&) = delete;

  /// For one stream; see StreamFold::join. `filtered` gets the text of matching lines.
  OutputSink sink(int stream, std::string prefix = {}, std::vector<std::string> filters = {},
                  std::function<void(std::string_view)> filtered = nullptr);
  /// Shows everything that waits.
  void flush();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
