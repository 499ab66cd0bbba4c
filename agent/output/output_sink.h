// OutputSink: where a reader of a worker's output hands what it has read.
#pragma once

#include <functional>
#include <string_view>

#include "agent/output/console.h"

namespace ddprun {

struct OutputSink {
  std::function<void(std::string_view bytes)> take;
  std::function<void()> at_end;  ///< once, after the last byte
  Console* console = nullptr;    ///< before reading on, wait for it when it is full
};

}  // namespace ddprun
