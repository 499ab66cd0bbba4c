#include "worker_runtime/context.h"

#include <exception>

namespace ddp {
namespace {

/// How long a rank that is done holds its connections for those that are not quite.
constexpr std::chrono::seconds kLeavePatience{1};

}  // namespace

Context::Impl::~Impl() {
  progress.enter(Phase::ended);
  if (lifeline) {
    if (std::uncaught_exceptions() > exceptions_before) {
      // Not an end in order: the others must hear that it is this rank they lose.
      lifeline->report({world.rank, "its worker ended with an exception"});
    } else {
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
