#include <time.h>

#include <utility>

#include "worker_runtime/progress_impl.h"

namespace ddp {

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
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);  // the clock that the agent compares it with
    page.first_step_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
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
    impl_->channel.page().saved_plus_1 = epoch + 1;
  }
}

}  // namespace ddp
