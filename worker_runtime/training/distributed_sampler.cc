#include "ddp/distributed_sampler.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "ddp/error.h"

namespace ddp {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

/// The finaliser of splitmix64 (Steele, Lea and Flood, 2014): a bijection that mixes every bit.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// Random words numbered from 0: a function of the key, not of a state.
class CounterGenerator {
 public:
  CounterGenerator(std::uint64_t seed, std::uint64_t epoch)
      : key_(mix(seed + kGolden) ^ mix(epoch + 0xD1B54A32D192ED03)) {}

  /// Uniform in [0, bound), bound > 0, without bias (Lemire, 2019).
  std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>(next()) * bound;
    // Most draws pass here without a division.
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) {
        product = static_cast<Wide>(next()) * bound;
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  std::uint64_t next() { return mix(key_ + ++count_ * kGolden); }

  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

void require_batch(std::size_t batch_size) {
  if (batch_size == 0) {
    throw InvalidArgument("the batch size must be at least 1");
  }
}

/// Which rank takes each sample of a step: at each the one that is furthest behind its share. Equal
/// shares take turns, and the first part of a step, all that an epoch's last may have, is shared
/// out in proportion too.
std::vector<std::size_t> turns_of(const std::vector<std::size_t>& shares) {
  const auto total = std::accumulate(shares.begin(), shares.end(), std::size_t{0});
  std::vector<std::size_t> turns;
  std::vector<std::size_t> given(shares.size());
  while (turns.size() < total) {
    const auto behind = [&](std::size_t rank) {
      return static_cast<std::int64_t>(shares[rank] * (turns.size() + 1)) -
             static_cast<std::int64_t>(given[rank] * total);
    };
    std::size_t next = 0;
    for (std::size_t rank = 1; rank < shares.size(); ++rank) {
      next = behind(rank) > behind(next) ? rank : next;
    }
    turns.push_back(next);
    ++given[next];
  }
  return turns;
}

}  // namespace

std::vector<std::size_t> epoch_order(std::size_t sample_count, std::uint64_t seed,
                                     std::uint64_t epoch) {
  std::vector<std::size_t> order(sample_count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  CounterGenerator random(seed, epoch);
  // Fisher and Yates. std::shuffle may differ between standard libraries, and the order would with
  // it.
  for (std::size_t i = sample_count; i-- > 1;) {
    std::swap(order[i], order[random.below(i + 1)]);
  }
  return order;
}

DistributedSampler::DistributedSampler(std::size_t sample_count, int rank, int world_size,
                                       SamplerOptions options)
    : sample_count_(sample_count),
      rank_(static_cast<std::size_t>(rank)),
      world_size_(static_cast<std::size_t>(world_size)),
      options_(options) {
  if (rank < 0 || rank >= world_size) {
    throw InvalidArgument(
        fmt::format("a sampler for rank {} of {} makes no sense", rank, world_size));
  }
  start_epoch(0);
}

void DistributedSampler::share_out(std::vector<std::size_t> shares) {
  if (!shares.empty() &&
      (shares.size() != world_size_ ||
       std::all_of(shares.begin(), shares.end(), [](std::size_t share) { return share == 0; }))) {
    throw InvalidArgument(fmt::format(
        "a step is shared out by one share for each of {} ranks, of which one is above 0",
        world_size_));
  }
  shares_ = std::move(shares);
}

void DistributedSampler::start_epoch(std::uint64_t epoch, std::size_t samples_done) {
  // A padded epoch ends a little beyond its samples; to resume there is to resume at the end.
  samples_done_ = std::min(samples_done, sample_count_);
  std::vector<std::size_t> order;
  if (options_.shuffle) {
    order = epoch_order(sample_count_, options_.seed, epoch);
  } else {
    order.resize(sample_count_);
    std::iota(order.begin(), order.end(), std::size_t{0});
  }
  std::size_t end = sample_count_;
  const std::size_t left = sample_count_ - samples_done_;
  if (options_.tail == SamplerOptions::Tail::drop) {
    end = samples_done_ + left / world_size_ * world_size_;
  } else if (options_.tail == SamplerOptions::Tail::pad && left > 0) {
    end = samples_done_ + round_up(left, world_size_);
  }
  mine_.clear();
  if (!shares_.empty()) {
    const auto turns = turns_of(shares_);
    for (std::size_t i = samples_done_; i < end; ++i) {
      if (turns[(i - samples_done_) % turns.size()] == rank_) {
        mine_.push_back(order[i % sample_count_]);
      }
    }
    return;
  }
  // Each rank takes every world_size-th sample: what is done is one number, from which any other
  // world can go on.
  for (std::size_t i = samples_done_ + rank_; i < end; i += world_size_) {
    // Padding takes samples from the begin of the order again.
    mine_.push_back(order[i % sample_count_]);
  }
}

std::size_t DistributedSampler::steps(std::size_t batch_size) const {
  require_batch(batch_size);
  const std::size_t left = sample_count_ - samples_done_;
  const bool drop = options_.tail == SamplerOptions::Tail::drop;
  // Rank 0 has as many samples as any rank.
  const std::size_t most = drop ? left / world_size_ : (left + world_size_ - 1) / world_size_;
  return (most + batch_size - 1) / batch_size;
}

std::span<const std::size_t> DistributedSampler::batch(std::size_t step,
                                                       std::size_t batch_size) const {
  require_batch(batch_size);
  if (!shares_.empty() &&
      std::accumulate(shares_.begin(), shares_.end(), std::size_t{0}) != batch_size * world_size_) {
    throw InvalidArgument(
        fmt::format("the shares do not come to {} batches of {}", world_size_, batch_size));
  }
  const std::size_t size = shares_.empty() ? batch_size : shares_[rank_];
  // A rank that has run out of samples gets an empty batch, so that all ranks make the same steps.
  const std::size_t first = std::min(step * size, mine_.size());
  return std::span(mine_).subspan(first, std::min(size, mine_.size() - first));
}

std::size_t DistributedSampler::samples_done(std::size_t steps, std::size_t batch_size) const {
  require_batch(batch_size);
  // The samples of a padded last step count once.
  return std::min(sample_count_, samples_done_ + steps * batch_size * world_size_);
}

}  // namespace ddp
