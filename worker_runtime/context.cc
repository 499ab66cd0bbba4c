#include "worker_runtime/context.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <utility>

#include "worker_runtime/failure/recording.h"

namespace ddp {
namespace {

/// How long a rank that is done holds its connections for those that are not quite.
constexpr std::chrono::seconds kLeavePatience{1};

/// How long the others wait for the record of a rank that failed. The disk may hang, or the program
/// may catch the exception and go on.
constexpr std::chrono::seconds kRecordPatience{3};

PeerLoss loss_of(int rank) {
  return {rank, "its worker ended with an exception"};
}

}  // namespace

bool Context::Impl::ends_by_exception() const {
  return std::uncaught_exceptions() > exceptions_before;
}

void Context::Impl::fail() {
  failed = true;
  // From here on the agent does not watch this worker for hangs: exit handlers may take long.
  progress.enter(Phase::ended);
  if (!lifeline) {
    return;
  }
  late_report = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, stop, kRecordPatience, [] { return false; });
    if (!stop.stop_requested()) {
      lifeline->report(loss_of(world.rank));
    }
  });
}

std::atomic<pid_t> process_with_peers{0};

Context::Impl::~Impl() {
  if (is_forked()) {
    // Its threads do not run here, and what it says goodbye by is the parent's connection.
    static_cast<void>(lifeline.release());
    static_cast<void>(group.release());
    static_cast<void>(stacks.release());
    if (late_report.joinable()) {
      late_report.detach();
    }
    return;
  }
  progress.enter(Phase::ended);
  late_report = {};  // joins it
  if (lifeline) {
    if (failed || ends_by_exception()) {
      // Not an orderly end: the report names this rank as the one that the others lose.
      lifeline->report(loss_of(world.rank));
    } else {
      // Ranks end their last collective at different moments: the connections of the first stay for
      // the others.
      lifeline->leave(kLeavePatience);
    }
  }
  group.reset();  // before the lifeline, which it watches
  if (is_counted) {
    process_with_peers = 0;
  }
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

/// A peer that sees this rank gone may end before this rank has said why. Its agent would then stop
/// this worker, and the cause would be lost: so the connections stay until the record is written.
Context::~Context() {
  if (!impl_ || impl_->is_forked() || !impl_->ends_by_exception() || !is_recording()) {
    return;
  }
  try {
    impl_->fail();
    keep_until_recorded(std::move(impl_));
  } catch (const std::exception&) {
    // No thread or memory is left: the others are told at once, as without record().
  }
}

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
