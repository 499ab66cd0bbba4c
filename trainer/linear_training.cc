#include "trainer/linear_training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddp/preemption.h"
#include "trainer/agreement.h"
#include "trainer/fingerprint.h"
#include "trainer/linear.h"
#include "trainer/optimizer.h"
#include "trainer/training_snapshot.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

/// Keeps the first weights apart from the toy's samples, which come from the bare seed.
constexpr std::uint64_t kWeightSeed = 0x77656967687473;  // "weights"

/// torch.nn.Linear's: uniform within 1 / sqrt(F) of 0.
std::vector<Parameter> first_parameters(std::size_t features, std::uint64_t seed, Device device) {
  const float bound = 1.0F / std::sqrt(static_cast<float>(features));
  Uniform random(seed ^ kWeightSeed);
  std::vector<float> weight(features);
  for (float& w : weight) {
    w = (2 * random.next() - 1) * bound;
  }
  const std::vector<float> bias = {(2 * random.next() - 1) * bound};
  const auto columns = static_cast<std::int64_t>(features);
  return {{"weight", Tensor::from(weight, {1, columns}, device), {}},  // (1, F)
          {"bias", Tensor::from(bias, {1}, device), {}}};              // (1)
}

/// The training loop of every rank. All ranks take the same path through it: load(), total_loss()
/// and the steps are collective calls, which wait for every rank, so a condition around one of them
/// must have the same value everywhere.
class LinearTraining {
 public:
  LinearTraining(const Context& context, const LinearOptions& options, const Dataset& data)
      : context_(&context),
        options_(&options),
        data_(&data),
        device_(context.device()),
        kernels_(device_.is_cuda() ? &gpu_kernels() : &cpu_kernels()),
        rate_(options.learning_rate.value_or(options.data ? kDataRate : kToyRate)),
        features_(Tensor::from(data.train.features, device_)),
        targets_(Tensor::from(data.train.targets, device_)),
        d_y_(Tensor::zeros(
            {std::min(options.batch_size, static_cast<std::int64_t>(data.train.size()))},
            DType::f32, device_)),
        loss_sum_(Tensor::zeros({1}, DType::f64, device_)),
        parameters_(first_parameters(data.feature_count, options.seed, device_)),
        parallel_(context.group(), parameters_),
        sampler_(data.train.size(), context.rank(), context.world_size(), {.seed = options.seed}),
        optimizer_(parameters_, *kernels_, static_cast<float>(rate_),
                   static_cast<float>(options.momentum)),
        snapshot_(context, {.path = options.snapshot_path, .keep = options.keep, .say = {}}),
        preemption_(context) {}

  /// The status for main.
  int run() {
    resume();
    if (next_epoch_ < options_->total_epochs) {
      snapshot_.require_place();
      plan();
    }
    for (auto epoch = next_epoch_; epoch < options_->total_epochs; ++epoch) {
      if (!run_epoch(epoch)) {
        return snapshot_.leave(preemption_);
      }
      // The tutorials' rule for when to save. Unlike theirs, the snapshot counts complete epochs,
      // so that a resumed run repeats none.
      if (epoch % options_->save_every == 0) {
        save(epoch);
      }
    }
    if (context_->rank() == 0) {
      say_result();
    }
    snapshot_.require_saved();
    return 0;
  }

 private:
  [[nodiscard]] std::string model_name() const { return "linear " + data_->name; }

