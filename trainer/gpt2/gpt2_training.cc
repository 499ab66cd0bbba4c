#include "trainer/gpt2/gpt2_training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "ddp/preemption.h"
#include "trainer/adamw.h"
#include "trainer/agreement.h"
#include "trainer/cosine_schedule.h"
#include "trainer/fingerprint.h"
#include "trainer/gpt2/gpt2_export.h"
#include "trainer/gpt2/gpt2_state.h"
#include "trainer/gpt2/gpt2_validation.h"
#include "trainer/gpt2/model.h"
#include "trainer/gpt2/progress_line.h"
#include "trainer/gpt2/step_meter.h"
#include "trainer/gpt2/token_buffer.h"
#include "trainer/gpt2/training_place.h"
#include "trainer/metrics/resident_memory.h"
#include "trainer/metrics/stopwatch.h"
#include "trainer/metrics/training_log.h"
#include "trainer/training_snapshot.h"

namespace ddp {
namespace {

/// Losses (nats) of so many targets.
struct LossSum {
  double sum = 0;
  double count = 0;
};

/// The training loop of every rank. All ranks take the same path through it: load(), validation and
/// the steps are collective calls, which wait for every rank, so a condition around one of them
/// must have the same value everywhere.
class Gpt2Training {
 public:
  Gpt2Training(const Context& context, const Gpt2Options& options, const Gpt2Source& source,
               const Gpt2Data& data)
      : context_(&context),
        options_(&options),
        source_(&source),
        data_(&data),
        model_(source.config, std::min(batch_size(), data.train_samples()), data.time(),
               context.device(), options.precision),
        buffer_(data, std::min(batch_size(), data.train_samples())),
        parallel_(context.group(), with_first_weights(source, options.seed, model_.parameters()),
                  {}, {.compression = options.parallel.compression}),
        sampler_(data.train_samples(), context.rank(), context.world_size(),
                 {.seed = options.seed}),
        balance_(context.group(), options.parallel.balance,
                 step_size() * static_cast<std::size_t>(context.world_size())),
        part_(context.group(), model_.parameters(), options.parallel.zero),
        optimizer_(model_.parameters(), f32_layers(context.device()), options.adamw, part_.own()),
        snapshot_(context,
                  {.path = options.snapshot_path(), .keep = options.snapshots.keep, .say = {}}),
        preemption_(context) {}

  int run() {
    resume();
    plan_schedule();
    if (goes_on()) {
      snapshot_.require_place();
    }
    say_start();
    open_log();
    meter_.take();
    while (goes_on()) {
      if (!run_epoch()) {
        return snapshot_.leave(preemption_);
      }
    }
    if (place_.saved_step != place_.step) {
      save();
    }
    if (!finish()) {
      return snapshot_.leave(preemption_);
    }
    snapshot_.require_saved();
    return 0;
  }

 private:
  [[nodiscard]] bool goes_on() const {
    return place_.epoch < options_->num_epochs && place_.step < schedule_.total_steps;
  }
  [[nodiscard]] bool speaks() const { return context_->rank() == 0; }

  [[nodiscard]] std::size_t batch_size() const {
    return static_cast<std::size_t>(options_->batch_size);
  }
  [[nodiscard]] std::size_t accumulation() const {
    return static_cast<std::size_t>(options_->accumulation);
  }
  /// Of a step's samples on this rank, at most a batch each. Ranks may make different numbers of
  /// them, but reduce gradients once all the same.
  [[nodiscard]] std::size_t micro_steps(std::size_t samples) const {
    return samples == 0 ? 1 : (samples - 1) / batch_size() + 1;
  }
  /// Samples of one rank's step, of all ranks' the mean. An epoch has no more.
  [[nodiscard]] std::size_t step_size() const {
    const std::size_t all = std::max<std::size_t>(1, data_->train_samples());
    return accumulation() > all / batch_size() ? all : batch_size() * accumulation();
  }

