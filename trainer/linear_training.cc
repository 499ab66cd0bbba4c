#include "trainer/linear_training.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddp/snapshot.h"
#include "trainer/linear.h"
#include "trainer/optimizer.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

/// Keeps the first weights apart from the toy's samples, which come from the bare seed.
constexpr std::uint64_t kWeightSeed = 0x77656967687473;  // "weights"

std::string hash_hex(const XXH3_state_t& state) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_digest(&state)));
  return text;
}

/// XXH3 of 64 bits over the bytes of all parts, one after the other.
std::string fingerprint(const std::vector<std::vector<float>>& parts) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& part : parts) {
    XXH3_64bits_update(&state, part.data(), part.size() * sizeof(float));
  }
  return hash_hex(state);
}

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
        snapshot_(context, {.path = options.snapshot_path, .say = {}}) {}

  void run() {
    resume();
    for (auto epoch = next_epoch_; epoch < options_->total_epochs; ++epoch) {
      run_epoch(epoch);
      // The tutorials' rule; unlike theirs, what is stored counts the epochs that are complete, so
      // that none is run twice.
      if (epoch % options_->save_every == 0) {
        save(epoch);
      }
    }
    if (context_->rank() == 0) {
      say_result();
    }
  }

 private:
  [[nodiscard]] std::string model_name() const { return "linear " + data_->name; }

  [[nodiscard]] std::vector<NamedTensor> state_tensors() const {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, value, gradient] : parameters_) {
      tensors.push_back({name, value});
    }
    for (auto& tensor : optimizer_.state()) {
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
      // Other samples would be held out: the old training would have seen some of them.
      throw Error(options_->snapshot_path + ": snapshot of a run with another --seed than " + mine +
                  "; give that run's seed, or another --snapshot-path");
    }
    std::printf("Loading snapshot\n");
    next_epoch_ = state->epochs_run;
    const auto loss = state->scalars.find("loss");
    loss_ = loss != state->scalars.end() ? loss->second : loss_;
    std::printf("Resuming training from snapshot at Epoch %lld\n",
                static_cast<long long>(next_epoch_));
    if (next_epoch_ > 0) {
      context_->progress().resumed(static_cast<std::uint64_t>(next_epoch_ - 1));
    }
  }

  void run_epoch(std::int64_t epoch) {
    sampler_.start_epoch(static_cast<std::uint64_t>(epoch));
    const auto batch_size = static_cast<std::size_t>(options_->batch_size);
    const auto steps = sampler_.steps(batch_size);
    std::printf("[%s%d] Epoch %lld | Batchsize: %zu | Steps: %zu\n",
                device_.is_cuda() ? "GPU" : "CPU", context_->rank(), static_cast<long long>(epoch),
                sampler_.batch(0, batch_size).size(), steps);
    const auto indices = sampler_.indices();
    const auto index = Tensor::from(std::vector<std::int64_t>(indices.begin(), indices.end()),
                                    device_);  // the epoch's samples of this rank, in order
    loss_sum_.zero();
    std::size_t first = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const auto count = sampler_.batch(step, batch_size).size();
      run_step(index.data<std::int64_t>() + first, count);
      first += count;
      if (step + 1 < steps) {
        context_->progress().step();
      }
    }
    loss_ = mean_loss();
    context_->progress().step(loss_);
    if (!std::isfinite(loss_)) {
      throw Error("the loss is no longer finite in epoch " + std::to_string(epoch) +
                  "; choose a smaller --lr");
    }
    context_->progress().epoch_done(static_cast<std::uint64_t>(epoch));
  }

  void run_step(const std::int64_t* index, std::size_t count) {
    const auto& [weight, bias] = std::tie(parameters_[0], parameters_[1]);
    parallel_.begin(static_cast<std::int64_t>(count));
    kernels_->pass(
        {features_.data<float>(), targets_.data<float>(), index, count, data_->feature_count,
         weight.value.data<float>(), bias.value.data<float>(), d_y_.data<float>(),
         weight.gradient.data<float>(), bias.gradient.data<float>(), loss_sum_.data<double>()},
        device_.index);
    parallel_.gradient_ready(1);
    parallel_.gradient_ready(0);
    parallel_.finish();
    optimizer_.step();
  }

  /// Of the whole job's samples, each measured before the step that it took part in.
  double mean_loss() {
    const auto total = Tensor::from({loss_sum_.item<double>()});
    context_->group().all_reduce(total);
    return total.item<double>() / static_cast<double>(data_->train.size());
  }

  void save(std::int64_t epoch) {
    SnapshotState state;
    state.model = model_name();
    state.epochs_run = epoch + 1;
    state.scalars = {{"lr", rate_}, {"momentum", options_->momentum}, {"loss", loss_}};
    state.notes = {{"seed", std::to_string(options_->seed)}};
    if (snapshot_.save(std::move(state), state_tensors()) == SaveResult::saved) {
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
                fingerprint({weight, bias}).c_str());
    if (data_->held_out.size() > 0) {
      std::printf("R² on held-out tenth: %.6f\n", r_squared(data_->held_out, weight, bias[0]));
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
  Snapshot snapshot_;
  std::int64_t next_epoch_ = 0;
  double loss_ = 0;
};

}  // namespace

void train_linear(const Context& context, const LinearOptions& options, const Dataset& data) {
  // A node with an old copy of the file would otherwise train along, unseen.
  const auto mine = fingerprint(
      {data.train.features, data.train.targets, data.held_out.features, data.held_out.targets});
  const auto all = context.group().all_gather_bytes(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      throw Error("rank " + std::to_string(rank) +
                  " read other data than rank 0; give every node the same file and --seed");
    }
  }
  LinearTraining(context, options, data).run();
}

}  // namespace ddp
