// OptimizerShards: stage 1 of ZeRO (Rajbhandari et al., 2020), torch's ZeroRedundancyOptimizer.
// Each rank's optimizer keeps state for a part of the parameters only, and updates these; then
// their new values are handed to all ranks. An optimizer that treats each parameter by itself gives
// the same bits as without it, for 1/n of its memory and arithmetic. What it is not: an optimizer.
//
//     ddp::OptimizerShards shards(context.group(), parameters);
//     AdamW optimizer(...);                     // state for the parameters of shards.own() alone
//     ...
//     parallel.finish();                        // every rank has all mean gradients, as ever:
//     clip(parameters);                         // a norm over all of them needs no communication
//     optimizer.step();                         // updates the values of shards.own()
//     shards.share();                           // every rank has all new values
//
// In a snapshot the state lies whole, under its parameters' names, so a run may go on in a world of
// another size, or without shards. Each kind of state (Adam has two) is gathered and scattered by
// itself; `own` holds its tensors in the order of own():
//
//     auto whole = shards.gather(own, snapshot.writes());        // every rank
//     snapshot.save_async(state, named(parameters, whole));      // copies: `whole` may go
//     ...
//     auto whole = shards.gather(own);                           // places for load() to fill
//     if (snapshot.load("gpt2", named(parameters, whole))) shards.scatter(whole, own);
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "ddp/export.h"
#include "ddp/process_group.h"
#include "ddp/tensor.h"

namespace ddp {

/// One training thread. The group must outlive it; of `parameters` it keeps handles of the values.
class DDP_EXPORT OptimizerShards {
 public:
  /// Splits the parameters by size: every rank owns about as many bytes. Not collective: the split
  /// follows from sizes and world size alone.
  OptimizerShards(ProcessGroup& group, std::span<const Parameter> parameters);

  /// Indices of the parameters that this rank owns, ascending. None where there are fewer
  /// parameters than ranks.
  [[nodiscard]] const std::vector<std::size_t>& own() const { return own_; }
  /// The rank that owns a parameter.
  [[nodiscard]] int owner(std::size_t parameter) const { return owners_[parameter]; }

  /// Overwrites every parameter's value with its owner's. Small ones of one owner travel together,
  /// through memory of their size. Collective; throws what the group throws.
  void share();

  /// `own` is this rank's state: one tensor per parameter of own(), of its shape, type and device.
  /// Returns every parameter's, in their order, with memory of its own for those of other ranks;
  /// nothing where `keep` is false, which takes part all the same and needs no more memory than the
  /// largest one. Collective. Throws InvalidArgument when `own` does not fit.
  [[nodiscard]] std::vector<Tensor> gather(std::span<const Tensor> own, bool keep = true);
  /// The other way: copies this rank's part of `whole` into `own`. Not collective.
  void scatter(std::span<const Tensor> whole, std::span<const Tensor> own) const;

 private:
  void require_fit(std::span<const Tensor> own) const;
  void lay_out_packs();

  ProcessGroup* group_;
  std::vector<Tensor> values_;
  std::vector<int> owners_;
  std::vector<std::size_t> own_;
  std::vector<Tensor> packs_;     // of each rank: what its small values travel in
  std::vector<Tensor> in_packs_;  // of each parameter: its place there; not defined: it goes alone
};

}  // namespace ddp
