// The inside of ddp::Context.
#pragma once

#include <exception>
#include <memory>
#include <thread>

#include "ddp/ddp.h"
#include "worker_runtime/bootstrap/peer_monitor.h"
#include "worker_runtime/bootstrap/world.h"
#include "worker_runtime/failure/stack_on_demand.h"

namespace ddp {

struct Context::Impl {
  World world;
  std::unique_ptr<PeerMonitor> lifeline;  ///< null in a world of one
  std::unique_ptr<ProcessGroup> group;
  Device device;
  Progress progress;
  std::unique_ptr<StackOnDemand> stacks;  ///< null without an agent that asks
  int exceptions_before = std::uncaught_exceptions();
  bool failed = false;       ///< an exception ended the context
  std::jthread late_report;  ///< tells the others where the record takes too long

  /// An exception ends the context now. One that was in flight before init() is not of it.
  [[nodiscard]] bool ends_by_exception() const;
  /// The end has begun, but the others are told only when this object goes, or after a while.
  void fail();

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();
};

}  // namespace ddp
