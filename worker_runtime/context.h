// The inside of ddp::Context.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "ddp/ddp.h"
#include "worker_runtime/bootstrap/peer_monitor.h"
#include "worker_runtime/bootstrap/world.h"
#include "worker_runtime/failure/stack_on_demand.h"

namespace ddp {

/// The process whose context lives and has peers; 0: none. Here and in a child that was forked.
extern std::atomic<pid_t> process_with_peers;

struct Context::Impl {
  World world;
  std::unique_ptr<PeerMonitor> lifeline;  ///< null in a world of one
  std::unique_ptr<ProcessGroup> group;
  Device device;
  Progress progress;
  std::unique_ptr<StackOnDemand> stacks;  ///< null without an agent that asks
  int exceptions_before = std::uncaught_exceptions();
  pid_t owner = ::getpid();  ///< a forked child has this object, too, and no part in the world
  bool is_counted = false;   ///< as the one context that a process may have
  bool failed = false;       ///< an exception ended the context
  std::jthread late_report;  ///< tells the others where the record takes too long

  /// An exception ends the context now. One that was in flight before init() is not of it.
  [[nodiscard]] bool ends_by_exception() const;
  /// Whether another process than the one that called init() has it.
  [[nodiscard]] bool is_forked() const { return ::getpid() != owner; }
  /// The end has begun, but the others are told only when this object goes, or after a while.
  void fail();

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();
};

}  // namespace ddp
