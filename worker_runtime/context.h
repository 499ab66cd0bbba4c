// The inside of ddp::Context.
#pragma once

#include <exception>
#include <memory>

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

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();
};

}  // namespace ddp
