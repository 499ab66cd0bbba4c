// chaos_worker: a training program that keeps accounts, for tests that break everything around it.
// A small linear model over 240 samples, snapshots in the middle of epochs, and beside the weights
// a count per sample of how often it was trained on: saved and restored with the weights, so that
// it tells of the very history that these weights have. What it does goes line by line into the
// file CHAOS_RECORDS (one write() each, so lines are whole), times in ns of CLOCK_MONOTONIC:
//
//   begun TIME ATTEMPT RANK WORLD PID MASTER_ADDR     first thing
//   stepped TIME ATTEMPT RANK                         the attempt's first step is done
//   saved TIME ATTEMPT RANK EPOCH SAMPLES             a snapshot, so far into this epoch
//   unsaved TIME ATTEMPT RANK EPOCH SAMPLES           one that could not be written
//   epoch TIME ATTEMPT RANK EPOCH EXACT WEIGHTS       an epoch is complete; EXACT: 1 when every
//                                                     sample was seen once in each epoch so far
//   left TIME ATTEMPT RANK EPOCHS                     saved as ordered, in the middle of an epoch
//   ended TIME ATTEMPT RANK EPOCHS
//
// While the file CHAOS_HOLD is there each step takes at least CHAOS_STEP_MS and training goes on;
// once no rank sees it, training ends with the epoch. CHAOS_EPOCHS ends it in any case.
// SIGUSR1 makes it exit with 3, SIGUSR2 makes it hang. With CHAOS_DEAF it ignores SIGTERM.
#include <ddp/ddp.h>
#include <ddp/preemption.h>
#include <ddp/snapshot.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kSamples = 240;
constexpr std::size_t kFeatures = 8;
constexpr std::size_t kBatch = 4;
/// At four ranks an epoch is 15 steps, at three it is 20: snapshots fall into the middle of it.
constexpr std::size_t kSaveEvery = 4;
constexpr float kRate = 0.05F;

std::string variable(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

void record(const char* what, const std::string& details) {
  static const int file =
      ::open(variable("CHAOS_RECORDS").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const long long ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  const std::string line = std::string(what) + " " + std::to_string(ns) + " " +
                           variable("TORCHELASTIC_RESTART_COUNT") + " " + variable("RANK") + " " +
                           details + "\n";
  if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::perror("CHAOS_RECORDS");
    std::_Exit(1);
  }
}

/// Feature `column` of a sample, in [-1, 1): any fixed function that mixes will do.
float feature(std::size_t sample, std::size_t column) {
  std::uint64_t z = (sample * kFeatures + column + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 31)) * 0xD6E8FEB86659FD93U;
  return static_cast<float>(z >> 40) / static_cast<float>(1U << 23) - 1;
}

float target(std::size_t sample) {
  float y = 0.25F * feature(sample, kFeatures);  // noise
  for (std::size_t i = 0; i < kFeatures; ++i) {
    y += (static_cast<float>(i) - 3) * feature(sample, i);
  }
  return y;
}

class Training {
 public:
  explicit Training(const ddp::Context& context)
      : context_(&context),
        parameters_{{"weight", ddp::Tensor::zeros({kFeatures}), {}}},
        seen_(ddp::Tensor::zeros({kSamples}, ddp::DType::i64)),
        parallel_(context.group(), parameters_),
        sampler_(kSamples, context.rank(), context.world_size(), {.seed = 7}),
        snapshot_(context, {.path = variable("CHAOS_SNAPSHOT", "snapshot"), .say = {}}),
        tensors_{{"weight", parameters_[0].value}, {"seen", seen_}},
        hold_(variable("CHAOS_HOLD")),
        step_time_(std::stoi(variable("CHAOS_STEP_MS", "0"))),
        epochs_max_(std::stoi(variable("CHAOS_EPOCHS", "1000000"))),
        preemption_(context) {}

  void run() {
    if (const auto state = snapshot_.load("chaos", tensors_)) {
      epoch_ = state->epochs_run;
      samples_done_ = static_cast<std::size_t>(state->samples_done);
      exact_ = state->scalars.at("exact") == 1;
      if (epoch_ > 0) {
        context_->progress().resumed(static_cast<std::uint64_t>(epoch_ - 1));
      }
    }
    while (epoch_ < epochs_max_ && !released_ && !left_) {
      run_epoch();
    }
    if (left_) {
      record("left", std::to_string(epoch_));
      return;
    }
    record("ended", std::to_string(epoch_));
  }

