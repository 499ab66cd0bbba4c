#include "trainer/optimizer_part.h"

#include <numeric>

namespace ddp {

std::size_t size_bytes(const std::vector<OptimizerState>& state) {
  std::size_t bytes = 0;
  for (const auto& [prefix, own] : state) {
    for (const Tensor& tensor : own) {
      bytes += tensor.size_bytes();
    }
  }
  return bytes;
}

std::vector<std::size_t> every_index(std::span<const Parameter> parameters) {
  std::vector<std::size_t> indices(parameters.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

std::vector<NamedTensor> named_state(std::span<const Parameter> parameters,
                                     const std::vector<OptimizerState>& whole) {
  std::vector<NamedTensor> named;
  for (const auto& [prefix, tensors] : whole) {
    // None where this rank keeps no copy of the others' part.
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      named.push_back({prefix + parameters[i].name, tensors[i]});
    }
  }
  return named;
}

OptimizerPart::OptimizerPart(ProcessGroup& group, std::span<const Parameter> parameters, bool zero)
    : parameters_(parameters) {
  // In a world of one it owns all of them, and broadcasts to nobody.
  if (zero) {
    shards_.emplace(group, parameters);
  }
  own_ = shards_ ? shards_->own() : every_index(parameters);
}

void OptimizerPart::share() {
  // Without --zero every rank has computed the same values from the same gradients.
  if (shards_) {
    shards_->share();
  }
}

std::vector<NamedTensor> OptimizerPart::gather(const std::vector<OptimizerState>& state,
                                               bool keep) {
  // Without copies: load() fills, and save() reads, what the optimizer computes with.
  if (!shards_) {
    return named_state(parameters_, state);
  }
  std::vector<OptimizerState> whole;
  // Each kind by itself: the largest tensor is all the memory that a rank needs beside its own.
  for (const auto& [prefix, own] : state) {
    whole.push_back({prefix, shards_->gather(own, keep)});
  }
  return named_state(parameters_, whole);
}

void OptimizerPart::scatter(const std::vector<NamedTensor>& whole,
                            const std::vector<OptimizerState>& state) const {
  if (!shards_) {
    return;  // the optimizer's tensors were filled themselves
  }
  // Kind after kind, as gather() has laid them out.
  std::size_t next = 0;
  for (const auto& [prefix, own] : state) {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      tensors.push_back(whole[next++].tensor);
    }
    shards_->scatter(tensors, own);
  }
}

}  // namespace ddp
