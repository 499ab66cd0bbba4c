#include "trainer/resnet/resnet_training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "ddp/preemption.h"
#include "trainer/agreement.h"
#include "trainer/balance.h"
#include "trainer/fingerprint.h"
#include "trainer/metrics/resident_memory.h"
#include "trainer/metrics/stopwatch.h"
#include "trainer/metrics/training_log.h"
#include "trainer/optimizer.h"
#include "trainer/product_kernels.h"
#include "trainer/resnet/class_totals.h"
#include "trainer/resnet/passes.h"
#include "trainer/threads.h"
#include "trainer/training_snapshot.h"
#include "trainer/validation_patience.h"

namespace ddp {
namespace {

/// Of the last epoch.
struct Outcome {
  double loss = 0;
  double accuracy = 0;
};

ResnetShape shape_of(const ResnetOptions& options) {
  return {.depth = options.model,
          .stem = options.large_stem ? Stem::large : Stem::small,
          .side = kCifarSide,
          .classes = kCifarClasses};
}

/// Half a cosine over the whole training. By samples and not by steps, so that a change of the
/// world's size in the middle does not move it.
double rate_at(double first_rate, double share_done) {
  return first_rate * (1 + std::cos(std::numbers::pi * std::min(share_done, 1.0))) / 2;
}

TrainingLogOptions log_options(const Context& context, const ResnetOptions& options) {
  TrainingLogOptions log;
  log.rank = context.rank();
  log.world_size = context.world_size();
  log.experiment = options.experiment;
  log.directory = options.metrics;
  log.tensorboard = options.tensorboard;
  log.attempt = next_attempt(context, log.directory);
  log.log_every = options.log_every;
  log.unit = "images";
  log.terminal = stdout_is_terminal();
  return log;
}

/// The training loop of every rank. All ranks take the same path through it: a condition around a
/// collective call must have the same value everywhere.
class ResnetTraining {
 public:
  ResnetTraining(const Context& context, const ResnetOptions& options, const CifarData& data)
      : context_(&context),
        options_(&options),
        data_(&data),
        passes_(make_resnet_passes(shape_of(options), static_cast<std::uint64_t>(options.seed),
                                   context.device())),
        parallel_(context.group(), tensors().parameters, tensors().buffer_tensors(),
                  {.compression = options.parallel.compression}),
        sampler_(data.train.size(), context.rank(), context.world_size(),
                 {.seed = static_cast<std::uint64_t>(options.seed)}),
        balance_(context.group(), options.parallel.balance,
                 batch_size() * static_cast<std::size_t>(context.world_size())),
        part_(context.group(), tensors().parameters, options.parallel.zero),
        optimizer_(tensors().parameters, context.device().is_cuda() ? gpu_kernels() : cpu_kernels(),
                   static_cast<float>(options.learning_rate), static_cast<float>(options.momentum),
                   static_cast<float>(options.weight_decay), part_.own()),
        snapshot_(context, {.path = options.snapshot_path, .keep = options.keep, .say = {}}),
        preemption_(context) {}

  /// The status for main.
  int run() {
    resume();
    if (next_epoch_ < options_->epochs) {
      snapshot_.require_place();
    }
    auto log = log_options(*context_, *options_);
    log.total_steps = step_ + steps_left();
    context_->progress().planned(static_cast<std::uint64_t>(step_),
                                 static_cast<std::uint64_t>(log.total_steps));
    log_.emplace(std::move(log));
    say_start();
    bool validated = false;
    for (auto epoch = next_epoch_; epoch < options_->epochs; ++epoch) {
      if (!run_epoch(epoch)) {
        return snapshot_.leave(preemption_);
      }
      validated = validate(epoch);
      if (epoch + 1 < options_->epochs && leave_if_all(epoch + 1, 0)) {
        return snapshot_.leave(preemption_);
      }
      save(epoch + 1, 0);
    }
    if (next_epoch_ >= options_->epochs) {
      validated = validate(next_epoch_ - 1);  // nothing was left to train
    }
    if (!validated) {
      return snapshot_.leave(preemption_);  // the same command does it, and ends
    }
    say_result();
    snapshot_.require_saved();
    return 0;
  }

 private:
  [[nodiscard]] ModelTensors& tensors() { return passes_->tensors(); }

  [[nodiscard]] std::string model_name() const {
    return fmt::format("resnet{}{}", options_->model, options_->large_stem ? " large stem" : "");
  }