 private:
  void run_epoch() {
    sampler_.start_epoch(static_cast<std::uint64_t>(epoch_), samples_done_);
    const std::size_t steps = sampler_.steps(kBatch);
    bool released = false;
    for (std::size_t step = 0; step < steps; ++step) {
      released = run_step(sampler_.batch(step, kBatch));
      if (parallel_.all_leave() && step + 1 < steps) {
        save(sampler_.samples_done(step + 1, kBatch));
        preemption_.leave();
        left_ = true;
        return;
      }
      if ((step + 1) % kSaveEvery == 0 && step + 1 < steps) {
        save(sampler_.samples_done(step + 1, kBatch));
      }
    }
    ++epoch_;
    samples_done_ = 0;
    released_ = released;
    for (const std::int64_t times : seen_.values<std::int64_t>()) {
      exact_ = exact_ && times == epoch_;
    }
    context_->progress().epoch_done(static_cast<std::uint64_t>(epoch_ - 1));
    record("epoch", std::to_string(epoch_) + " " + (exact_ ? "1 " : "0 ") + weights());
    save(0);
  }

  /// True when no rank sees the file CHAOS_HOLD: all ranks get the same answer.
  bool run_step(std::span<const std::size_t> batch) {
    const auto begin = std::chrono::steady_clock::now();
    const bool held = !hold_.empty() && ::access(hold_.c_str(), F_OK) == 0;
    const auto weight = parameters_[0].value.values<float>();
    const auto gradient = parameters_[0].gradient.values<float>();
    parallel_.begin(static_cast<std::int64_t>(batch.size()), preemption_.asked());
    // What this step sees of each sample, and whether this rank is held.
    const auto told = ddp::Tensor::zeros({kSamples + 1}, ddp::DType::i64);
    told.values<std::int64_t>()[kSamples] = held ? 1 : 0;
    for (const std::size_t sample : batch) {
      told.values<std::int64_t>()[sample] += 1;
      float error = -target(sample);
      for (std::size_t i = 0; i < kFeatures; ++i) {
        error += weight[i] * feature(sample, i);
      }
      for (std::size_t i = 0; i < kFeatures; ++i) {
        gradient[i] += error * feature(sample, i);
      }
    }
    parallel_.gradient_ready(0);
    parallel_.finish();
    context_->group().all_reduce(told);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      weight[i] -= kRate * gradient[i];
    }
    for (std::size_t i = 0; i < kSamples; ++i) {
      seen_.values<std::int64_t>()[i] += told.values<std::int64_t>()[i];
    }
    context_->progress().step();
    if (!std::exchange(stepped_, true)) {
      record("stepped", "");
    }
    if (held) {
      std::this_thread::sleep_until(begin + step_time_);  // allowed: stands for computing
    }
    return told.values<std::int64_t>()[kSamples] == 0;
  }

  void save(std::size_t samples_done) {
    ddp::SnapshotState state;
    state.model = "chaos";
    state.epochs_run = epoch_;
    state.samples_done = static_cast<std::int64_t>(samples_done);
    state.scalars = {{"exact", exact_ ? 1 : 0}};
    const auto result = snapshot_.save(std::move(state), tensors_);
    record(result == ddp::SaveResult::failed ? "unsaved" : "saved",
           std::to_string(epoch_) + " " + std::to_string(samples_done));
    if (result == ddp::SaveResult::saved && epoch_ > 0) {
      context_->progress().saved(static_cast<std::uint64_t>(epoch_ - 1));
    }
  }

  /// The bits of the weights, in hexadecimal.
  [[nodiscard]] std::string weights() const {
    std::string text;
    for (const float w : parameters_[0].value.values<float>()) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &w, sizeof bits);
      std::array<char, 9> hex{};
      std::snprintf(hex.data(), hex.size(), "%08x", bits);
      text += hex.data();
    }
    return text;
  }

  const ddp::Context* context_;
  std::vector<ddp::Parameter> parameters_;
  ddp::Tensor seen_;  // of each sample, how often
  ddp::DistributedDataParallel parallel_;
  ddp::DistributedSampler sampler_;
  ddp::Snapshot snapshot_;
  std::vector<ddp::NamedTensor> tensors_;
  std::string hold_;
  std::chrono::milliseconds step_time_;
  std::int64_t epochs_max_;
  std::int64_t epoch_ = 0;
  std::size_t samples_done_ = 0;
  bool exact_ = true;
  bool stepped_ = false;
  bool released_ = false;
  bool left_ = false;
  ddp::Preemption preemption_;
};

int train(int /*argc*/, char** /*argv*/) {
  record("begun",
         variable("WORLD_SIZE") + " " + std::to_string(::getpid()) + " " + variable("MASTER_ADDR"));
  std::signal(SIGPIPE, SIG_IGN);
  if (!variable("CHAOS_DEAF").empty()) {
    std::signal(SIGTERM, SIG_IGN);
  }
  std::signal(SIGUSR1, [](int) { std::_Exit(3); });
  std::signal(SIGUSR2, [](int) {
    for (;;) {
      ::pause();
    }
  });
  const ddp::Context context = ddp::init();
  Training(context).run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, train);
}