  [[nodiscard]] std::vector<NamedTensor> state_tensors() const {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, value, gradient] : parameters_) {
      tensors.push_back({name, value});
    }
    for (auto& tensor : named_state(parameters_, optimizer_.state())) {
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  void resume() {
    const auto state = snapshot_.load(model_name(), state_tensors());
    if (!state) {
      return;
    }
    const auto seed = state->notes.find("seed");
    const auto mine = std::to_string(options_->seed);
    if (seed == state->notes.end() || seed->second != mine) {
      // With another seed other rows are held out, and this training has seen some of them.
      throw Error(options_->snapshot_path + ": snapshot of a run with another --seed than " + mine +
                  "; give that run's seed, or another --snapshot-path");
    }
    // Other rows would be held out, and columns scaled otherwise than the weights have learnt.
    // Snapshots of earlier builds do not have it.
    const auto data = state->notes.find("data");
    if (data != state->notes.end() && data->second != data_->fingerprint) {
      throw Error(options_->snapshot_path + ": snapshot of a run with other --data than " +
                  options_->data.value_or("the toy") +
                  " holds now; give that run's file, or another --snapshot-path");
    }
    // The tutorials' lines, word for word: people search their logs for them.
    std::printf("Loading snapshot\n");
    // A snapshot at the end of an epoch has no sum: the next epoch starts at 0.
    next_epoch_ = state->epochs_run;
    const auto loss = state->scalars.find("loss");
    loss_ = loss != state->scalars.end() ? loss->second : loss_;
    samples_done_ = static_cast<std::size_t>(state->samples_done);
    const auto loss_sum = state->scalars.find("loss_sum");
    loss_sum_before_ = loss_sum != state->scalars.end() ? loss_sum->second : 0;
    std::printf("Resuming training from snapshot at Epoch %lld\n",
                static_cast<long long>(next_epoch_));
    if (samples_done_ > 0) {
      std::printf("%zu samples of it are done\n", samples_done_);
    }
    if (next_epoch_ > 0) {
      context_->progress().resumed(static_cast<std::uint64_t>(next_epoch_ - 1));
    }
  }

  /// In a world of this size: how many steps an epoch has, and what is left of the one that an
  /// earlier attempt began. Of a world of another size those before count as this one's would.
  void plan() {
    const auto batch_size = static_cast<std::size_t>(options_->batch_size);
    const auto epoch = static_cast<std::uint64_t>(next_epoch_);
    sampler_.start_epoch(epoch, samples_done_);
    const std::uint64_t left = sampler_.steps(batch_size);
    sampler_.start_epoch(epoch);
    const std::uint64_t each = sampler_.steps(batch_size);
    context_->progress().planned((epoch + 1) * each - left,
                                 static_cast<std::uint64_t>(options_->total_epochs) * each);
  }

  /// False when all ranks leave because of an order (ddp/preemption.h).
  bool run_epoch(std::int64_t epoch) {
    sampler_.start_epoch(static_cast<std::uint64_t>(epoch), std::exchange(samples_done_, 0));
    const auto batch_size = static_cast<std::size_t>(options_->batch_size);
    const auto steps = sampler_.steps(batch_size);
    std::printf("[%s%d] Epoch %lld | Batchsize: %zu | Steps: %zu\n",
                device_.is_cuda() ? "GPU" : "CPU", context_->rank(), static_cast<long long>(epoch),
                sampler_.batch(0, batch_size).size(), steps);
    const auto indices = sampler_.indices();
    const auto index = Tensor::from(std::vector<std::int64_t>(indices.begin(), indices.end()),
                                    device_);  // the epoch's samples of this rank, in order
    // The sum of an epoch that was cut short is that of the whole job. total_loss() adds up all
    // ranks, so one of them starts from it.
    loss_sum_.fill(context_->rank() == 0 ? std::exchange(loss_sum_before_, 0) : 0);
    std::size_t first = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const auto count = sampler_.batch(step, batch_size).size();
      run_step(index.data<std::int64_t>() + first, count);
      first += count;
      if (step + 1 == steps) {
        break;  // this step is reported below, with the loss of the epoch
      }
      context_->progress().step();
      if (parallel_.all_leave()) {
        leave(epoch, sampler_.samples_done(step + 1, batch_size));
        return false;
      }
    }
    loss_ = total_loss() / static_cast<double>(data_->train.size());
    context_->progress().step(loss_);
    if (!std::isfinite(loss_)) {
      snapshot_.end_not_finite("the loss", "epoch " + std::to_string(epoch));
    }
    context_->progress().epoch_done(static_cast<std::uint64_t>(epoch));
    // After the last epoch there is nothing left to leave: the job ends with its result.
    if (parallel_.all_leave() && epoch + 1 < options_->total_epochs) {
      leave(epoch + 1, 0);
      return false;
    }
    return true;
  }

  void run_step(const std::int64_t* index, std::size_t count) {
    const auto& [weight, bias] = std::tie(parameters_[0], parameters_[1]);
    parallel_.begin(static_cast<std::int64_t>(count), preemption_.asked());
    kernels_->pass(
        {features_.data<float>(), targets_.data<float>(), index, count, data_->feature_count,
         weight.value.data<float>(), bias.value.data<float>(), d_y_.data<float>(),
         weight.gradient.data<float>(), bias.gradient.data<float>(), loss_sum_.data<double>()},
        device_.index);
    // One kernel fills both gradients. They are reported as a backward pass has them, last layer
    // first.
    parallel_.gradient_ready(1);
    parallel_.gradient_ready(0);
    parallel_.finish();
    optimizer_.step();
  }

  /// Of the whole job's samples so far, each measured before the step that it took part in.
  double total_loss() {
    const auto total = Tensor::from({loss_sum_.item<double>()});
    context_->group().all_reduce(total);
    return total.item<double>();
  }

  [[nodiscard]] SnapshotState state(std::int64_t epochs_run) const {
    SnapshotState state;
    state.model = model_name();
    state.epochs_run = epochs_run;
    state.scalars = {{"lr", rate_}, {"momentum", options_->momentum}, {"loss", loss_}};
    state.notes = {{"seed", std::to_string(options_->seed)}, {"data", data_->fingerprint}};
    return state;
  }

  /// Saves where training stands, to go on from exactly there.
  void leave(std::int64_t epochs_run, std::size_t samples_done) {
    SnapshotState here = state(epochs_run);
    here.samples_done = static_cast<std::int64_t>(samples_done);
    if (samples_done > 0) {
      here.scalars["loss_sum"] = total_loss();
    }
    if (snapshot_.save(std::move(here), state_tensors()) == SaveResult::saved) {
      std::printf("Epoch %lld | %zu samples done | Training snapshot saved at %s | Leaving\n",
                  static_cast<long long>(epochs_run), samples_done,
                  options_->snapshot_path.c_str());
      if (epochs_run > 0) {
        context_->progress().saved(static_cast<std::uint64_t>(epochs_run - 1));
      }
    }
  }

  /// The rank that writes says so. A save that failed has been reported, and the training goes on:
  /// the next one may succeed.
  void save(std::int64_t epoch) {
    if (snapshot_.save(state(epoch + 1), state_tensors()) == SaveResult::saved) {
      std::printf("Epoch %lld | Training snapshot saved at %s\n", static_cast<long long>(epoch),
                  options_->snapshot_path.c_str());
      context_->progress().saved(static_cast<std::uint64_t>(epoch));
    }
  }

  void say_result() const {
    const auto weight = parameters_[0].value.to_vector<float>();
    const auto bias = parameters_[1].value.to_vector<float>();
    std::printf("Training finished: %lld epochs, loss %.9g, weights %s\n",
                static_cast<long long>(std::max(options_->total_epochs, next_epoch_)), loss_,
                fingerprint<float>({weight, bias}).c_str());
    if (data_->held_out.size() > 0) {
      if (const auto share = r_squared(data_->held_out, weight, bias[0])) {
        std::printf("R² on held-out tenth: %.6f\n", *share);
      } else {
        std::printf("R² on held-out tenth: undefined, since its targets are all equal\n");
      }
    }
  }

  const Context* context_;
  const LinearOptions* options_;
  const Dataset* data_;
  Device device_;
  const LinearKernels* kernels_;
  double rate_;
  Tensor features_;  // (N, F)
  Tensor targets_;   // (N)
  Tensor d_y_;       // (B)
  Tensor loss_sum_;  // (1), double
  std::vector<Parameter> parameters_;
  DistributedDataParallel parallel_;
  DistributedSampler sampler_;
  Sgd optimizer_;
  TrainingSnapshot snapshot_;
  Preemption preemption_;
  std::int64_t next_epoch_ = 0;
  std::size_t samples_done_ = 0;  // of the next epoch
  double loss_sum_before_ = 0;    // of those
  double loss_ = 0;
};

}  // namespace

int train_linear(const Context& context, const LinearOptions& options, const Dataset& data) {
  require_same_data(context, data.fingerprint, "the same file and --seed");
  return LinearTraining(context, options, data).run();
}

}  // namespace ddp