  void say_start() {
    if (context_->device().is_cuda() && context_->rank() == 0) {
      log_->say(fmt::format("ResNet-{} | ranks {} | images {} | on GPUs in bf16", options_->model,
                            context_->world_size(), data_->train.size()));
    }
  }

  [[nodiscard]] std::uint64_t seed() const { return static_cast<std::uint64_t>(options_->seed); }

  [[nodiscard]] std::size_t batch_size() const {
    return static_cast<std::size_t>(options_->batch_size);
  }

  /// `velocities`: of all parameters, as OptimizerPart has them.
  [[nodiscard]] std::vector<NamedTensor> state_tensors(const std::vector<NamedTensor>& velocities) {
    auto state = tensors().buffers;
    for (const auto& [name, value, gradient] : tensors().parameters) {
      state.push_back({name, value});
    }
    state.insert(state.end(), velocities.begin(), velocities.end());
    return state;
  }

  void resume() {
    const auto velocities = part_.gather(optimizer_.state(), true);
    auto state = snapshot_.load(model_name(), state_tensors(velocities));
    if (!state) {
      return;
    }
    part_.scatter(velocities, optimizer_.state());
    const auto seed = state->notes["seed"];
    if (seed != std::to_string(options_->seed)) {
      throw Error(
          fmt::format("{}: snapshot of a run with another --seed than {}; give that run's seed, or "
                      "another --snapshot-path",
                      options_->snapshot_path, options_->seed));
    }
    // Snapshots of earlier builds do not have it.
    const auto data = state->notes.find("data");
    if (data != state->notes.end() && data->second != data_->fingerprint) {
      throw Error(options_->snapshot_path + ": snapshot of a run with other --data than " +
                  options_->data + " holds now; give that run's files, or another --snapshot-path");
    }
    std::printf("Loading snapshot\n");
    balance_.restore(state->notes["balance"]);
    next_epoch_ = state->epochs_run;
    samples_done_ = static_cast<std::size_t>(state->samples_done);
    step_ = static_cast<std::int64_t>(state->scalars["step"]);
    outcome_.loss = state->scalars["loss"];
    if (context_->rank() == 0) {  // the sums are added up over ranks: one of them starts from them
      totals_ = {state->scalars["loss_sum"], state->scalars["correct"], state->scalars["samples"]};
    }
    std::printf("Resuming training from snapshot at Epoch %lld\n",
                static_cast<long long>(next_epoch_));
    if (samples_done_ > 0) {
      std::printf("%zu samples of it are done\n", samples_done_);
    }
    context_->progress().resumed_at_step(static_cast<std::uint64_t>(step_));
  }

  /// In a world of this size.
  [[nodiscard]] std::int64_t steps_left() {
    if (next_epoch_ >= options_->epochs) {
      return 0;
    }
    sampler_.start_epoch(0);
    const auto whole = sampler_.steps(batch_size());
    sampler_.start_epoch(0, samples_done_);
    return static_cast<std::int64_t>(sampler_.steps(batch_size())) +
           static_cast<std::int64_t>(whole) * (options_->epochs - next_epoch_ - 1);
  }

  /// With the shares of now. Returns the steps that are left.
  std::size_t start_epoch(std::int64_t epoch, std::size_t samples_done) {
    sampler_.share_out(balance_.shares());
    sampler_.start_epoch(static_cast<std::uint64_t>(epoch), samples_done);
    return sampler_.steps(batch_size());
  }

  /// A line only where a share has changed: a steady job repeats nothing.
  void agree_on_shares() {
    if (balance_.agree() && context_->rank() == 0) {
      log_->say(fmt::format("step {} | samples of a step by rank {}", step_, balance_.text()));
    }
  }

