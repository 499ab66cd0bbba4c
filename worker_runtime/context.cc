#include "worker_runtime/context.h"

#include <exception>

namespace ddp {
namespace {

/// How long a rank that is done holds its connections for those that are not quite.
constexpr std::chrono::seconds kLeavePatience{1};

}  // namespace

Context::Impl::~Impl() {
  // From here on the agent does not watch this worker for hangs: exit handlers may take long.
  progress.enter(Phase::ended);
  if (lifeline) {
    // One that was in flight before init() is not of this context.
    if (std::uncaught_exceptions() > exceptions_before) {
      // Not an orderly end: the report names this rank as the one that the others lose.
      lifeline->report({world.rank, "its worker ended with an exception"});
    } else {
      // Ranks end their last collective at different moments: the connections of the first stay for
      // the others.
      lifeline->leave(kLeavePatience);
    }
  }
  group.reset();  // before the lifeline, which it watches
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

int Context::rank() const {
  return impl_->world.rank;
}
int Context::world_size() const {
  return impl_->world.world_size;
}
int Context::local_rank() const {
  return impl_->world.local_rank;
}
int Context::local_world_size() const {
  return impl_->world.local_world_size;
}
int Context::node_rank() const {
  return impl_->world.node_rank;
}
int Context::restart_count() const {
  return impl_->world.restart_count;
}
Device Context::device() const {
  return impl_->device;
}
ProcessGroup& Context::group() const {
  return *impl_->group;
}
Progress& Context::progress() const {
  return impl_->progress;
}

}  // namespace ddp
