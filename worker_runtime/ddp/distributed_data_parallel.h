// DistributedDataParallel: keeps the model equal on every rank. Parameters and buffers come from
// rank 0 at the start; gradients are reduced in buckets while backward still goes on.
//
// The convention: each rank's gradient tensors hold the SUM over its own samples of the
// per-sample gradients, and each rank says how many samples that were. After finish() they hold
// the global sum divided by the global count, the same bits on every rank. So batches of different
// sizes, down to none at all, are weighted right. One training step:
//
//     parallel.begin(batch.size());                  // zeroes the gradients; after it, backward
//     for (i = last; i >= 0; --i) {                  // adds to them, last layer first,
//       backward(layer i);
//       parallel.gradient_ready(i);                  // and says so: full buckets leave at once
//     }
//     parallel.finish();                             // waits; gradients are means now
//     optimizer.step();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddp/export.h"
#include "ddp/process_group.h"
#include "ddp/tensor.h"

namespace ddp {

/// One trained tensor of a model. `gradient` is made and seated by DistributedDataParallel.
struct Parameter {
  std::string name;
  Tensor value;
  Tensor gradient;
};

/// How gradients travel between the ranks.
enum class Compression : std::uint8_t {
  none,
  /// As bf16, half the bytes, for f32 parameters: each rank rounds its sum, the ranks' sums are
  /// added in f32 in rank order (NCCL: as it does) and the result is rounded once more. About 3
  /// digits are left, the same ones on every rank; sample counts stay exact. As torch's
  /// bf16_compress_hook.
  bf16,
};

struct DataParallelOptions {
  /// The first bucket is small so that communication starts early; then the larger size, a
  /// compromise of latency and overlap (both are PyTorch's).
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  Compression compression = Compression::none;
};

/// Not thread-safe: one training thread. The group must outlive it.
class DDP_EXPORT DistributedDataParallel {
 public:
  /// Broadcasts every value of `parameters` and every tensor of `buffers` (running statistics and
  /// the like) from rank 0, in place. Then replaces each `gradient` in `parameters` by a zeroed
  /// view in a bucket, of the value's shape, type and device: read gradients from there, after
  /// this. Throws InvalidArgument when ranks disagree on names, shapes, types or options, or when a
  /// parameter is neither f32 nor f64, or is not f32 and gradients travel as bf16. Collective.
  DistributedDataParallel(ProcessGroup& group, std::vector<Parameter>& parameters,
                          std::vector<Tensor> buffers = {}, DataParallelOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(DistributedDataParallel&&) noexcept;
  DistributedDataParallel& operator=(DistributedDataParallel&&) noexcept;

  /// Starts a step with this rank's number of samples, which may be 0. Zeroes the gradients, unless
  /// steps under no_sync() came before: then backward goes on adding to them, and the counts add
  /// up: of R ranks each to 2^24 / R * 256 at most (of whole numbers). `leave`: this rank wishes
  /// that all leave after this step (preemption.h); the wish travels with the gradients and costs
  /// no communication of its own.
  void begin(std::int64_t sample_count, bool leave = false);
  /// The gradient of parameter `index` (its place in the vector) is complete. Any order; buckets
  /// leave in the same order on every rank all the same. Throws InvalidArgument when told twice.
  void gradient_ready(std::size_t index);
  /// Sends what has not left (gradients not reported ready count as they are), waits for all, and
  /// turns sums into means. With a global count of 0 gradients become 0. Throws what the group
  /// throws.
  void finish();
  /// Samples of all ranks in the last finished step.
  [[nodiscard]] std::int64_t global_sample_count() const;
  /// Whether any rank wished to leave in the last finished step: the same on every rank.
  [[nodiscard]] bool all_leave() const;

  /// While the returned guard lives, or any other one, begin/gradient_ready/finish communicate
  /// nothing: gradients pile up here, to be reduced with those of the first step after it. How many
  /// come before that one may differ between ranks.
  class DDP_EXPORT NoSync {
   public:
    NoSync(NoSync&& other) noexcept;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DistributedDataParallel;
    explicit NoSync(int& living);
    int* living_;
  };
  [[nodiscard]] NoSync no_sync();

  /// Lays the gradients into buckets anew, in the order in which rank 0 reported them ready in the
  /// last step: then the first bucket leaves as early as it can, whatever the order of registration
  /// (section 3.2.3 of "PyTorch Distributed", Li et al., 2020). Call it once, after the first
  /// finish(), with the vector of the constructor: each `gradient` in it is seated anew, with its
  /// values; addresses taken before are void. On the CPU no bit of any later mean depends on the
  /// order. False when it was right already, and nothing has moved. Collective; throws
  /// InvalidArgument within a step, or with other parameters.
  bool rebuild_buckets(std::vector<Parameter>& parameters);

  /// Broadcasts the buffers from rank 0 again, for models that change them in training.
  void synchronize_buffers();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