  /// False when all ranks leave because of an order (ddp/preemption.h).
  bool run_epoch(std::int64_t epoch) {
    auto steps = start_epoch(epoch, std::exchange(samples_done_, 0));
    log_->say(fmt::format("[{}{}] Epoch {} | Batchsize: {} | Steps: {}",
                          context_->device().is_cuda() ? "GPU" : "CPU", context_->rank(), epoch,
                          sampler_.batch(0, batch_size()).size(), steps));
    load(epoch, 0);
    for (std::size_t at = 0; at < steps;) {
      run_step(epoch, at, at + 1 < steps);
      ++at;
      if (at == steps) {
        break;  // reported below, with the loss of the epoch
      }
      context_->progress().step();
      const auto done = sampler_.samples_done(at, batch_size());
      if (leave_if_all(epoch, done)) {
        return false;
      }
      if (step_ % options_->checkpoint_every == 0) {
        save(epoch, done);
      }
      if (balance_.take_change()) {
        steps = start_epoch(epoch, done);
        at = 0;
        load(epoch, at);
      }
    }
    const auto totals = sum_over_ranks(*context_, std::exchange(totals_, {}));
    outcome_.loss = totals.loss / totals.samples;
    context_->progress().step(outcome_.loss);
    if (!std::isfinite(outcome_.loss)) {
      snapshot_.end_not_finite("the loss", "epoch " + std::to_string(epoch));
    }
    context_->progress().epoch_done(static_cast<std::uint64_t>(epoch));
    if (context_->rank() == 0) {
      log_->say(fmt::format("Epoch {} | Loss {:.6f} | Training accuracy {:.2f} %", epoch,
                            outcome_.loss, 100 * totals.correct / totals.samples));
    }
    return true;
  }

  /// The images of step `at`, into memory of the host.
  void load(std::int64_t epoch, std::size_t at) {
    batch_.load(data_->train, sampler_.batch(at, batch_size()), seed(), epoch);
  }

  /// Of the images that load() has brought. Then, where there is a next step, it loads those: on a
  /// GPU, while that computes.
  void run_step(std::int64_t epoch, std::size_t at, bool has_next) {
    Stopwatch watch;
    const auto samples = batch_.size();
    const auto done = static_cast<double>(sampler_.samples_done(at, batch_size())) /
                      static_cast<double>(data_->train.size());
    StepRecord record{.step = ++step_, .epoch = epoch};
    record.learning_rate =
        rate_at(options_->learning_rate,
                (static_cast<double>(epoch) + done) / static_cast<double>(options_->epochs));
    parallel_.begin(static_cast<std::int64_t>(samples), preemption_.asked());
    // The last batch of an epoch may have no sample for this rank; its gradients are 0.
    if (samples > 0) {
      passes_->forward(batch_, true);
      record.forward_s = watch.lap();
      passes_->backward([this](std::size_t i) { parallel_.gradient_ready(i); });
      record.backward_s = watch.lap();
    }
    if (has_next) {
      load(epoch, at + 1);
    }
    if (options_->parallel.balance.automatic && samples > 0) {
      // A GPU's own work must be told apart from the waiting for others, which is finish()'s.
      watch.lap();
      (void)passes_->loss();
      record.backward_s += watch.lap();
    }
    watch.lap();
    parallel_.finish();
    record.sync_s = watch.lap();
    optimizer_.set_rate(static_cast<float>(record.learning_rate));
    optimizer_.step();
    record.update_s = watch.lap();
    part_.share();
    record.sync_s += watch.lap();
    // Last, since it waits for the device: by now that has all of the step to do.
    const ClassLoss loss = samples > 0 ? passes_->loss() : ClassLoss{};
    record.backward_s += watch.lap();
    totals_.add(loss, samples);
    record.loss = loss.sum / static_cast<double>(samples);
    record.data_s = batch_.take_load_s();
    record.snapshot_s = std::exchange(snapshot_s_, 0);
    record.memory_bytes = resident_bytes();
    const double seconds = record.data_s + record.forward_s + record.backward_s + record.sync_s +
                           record.update_s + record.snapshot_s;
    record.units_per_second = static_cast<double>(parallel_.global_sample_count()) / seconds;
    log_->step(record);
    // Without sync_s and snapshot_s: what this rank waited for is no work of its own.
    if (balance_.step_done(
            samples, record.data_s + record.forward_s + record.backward_s + record.update_s)) {
      agree_on_shares();
    }
  }

  /// The test batch, shared out over the ranks. False: it was given up, since all are to leave.
  bool validate(std::int64_t epoch) {
    context_->progress().enter(Phase::evaluating);
    Stopwatch watch;
    parallel_.synchronize_buffers();
    DistributedSampler share(data_->test.size(), context_->rank(), context_->world_size(),
                             {.shuffle = false});
    ClassTotals mine;
    ValidationPatience patience(*context_, preemption_);
    for (std::size_t at = 0; at < share.steps(batch_size()) && !patience.over(); ++at) {
      const auto batch = share.batch(at, batch_size());
      if (!batch.empty()) {
        batch_.load(data_->test, batch, seed(), -1);
        passes_->forward(batch_, false);
        mine.add(passes_->loss(), batch.size());
        context_->progress().alive();
      }
    }
    (void)batch_.take_load_s();  // no step's
    if (patience.over_anywhere()) {
      if (context_->rank() == 0) {
        log_->say(fmt::format("Step {} | No validation: this job is to leave", step_));
      }
      context_->progress().enter(Phase::training);
      return false;
    }
    const auto all = sum_over_ranks(*context_, mine);
    outcome_.accuracy = all.correct / all.samples;
    log_->validation({.step = step_,
                      .epoch = epoch,
                      .loss = all.loss / all.samples,
                      .accuracy = outcome_.accuracy,
                      .seconds = watch.lap()});
    context_->progress().enter(Phase::training);
    return true;
  }

