// OptimizerPart: the parameters whose optimizer state this rank keeps, and which it updates: all of
// them, or with --zero a part as large as any other rank's (OptimizerShards, the first stage of
// ZeRO). In a snapshot the state lies whole either way.
//
//     OptimizerPart part(context.group(), parameters, zero);
//     Sgd optimizer(parameters, part.own(), ...);
//     optimizer.step();
//     part.share();                                            // every rank has all new values
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/optimizer_shards.h"
#include "ddp/snapshot.h"

namespace ddp {

/// One kind of an optimizer's state, as "momentum.": a tensor for each parameter that the optimizer
/// updates, in their order.
struct OptimizerState {
  std::string prefix;
  std::vector<Tensor> own;
};

/// What this rank keeps, in bytes: with --zero about a part as large as the world has ranks of what
/// it is without.
std::size_t size_bytes(const std::vector<OptimizerState>& state);

/// 0, 1, ..., the last parameter's.
std::vector<std::size_t> every_index(std::span<const Parameter> parameters);

/// Whole state by its names, each parameter's behind the prefix.
std::vector<NamedTensor> named_state(std::span<const Parameter> parameters,
                                     const std::vector<OptimizerState>& whole);

class OptimizerPart {
 public:
  /// `parameters` and the group must outlive it.
  OptimizerPart(ProcessGroup& group, std::span<const Parameter> parameters, bool zero);

  /// Indices of the parameters, ascending.
  [[nodiscard]] const std::vector<std::size_t>& own() const { return own_; }
  /// Hands the values that this rank has updated to the others. Collective.
  void share();

  /// The state of all parameters, named for a snapshot. Without --zero these are the optimizer's
  /// own tensors. With it they are copies, to be kept as long as they are needed, and nothing where
  /// `keep` is false. Collective.
  [[nodiscard]] std::vector<NamedTensor> gather(const std::vector<OptimizerState>& state,
                                                bool keep);
  /// The other way, with what gather() has returned: copies this rank's part of it.
  void scatter(const std::vector<NamedTensor>& whole,
               const std::vector<OptimizerState>& state) const;

 private:
  std::span<const Parameter> parameters_;
  std::optional<OptimizerShards> shards_;  ///< with --zero
  std::vector<std::size_t> own_;
};

}  // namespace ddp