  void resume() {
    // With --zero places for all moments, of which a part is kept: load() knows none of ranks.
    const auto moments = part_.gather(optimizer_.state(), true);
    const auto state =
        snapshot_.load(describe(model_.config()), gpt2_state_tensors(model_.parameters(), moments));
    if (!state) {
      return;
    }
    part_.scatter(moments, optimizer_.state());
    require_same_run(*state, options_->snapshot_path(), options_->seed, data_->fingerprint());
    if (const auto shares = state->notes.find("balance"); shares != state->notes.end()) {
      balance_.restore(shares->second);
    }
    place_.epoch = state->epochs_run;
    place_.samples_done = static_cast<std::size_t>(state->samples_done);
    place_.step = steps_done(*state, options_->snapshot_path());
    place_.saved_step = place_.step;
    // The tutorials' lines, word for word: people search their logs for them.
    std::printf("Loading snapshot\nResuming training from snapshot at Epoch %lld\n",
                static_cast<long long>(place_.epoch));
    std::printf("%lld steps are done, %zu samples of this epoch\n",
                static_cast<long long>(place_.step), place_.samples_done);
    context_->progress().resumed_at_step(static_cast<std::uint64_t>(place_.step));
  }

  /// The steps that are left depend on the world's size, so they are counted at every start.
  void plan_schedule() {
    sampler_.start_epoch(static_cast<std::uint64_t>(place_.epoch), place_.samples_done);
    auto left = static_cast<std::int64_t>(sampler_.steps(step_size()));
    sampler_.start_epoch(static_cast<std::uint64_t>(place_.epoch));
    left += (options_->num_epochs - place_.epoch - 1) *
            static_cast<std::int64_t>(sampler_.steps(step_size()));
    const std::int64_t total = place_.step + (place_.epoch < options_->num_epochs ? left : 0);
    schedule_ = {.peak = options_->rate(model_.config().channels),
                 .warmup_steps = options_->warmup_steps,
                 .total_steps = std::min(total, options_->max_steps.value_or(total))};
    context_->progress().planned(static_cast<std::uint64_t>(place_.step),
                                 static_cast<std::uint64_t>(schedule_.total_steps));
  }

  void say_start() const {
    if (!speaks()) {
      return;
    }
    std::printf(
        "GPT-2 %s | parameters %zu | ranks %d | samples %zu of %zu tokens | "
        "held out %zu | steps %lld | optimizer_mb %.3f%s\n",
        options_->model.c_str(), parameter_count(model_.config()), context_->world_size(),
        data_->train_samples(), data_->time(), data_->validation_samples(),
        static_cast<long long>(schedule_.total_steps),
        static_cast<double>(size_bytes(optimizer_.state())) / 1e6,
        precision_text(context_->device(), options_->precision));
  }

  void open_log() {
    log_.emplace(TrainingLogOptions{.rank = context_->rank(),
                                    .world_size = context_->world_size(),
                                    .experiment = options_->experiment_name,
                                    .directory = options_->outputs.metrics,
                                    .tensorboard = options_->outputs.tensorboard,
                                    .attempt = next_attempt(*context_, options_->outputs.metrics),
                                    .total_steps = schedule_.total_steps,
                                    .log_every = options_->outputs.log_freq,
                                    .unit = "tokens",
                                    .terminal = stdout_is_terminal(),
                                    .plain_lines = false});
  }

  /// From place_.samples_done on, with the shares of now. Returns the steps that are left.
  std::size_t start_epoch() {
    sampler_.share_out(balance_.shares());
    sampler_.start_epoch(static_cast<std::uint64_t>(place_.epoch), place_.samples_done);
    return sampler_.steps(step_size());
  }

  /// From place_.samples_done to the epoch's end, or to the last step. False when all ranks leave
  /// because of an order (ddp/preemption.h).
  bool run_epoch() {
    std::size_t steps = start_epoch();
    for (std::size_t step = 0; step < steps && place_.step < schedule_.total_steps;) {
      const double norm = run_step(sampler_.batch(step, step_size()));
      place_.samples_done = sampler_.samples_done(++step, step_size());
      const bool last = step == steps;
      if (last) {
        ++place_.epoch;
        place_.samples_done = 0;
      }
      after_step(norm, last);
      // After the last step there is nothing left to leave: the job ends with its result.
      if (parallel_.all_leave() && place_.step < schedule_.total_steps) {
        if (place_.saved_step != place_.step) {
          save();
        }
        say_saved(snapshot_.wait());
        return false;
      }
      if (!last && balance_.take_change()) {
        steps = start_epoch();
        step = 0;
      }
    }
    return true;
  }

  /// Backward of the first step has shown in which order gradients become complete.
  void rebuild_buckets_once() {
    if (!std::exchange(buckets_rebuilt_, true)) {
      parallel_.rebuild_buckets(model_.parameters());
    }
  }