  /// Running statistics are of each rank's own batches; those of rank 0 count, as in PyTorch. They
  /// take no part in training, so to broadcast them here is as good as to do it at each step.
  SaveResult save_state(std::int64_t epochs_run, std::size_t samples_done) {
    Stopwatch watch;
    parallel_.synchronize_buffers();
    SnapshotState state;
    state.model = model_name();
    state.epochs_run = epochs_run;
    state.samples_done = static_cast<std::int64_t>(samples_done);
    // From here on rank 0 has the sums of all, as after a resume: so both add up the same way.
    const auto totals = sum_over_ranks(*context_, totals_);
    totals_ = context_->rank() == 0 ? totals : ClassTotals{};
    state.scalars = {{"step", static_cast<double>(step_)},
                     {"loss", outcome_.loss},
                     {"loss_sum", totals.loss},
                     {"correct", totals.correct},
                     {"samples", totals.samples}};
    // First: the snapshot has the shares of the steps that follow it.
    agree_on_shares();
    state.notes = {{"seed", std::to_string(options_->seed)},
                   {"data", data_->fingerprint},
                   {"balance", balance_.text()}};
    const auto velocities = part_.gather(optimizer_.state(), snapshot_.writes());
    const auto result = snapshot_.save(std::move(state), state_tensors(velocities));
    snapshot_s_ += watch.lap();
    if (result == SaveResult::saved) {
      context_->progress().saved_at_step(static_cast<std::uint64_t>(step_));
    }
    return result;
  }

  /// The rank that writes says so. A save that failed has been reported, and the training goes on.
  void save(std::int64_t epochs_run, std::size_t samples_done) {
    if (save_state(epochs_run, samples_done) == SaveResult::saved) {
      log_->say(
          fmt::format("Step {} | Training snapshot saved at {}", step_, options_->snapshot_path));
    }
  }

  bool leave_if_all(std::int64_t epochs_run, std::size_t samples_done) {
    if (!parallel_.all_leave()) {
      return false;
    }
    if (save_state(epochs_run, samples_done) == SaveResult::saved) {
      log_->say(fmt::format("Step {} | Training snapshot saved at {} | Leaving", step_,
                            options_->snapshot_path));
    }
    return true;
  }

  void say_result() {
    if (context_->rank() != 0) {
      return;
    }
    Fingerprint weights;
    for (const auto& [name, value, gradient] : tensors().parameters) {
      weights.add(value.to_vector<float>().data(), value.size_bytes());
    }
    log_->say(
        fmt::format("Training finished: {} epochs, loss {:.9g}, test accuracy {:.2f} %, weights {}",
                    std::max(options_->epochs, next_epoch_), outcome_.loss, 100 * outcome_.accuracy,
                    weights.text()));
  }

  const Context* context_;
  const ResnetOptions* options_;
  const CifarData* data_;
  std::unique_ptr<ResnetPasses> passes_;
  DistributedDataParallel parallel_;
  DistributedSampler sampler_;
  Balance balance_;
  OptimizerPart part_;
  Sgd optimizer_;
  TrainingSnapshot snapshot_;
  Preemption preemption_;
  std::optional<TrainingLog> log_;  // made when the first step is known
  ImageBatch batch_;
  std::int64_t next_epoch_ = 0;
  std::size_t samples_done_ = 0;  // of the next epoch
  std::int64_t step_ = 0;
  ClassTotals totals_;  // of the epoch so far
  Outcome outcome_;
  double snapshot_s_ = 0;  // since the last step
};

}  // namespace

int train_resnet(const Context& context, const ResnetOptions& options, const CifarData& data) {
  const auto threads = choose_threads(context);
  if (context.device().is_cpu()) {
    say_threads(context, threads);
    make_product_kernels();
  }
  require_same_data(context, data.fingerprint, "the same files");
  return ResnetTraining(context, options, data).run();
}

}  // namespace ddp
