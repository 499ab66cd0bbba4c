// The team: the threads of this rank, over which a layer shares out its work as oneDNN does its
// products. Who computes what never shows in a result: parts are whole rows, columns or chunks,
// and each is computed as one thread alone would compute it.
#pragma once

#include <cstddef>

#include "trainer/layers/level.h"

// By hand: clang has another <omp.h>, or none.
extern "C" {
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
}

namespace ddp::DDP_LEVEL {

/// Threads of the team; 1 where the program was built without OpenMP.
inline __attribute__((always_inline)) std::size_t team_size() {
#ifdef _OPENMP
  return static_cast<std::size_t>(omp_get_max_threads());
#else
  return 1;
#endif
}

/// Calls body(first, end, thread) for parts of [0, count), one a thread, each a multiple of `grain`
/// but the last. Less than two grains are not worth a meeting of the threads: they are one part.
template <class Body>
inline __attribute__((always_inline)) void share_out(std::size_t count,
                                                     [[maybe_unused]] std::size_t grain,
                                                     const Body& body) {
#ifdef _OPENMP
  // All threads or one: those that a smaller team leaves out would end, and be made again.
  if (count >= 2 * grain && omp_get_max_threads() > 1) {
    const std::size_t grains = (count + grain - 1) / grain;
#pragma omp parallel
    {
      const auto threads = static_cast<std::size_t>(omp_get_num_threads());
      const auto thread = static_cast<std::size_t>(omp_get_thread_num());
      const std::size_t first = grains * thread / threads * grain;
      const std::size_t end = grains * (thread + 1) / threads * grain;
      if (first < end) {
        body(first, end < count ? end : count, thread);
      }
    }
    return;
  }
#endif
  body(std::size_t{0}, count, std::size_t{0});
}

/// Floats that a thread works through in about the time that a meeting of the threads takes.
inline constexpr std::size_t kFloatsWorthSharing = std::size_t{16} * 1024;

/// Rows of so many floats that are worth sharing; at least 1.
constexpr std::size_t rows_worth_sharing(std::size_t floats) {
  return kFloatsWorthSharing / (floats + 1) + 1;
}

inline constexpr std::size_t kChunksMost = 64;

/// What is added up over all of [0, count): in chunks that follow from the count alone, so that the
/// sum has the same bits with any number of threads.
class Chunks {
 public:
  /// Of at least `grain` each.
  Chunks(std::size_t count, std::size_t grain) : count_(count), size_(grain) {
    const std::size_t least = (count + kChunksMost - 1) / kChunksMost;
    size_ = least > grain ? least : grain;
  }

  [[nodiscard]] std::size_t number() const { return (count_ + size_ - 1) / size_; }

  /// Calls body(chunk, first, end) for each.
  template <class Body>
  void share_out(const Body& body) const {
    DDP_LEVEL::share_out(number(), 1, [&](std::size_t from, std::size_t to, std::size_t) {
      for (std::size_t chunk = from; chunk < to; ++chunk) {
        const std::size_t end = (chunk + 1) * size_;
        body(chunk, chunk * size_, end < count_ ? end : count_);
      }
    });
  }

  /// From the first to the last.
  double total(const double* sums) const {
    double total = 0;
    for (std::size_t chunk = 0; chunk < number(); ++chunk) {
      total += sums[chunk];
    }
    return total;
  }

 private:
  std::size_t count_, size_;
};

/// Columns of one cache line, so that two threads never write to the same; all of them where so
/// many rows of them are not worth sharing.
constexpr std::size_t columns_worth_sharing(std::size_t rows, std::size_t columns) {
  return rows * columns < 2 * kFloatsWorthSharing ? columns : 16;
}

}  // namespace ddp::DDP_LEVEL