  /// Returns the gradients' norm.
  double run_step(std::span<const std::size_t> samples) {
    const bool leave = preemption_.asked();
    const LossSum earlier = loss_;
    const std::size_t parts = micro_steps(samples.size());
    for (std::size_t micro = 0; micro < parts; ++micro) {
      const std::size_t first = std::min(micro * batch_size(), samples.size());
      const Gradients before = micro == 0 ? Gradients::zero : Gradients::sums;
      const auto part = samples.subspan(first, std::min(batch_size(), samples.size() - first));
      if (micro + 1 < parts) {
        const auto guard = parallel_.no_sync();
        run_micro_step(part, leave, before);
      } else {
        run_micro_step(part, leave, before);
      }
    }
    rebuild_buckets_once();
    const double norm = optimizer_.gradient_norm();
    if (std::isfinite(norm)) {
      optimizer_.step(place_.step + 1, schedule_.rate(place_.step), norm);
      meter_.spent(&StepTimes::update_s);
      part_.share();
    }
    // With --zero the rank waits for the values of others here.
    meter_.spent(&StepTimes::sync_s);
    const StepTimes times = meter_.step_done();
    const double targets = loss_.count - earlier.count;
    record_ = record_of(times);
    record_.step = place_.step + 1;
    record_.epoch = place_.epoch;
    record_.loss = (loss_.sum - earlier.sum) / targets;  // NaN where this rank had no sample
    record_.learning_rate = schedule_.rate(place_.step);
    record_.units_per_second = static_cast<double>(parallel_.global_sample_count()) / times.total_s;
    record_.memory_bytes = resident_bytes();
    ++place_.step;
    if (balance_.step_done(samples.size(), own_work_s(times))) {
      agree_on_shares();
    }
    return norm;
  }

  /// A line only where a share has changed: a steady job repeats nothing.
  void agree_on_shares() {
    if (balance_.agree() && speaks()) {
      log_->say(
          fmt::format("step {} | samples of a step by rank {}", place_.step, balance_.text()));
    }
  }

  void run_micro_step(std::span<const std::size_t> samples, bool leave, Gradients before) {
    const TokenBatch batch = buffer_.train(samples);
    meter_.spent(&StepTimes::data_s);
    const std::size_t counted = TokenBuffer::counted(batch);
    parallel_.begin(static_cast<std::int64_t>(counted), leave);
    loss_.sum += model_.forward(batch);
    loss_.count += static_cast<double>(counted);
    meter_.spent(&StepTimes::forward_s);
    model_.backward(
        batch, [this](std::size_t i) { parallel_.gradient_ready(i); }, before);
    meter_.spent(&StepTimes::backward_s);
    parallel_.finish();
    meter_.spent(&StepTimes::sync_s);
  }

  void after_step(double norm, bool epoch_done) {
    if (!std::isfinite(norm)) {
      // The same gradients, so the same decision on every rank.
      snapshot_.end_not_finite("the norm of the gradients", "step " + std::to_string(place_.step));
    }
    log_->step(record_);
    say_saved(snapshot_.poll());
    const bool last = place_.step >= schedule_.total_steps;
    if (place_.step % options_->outputs.log_freq == 0 || last) {
      log_progress(norm);
    } else {
      context_->progress().step();
    }
    if (epoch_done) {
      context_->progress().epoch_done(static_cast<std::uint64_t>(place_.epoch - 1));
    }
    if (place_.step % options_->snapshots.ckpt_freq == 0) {
      if (!last) {
        say_validation();  // the last step has its own, at the end
      }
      save();
    }
  }

  /// Mean loss of the whole job since the last line, and where the time went on this rank.
  void log_progress(double norm) {
    const auto sums = Tensor::from<double>({loss_.sum, loss_.count});
    loss_ = {};
    context_->group().all_reduce(sums);
    const auto values = sums.values<double>();
    const double loss = values[0] / values[1];
    context_->progress().step(loss);
    const StepTimes times = meter_.take();
    if (!speaks()) {
      return;
    }
    log_->say(progress_line(record_, schedule_, {.loss = loss, .norm = norm, .tokens = values[1]},
                            times));
  }

