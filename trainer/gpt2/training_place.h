// TrainingPlace: where the training of a GPT-2 stands, the same on every rank.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

struct TrainingPlace {
  std::int64_t epoch = 0;        ///< the one that is trained on
  std::size_t samples_done = 0;  ///< of it, by the whole job
  std::int64_t step = 0;         ///< optimizer steps done
  std::int64_t saved_step = -1;  ///< of the newest snapshot; -1: none

  /// Of the newest step: behind an epoch's last one the place is the begin of the next epoch.
  [[nodiscard]] std::int64_t epoch_of_step() const {
    return samples_done == 0 && epoch > 0 ? epoch - 1 : epoch;
  }
};

}  // namespace ddp
