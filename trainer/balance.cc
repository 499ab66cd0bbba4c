#include "trainer/balance.h"

#include <utility>

#include "ddp/error.h"
#include "trainer/batch_shares.h"

namespace ddp {
namespace {

/// The first steps of a process find caches cold and libraries that choose their code.
constexpr std::int64_t kWarmSteps = 2;
/// Then so many are enough to see who is several times slower.
constexpr std::int64_t kFirstSteps = 8;

}  // namespace

Balance::Balance(ProcessGroup& group, BalanceChoice choice, std::size_t samples)
    : group_(&group), choice_(std::move(choice)), samples_(samples) {
  const auto ranks = static_cast<std::size_t>(group.size());
  if (!choice_.weights.empty()) {
    if (choice_.weights.size() != ranks) {
      const auto counted = [](std::size_t n, const std::string& what) {
        return std::to_string(n) + what + (n == 1 ? "" : "s");
      };
      throw DoNotRetry("--balance has " + counted(choice_.weights.size(), " weight") + " for " +
                       counted(ranks, " rank") + "; give one for each rank, or auto");
    }
    shares_ = divide_samples(samples_, choice_.weights);
  } else if (choice_.automatic) {
    shares_ = divide_samples(samples_, std::vector<double>(ranks, 1.0));
  }
}

std::string Balance::text() const {
  return shares_text(shares_);
}

/// Weights that are given win over what an earlier run measured.
void Balance::restore(const std::string& text) {
  if (!choice_.automatic) {
    return;
  }
  auto shares = shares_from(text, samples_, shares_.size());
  if (!shares.empty()) {
    shares_ = std::move(shares);
    measured_before_ = true;
  }
}

bool Balance::take_change() {
  return std::exchange(changed_, false);
}

bool Balance::step_done(std::size_t samples, double seconds) {
  ++steps_;
  if (!choice_.automatic || steps_ <= kWarmSteps) {
    return false;
  }
  measured_samples_ += static_cast<double>(samples);
  measured_s_ += seconds;
  return !measured_before_ && steps_ == kWarmSteps + kFirstSteps;
}

bool Balance::agree() {
  if (!choice_.automatic) {
    return false;
  }
  const auto ranks = static_cast<std::size_t>(group_->size());
  const auto all = Tensor::zeros({static_cast<std::int64_t>(ranks)}, DType::f64);
  group_->all_gather(Tensor::from({measured_s_ > 0 ? measured_samples_ / measured_s_ : 0.0}), all);
  const auto speeds = all.to_vector<double>();
  measured_samples_ = measured_s_ = 0;
  for (const double speed : speeds) {
    if (speed <= 0) {
      return false;  // a rank has measured nothing since the last time: the shares stand
    }
  }
  measured_before_ = true;
  // Time that does not grow with the samples is measured too: the slow rank's share is a little
  // too small at first, and right after some agreements, when all ranks take equally long.
  // Every rank has the same speeds, so it comes to the same shares.
  auto divided = divide_samples(samples_, speeds);
  const bool other = divided != shares_;
  shares_ = std::move(divided);
  changed_ = changed_ || other;
  return other;
}

}  // namespace ddp
