#include <time.h>

#include <utility>

#include "worker_runtime/progress_impl.h"

namespace ddp {
namespace {

/// Of the clock that the agent compares it with.
std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Progress Progress::attach(const char* channel_path) {
  Progress progress;
  if (channel_path != nullptr && *channel_path != 0) {
    auto channel = ddprun::ProgressChannel::attach(channel_path);
    if (channel) {
      progress.impl_ = std::make_shared<Impl>(Impl{std::move(*channel)});
    }  // else: the agent that named it is gone, and nobody is left to read
  }
  return progress;
}

void Progress::step(std::optional<double> loss) {
  if (!impl_) {
    return;
  }
  ddprun::ProgressPage& page = impl_->channel.page();
  if (page.steps.load() == 0) {
    page.first_step_ns = now_ns();
  }
  if (loss) {
    page.loss = *loss;
    page.has_loss = 1;
  }
  ++page.steps;
}

void Progress::epoch_done(std::uint64_t epoch) {
  if (impl_) {
    impl_->channel.page().epoch_plus_1 = epoch + 1;
  }
}

void Progress::resumed(std::uint64_t epoch) {
  if (impl_) {
    impl_->channel.page().resumed_plus_1 = epoch + 1;
  }
}

void Progress::saved(std::uint64_t epoch) {
  if (impl_) {
    ddprun::ProgressPage& page = impl_->channel.page();
    ++page.save_version;
    page.saved_ns = now_ns();
    page.saved_steps = page.steps.load();
    page.saved_plus_1 = epoch + 1;
    ++page.save_version;
  }
}

}  // namespace ddp
