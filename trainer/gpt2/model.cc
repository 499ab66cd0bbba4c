#include "trainer/gpt2/model.h"

#include <fmt/core.h>

#include <string>

#include "ddp/error.h"
#include "trainer/gpt2/parameters.h"
#include "trainer/layers/attention.h"

namespace ddp {
namespace {

/// Here, before memory is taken: the layer itself would refuse it in the middle of a step.
const Gpt2Config& checked(const Gpt2Config& config, Device device) {
  const std::size_t head_size = config.channels / config.heads;
  if (device.is_cuda() && head_size > kGpuHeadSizeMax) {
    throw Error(
        fmt::format("a GPU trains heads of up to {} channels, and this model's have {}; hide the "
                    "GPUs by CUDA_VISIBLE_DEVICES= to train it on CPUs",
                    kGpuHeadSizeMax, head_size));
  }
  return config;
}

std::unique_ptr<Gpt2Passes> passes_of(const Gpt2Config& config,
                                      const std::vector<Parameter>& parameters, std::size_t batch,
                                      std::size_t time, Device device, Precision precision) {
  if (device.is_cpu()) {
    return make_gpt2_passes(config, parameters, batch, time, device, cpu_layers(precision));
  }
  if (precision == Precision::f32) {
    return make_gpt2_passes(config, parameters, batch, time, device, gpu_layers<float>());
  }
  return make_gpt2_passes(config, parameters, batch, time, device, gpu_layers<BFloat16>());
}

}  // namespace

Gpt2::Gpt2(const Gpt2Config& config, std::size_t batch, std::size_t time, Device device,
           Precision precision)
    : config_(checked(config, device)),
      batch_max_(batch),
      time_max_(time),
      parameters_(gpt2_parameters(config, device)),
      passes_(passes_of(config, parameters_, batch, time, device, precision)) {}

/// A token outside of the vocabulary would read, and in the backward pass write, somebody else's
/// memory.
void Gpt2::check(const TokenBatch& batch) const {
  const std::size_t rows = batch.batch * batch.time;
  if (batch.batch > batch_max_ || batch.time > time_max_ || batch.time > config_.context ||
      batch.tokens.size() != rows || batch.targets.size() != rows) {
    throw InvalidArgument(
        fmt::format("a batch of {} x {} tokens does not fit a model made for {} x {}", batch.batch,
                    batch.time, batch_max_, time_max_));
  }
  const auto vocabulary = static_cast<std::int32_t>(config_.vocabulary);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int32_t token = batch.tokens[row];
    const std::int32_t target = batch.targets[row];
    if (token < 0 || token >= vocabulary ||
        (target != kIgnoredTarget && (target < 0 || target >= vocabulary))) {
      throw InvalidArgument(fmt::format("token {} or target {} is not in a vocabulary of {}", token,
                                        target, vocabulary));
    }
  }
}

double Gpt2::loss(const TokenBatch& batch) {
  check(batch);
  return passes_->loss(batch, false);
}

double Gpt2::forward(const TokenBatch& batch) {
  check(batch);
  return passes_->loss(batch, true);
}

void Gpt2::backward(const TokenBatch& batch, const std::function<void(std::size_t)>& ready,
                    Gradients before) {
  passes_->backward(batch, ready, before);
}

std::span<const float> Gpt2::next_logits(std::span<const std::int32_t> tokens) {
  const std::vector<std::int32_t> targets(tokens.size(), kIgnoredTarget);
  check({tokens, targets, 1, tokens.size()});
  if (tokens.empty()) {
    throw InvalidArgument("nothing follows an empty text");
  }
  return passes_->next_logits(tokens);
}

const char* precision_text(Device device, Precision precision) {
  if (device.is_cuda()) {
    return precision == Precision::f32 ? " | on GPUs in f32" : " | on GPUs in bf16";
  }
  return precision == Precision::bf16 ? " | products in bf16" : "";
}

}  // namespace ddp
