// DistributedSampler: which samples each rank trains on, in which order. Pure: the same answer on
// every machine, for ever.
//
// One order for the whole job: a permutation of all samples that depends on (seed, epoch) alone,
// never on the world size. Ranks take it in turns: of the samples not yet seen, rank r takes those
// at r, r + world size, r + 2 x world size, ... So after s steps of batch size b the samples seen
// by the job are exactly the first s x b x world_size of the order, and a smaller or larger world
// goes on from there (start_epoch's second argument) with exactly those that are left.
//
// Where ranks differ in speed, share_out() gives each another part of every step. The samples of a
// step stay those of equal parts, only who takes which changes; so what is done is one number
// still.
//
// The generator: splitmix64 of a counter. mix(z) = splitmix64's finaliser; key = mix(seed +
// 0x9E3779B97F4A7C15) ^ mix(epoch + 0xD1B54A32D192ED03); word k = mix(key + (k + 1) *
// 0x9E3779B97F4A7C15). Fisher-Yates from the back: for i = n-1 .. 1 swap i with j in [0, i], j by
// Lemire's multiply-and-reject from consecutive words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddp/export.h"

namespace ddp {

struct SamplerOptions {
  /// What happens when the samples left are not a multiple of the world size.
  enum class Tail : std::uint8_t {
    uneven,  ///< every sample exactly once; the last ranks have one fewer. DistributedDataParallel
             ///< weights by sample count, so this is right, and the default
    pad,     ///< torch's default: the order is continued from its start until it divides
    drop,    ///< torch's drop_last: the rest is left out of this epoch
  };
  std::uint64_t seed = 0;
  bool shuffle = true;
  Tail tail = Tail::uneven;
};

class DDP_EXPORT DistributedSampler {
 public:
  /// Stands at the start of epoch 0. Throws InvalidArgument on a rank outside of the world.
  DistributedSampler(std::size_t sample_count, int rank, int world_size,
                     SamplerOptions options = {});

  /// From the next start_epoch() on rank r takes shares[r] samples of each step, which come to
  /// world size x batch size in all: the same on every rank. None: equal parts again. Throws
  /// InvalidArgument when there is not one share for each rank, or all are 0.
  void share_out(std::vector<std::size_t> shares);

  /// `samples_done` of the job's order have been trained on before, in whatever world.
  void start_epoch(std::uint64_t epoch, std::size_t samples_done = 0);

  /// This rank's samples in this epoch, from samples_done on, in order.
  [[nodiscard]] std::span<const std::size_t> indices() const { return mine_; }
  [[nodiscard]] std::size_t size() const { return mine_.size(); }
  /// Steps until the epoch's end: the same number on every rank.
  [[nodiscard]] std::size_t steps(std::size_t batch_size) const;
  /// This rank's samples of one step, from 0; the last may hold fewer, or none. Here and below
  /// `batch_size` is the mean of all ranks, and throws InvalidArgument where shares come to
  /// another.
  [[nodiscard]] std::span<const std::size_t> batch(std::size_t step, std::size_t batch_size) const;
  /// What start_epoch() must be given to go on after `steps` steps of this batch size.
  [[nodiscard]] std::size_t samples_done(std::size_t steps, std::size_t batch_size) const;

 private:
  std::size_t sample_count_;
  std::size_t rank_;
  std::size_t world_size_;
  SamplerOptions options_;
  std::size_t samples_done_ = 0;
  std::vector<std::size_t> shares_;  ///< of each rank in one step; none: equal
  std::vector<std::size_t> mine_;
};

/// The job's whole order of one epoch.
DDP_EXPORT std::vector<std::size_t> epoch_order(std::size_t sample_count, std::uint64_t seed,
                                                std::uint64_t epoch);

}  // namespace ddp