  /// Of the whole job, also into the metrics; none: it was given up to leave. Collective.
  std::optional<double> measure_validation() {
    Stopwatch watch;
    const auto mean = validation_loss(*context_, preemption_, *data_, model_, buffer_);
    meter_.skip();
    if (!mean) {
      if (speaks()) {
        log_->say(fmt::format("step {} | no validation: this job is to leave", place_.step));
      }
      return mean;
    }
    log_->validation({.step = place_.step,
                      .epoch = place_.epoch_of_step(),
                      .loss = *mean,
                      .accuracy = std::nullopt,
                      .seconds = watch.lap()});
    if (!std::isfinite(*mean)) {
      // The weights may be finite, and yet too large to compute anything with.
      snapshot_.end_not_finite("the validation loss", "step " + std::to_string(place_.step));
    }
    return mean;
  }

  void say_validation() {
    if (data_->validation_samples() == 0) {
      return;
    }
    if (const auto loss = measure_validation(); loss && speaks()) {
      log_->say(fmt::format("step {} | validation loss {:.4f} nats per token{}", place_.step, *loss,
                            per_byte_text(*data_, *loss)));
    }
  }

  /// A thread writes while the training goes on.
  void save() {
    SnapshotState state;
    state.model = describe(model_.config());
    state.epochs_run = place_.epoch;
    state.samples_done = static_cast<std::int64_t>(place_.samples_done);
    state.scalars = {{"step", static_cast<double>(place_.step)}, {"lr", schedule_.peak}};
    place_.saved_step = place_.step;
    meter_.skip();
    // First: the snapshot has the shares of the steps that follow it.
    agree_on_shares();
    state.notes = {{"seed", std::to_string(options_->seed)},
                   {"data", data_->fingerprint()},
                   {"balance", balance_.text()}};
    auto moments = part_.gather(optimizer_.state(), snapshot_.writes());
    say_saved(snapshot_.save_async(std::move(state),
                                   gpt2_state_tensors(model_.parameters(), std::move(moments))));
    meter_.spent(&StepTimes::snapshot_s);
  }

  /// The rank that writes says so. A save that failed has been reported; the next may succeed.
  void say_saved(const std::optional<SaveOutcome>& outcome) {
    if (!outcome || outcome->result != SaveResult::saved) {
      return;
    }
    const SnapshotState& state = outcome->state;
    const auto step = static_cast<std::uint64_t>(state.scalars.at("step"));
    log_->say(fmt::format("Epoch {} | step {} | Training snapshot saved at {}", state.epochs_run,
                          step, options_->snapshot_path()));
    context_->progress().saved_at_step(step, outcome->copied);
  }

  /// False: the validation was given up. The same command does it, and ends.
  bool finish() {
    say_saved(snapshot_.wait());
    std::optional<double> loss;
    if (data_->validation_samples() > 0 && !(loss = measure_validation())) {
      return false;
    }
    log_.reset();  // its bar is gone
    if (speaks()) {
      say_weights();
    }
    export_gpt2(*context_, options_->outputs.export_dir, *source_, model_.parameters());
    if (speaks() && loss) {
      std::printf("Validation loss: %.6f nats per token%s\n", *loss,
                  per_byte_text(*data_, *loss).c_str());
    }
    return true;
  }

  void say_weights() {
    std::vector<std::vector<float>> weights;
    for (const auto& [name, value, gradient] : model_.parameters()) {
      weights.push_back(value.to_vector<float>());
    }
    std::printf("Training finished: %lld steps, weights %s\n", static_cast<long long>(place_.step),
                fingerprint<float>(weights).c_str());
  }

  const Context* context_;
  const Gpt2Options* options_;
  const Gpt2Source* source_;
  const Gpt2Data* data_;
  Gpt2 model_;
  TokenBuffer buffer_;
  DistributedDataParallel parallel_;
  bool buckets_rebuilt_ = false;
  DistributedSampler sampler_;
  Balance balance_;
  OptimizerPart part_;
  AdamW optimizer_;
  TrainingSnapshot snapshot_;
  Preemption preemption_;
  CosineSchedule schedule_;
  StepMeter meter_;
  std::optional<TrainingLog> log_;  // once the number of steps is known
  StepRecord record_;               // of the newest step
  TrainingPlace place_;
  LossSum loss_;  // since the last line of progress, of this rank
};

}  // namespace

int train_gpt2(const Context& context, const Gpt2Options& options, const Gpt2Source& source,
               const Gpt2Data& data) {
  require_same_data(context, data.fingerprint(), "the same files and options");
  return Gpt2Training(context, options, source, data).run();
}

}  // namespace ddp
