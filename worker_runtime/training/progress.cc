#include <utility>

#include "ddp/ddp.h"
#include "worker_runtime/collectives/collective_progress.h"
#include "worker_runtime/training/progress_impl.h"

namespace ddp {
// The public enum and that of the page are cast into each other.
static_assert(static_cast<int>(Phase::ended) == static_cast<int>(ddprun::WorkPhase::ended));
static_assert(static_cast<int>(Phase::saving) == static_cast<int>(ddprun::WorkPhase::saving));

ddprun::ProgressChannel* ProgressInside::channel(const Progress& progress) {
  return progress.impl_ ? &progress.impl_->channel : nullptr;
}

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
  const std::int64_t now = monotonic_ns();
  // The first step ends the downtime of a restart, so its time is kept for itself.
  if (page.steps.load() == 0) {
    page.first_step_ns = now;
    page.phase = static_cast<std::uint64_t>(ddprun::WorkPhase::training);
  }
  page.changed_ns = now;
  if (loss) {
    page.loss = *loss;
    page.has_loss = 1;
  }
  // Last: an agent that reads the new count finds its time and loss in place.
  ++page.steps;
}

void Progress::planned(std::uint64_t done, std::uint64_t total) {
  if (impl_) {
    impl_->channel.page().run_steps_before = done;
    impl_->channel.page().run_steps = total;
  }
}

void Progress::alive() {
  if (impl_) {
    impl_->channel.page().changed_ns = monotonic_ns();
  }
}

void Progress::enter(Phase phase) {
  if (impl_) {
    impl_->channel.page().phase = static_cast<std::uint64_t>(phase);
    alive();
  }
}

Phase Progress::phase() const {
  return impl_ ? static_cast<Phase>(impl_->channel.page().phase.load()) : Phase::starting;
}

void Progress::epoch_done(std::uint64_t epoch) {
  if (impl_) {
    // 0 means that no epoch is done yet; so it is with the others that end in plus_1.
    impl_->channel.page().epoch_plus_1 = epoch + 1;
  }
}

void Progress::resumed(std::uint64_t epoch) {
  if (impl_) {
    impl_->channel.page().resumed_plus_1 = epoch + 1;
  }
}

void Progress::saved(std::uint64_t epoch) {
  saved(epoch, now());
}

void Progress::resumed_at_step(std::uint64_t step) {
  if (impl_) {
    impl_->channel.page().numbered_by_step = 1;
    resumed(step);
  }
}

void Progress::saved_at_step(std::uint64_t step) {
  saved_at_step(step, now());
}

void Progress::saved_at_step(std::uint64_t step, const Moment& then) {
  if (impl_) {
    impl_->channel.page().numbered_by_step = 1;
    saved(step, then);
  }
}

Progress::Moment Progress::now() const {
  return {impl_ ? impl_->channel.page().steps.load() : 0, monotonic_ns()};
}

void Progress::saved(std::uint64_t epoch, const Moment& then) {
  if (impl_) {
    ddprun::ProgressPage& page = impl_->channel.page();
    // A sequence lock: odd while the values change, so the agent never mixes two saves
    // (newest_save).
    ++page.save_version;
    page.saved_ns = then.at_ns;
    page.saved_steps = then.steps;
    page.saved_plus_1 = epoch + 1;
    ++page.save_version;
  }
}

}  // namespace ddp
