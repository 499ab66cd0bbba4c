// StackCollector: the stacks of workers that hang, before they are ended. What each offers is used,
// all within kStackPatience and without holding up the loop:
//   - what /proc tells of each thread (thread_states.h): always, also of what cannot react;
//   - the worker runtime's own handler, one thread after the other
//   (worker_runtime/stack_on_demand);
//   - for those that have no such handler, or do not answer: py-spy for Python, eu-stack or gdb,
//     where they are on PATH.
// A Python worker without py-spy tells its stack as it ends: see Attempt::signal_all.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/contract/progress_channel.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

inline constexpr std::chrono::milliseconds kStackPatience{3'000};

struct StackTarget {
  int rank = 0;
  pid_t pid = 0;                     ///< not reaped while the stacks are taken, or another's
  const ProgressChannel* channel{};  ///< outlives the taker
  std::string path;                  ///< file to write; empty: none
  const char* why = "the job hung; stacks taken before it was ended";  ///< for that file
};

/// The newest frames of one worker, to be shown: of its main thread.
using NewestFrames = std::string;

class StackCollector {
 public:
  /// Begins; `done` is called on the loop, never from within, with one text for each target.
  StackCollector(boost::asio::io_context& io, std::vector<StackTarget> targets,
                 std::function<void(std::vector<NewestFrames>)> done);
  /// Before `done`: gives up, and ends the tools.
  ~StackCollector();
  StackCollector(const StackCollector&) = delete;
  StackCollector& operator=(const StackCollector&) = delete;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Pure. Of what the runtime's handler wrote: the first thread's frames, those of the handler left
/// out, C++ names in full; at most `bytes_max` in whole lines.
std::string newest_frames(std::string_view stacks, std::size_t bytes_max);
/// Pure. The frames of the last thread in what Python's faulthandler wrote to stderr (its main
/// thread comes last); empty when there are none.
std::string python_frames(std::string_view stderr_tail, std::size_t bytes_max);

}  // namespace ddprun
