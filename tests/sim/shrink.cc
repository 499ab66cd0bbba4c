#include "tests/sim/shrink.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun::sim {
namespace {

/// Without the `piece`th of so many pieces.
std::vector<Fault> without(const std::vector<Fault>& all, std::size_t piece, std::size_t pieces) {
  const std::size_t begin = all.size() * piece / pieces;
  const std::size_t end = all.size() * (piece + 1) / pieces;
  std::vector<Fault> rest(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin));
  rest.insert(rest.end(), all.begin() + static_cast<std::ptrdiff_t>(end), all.end());
  return rest;
}

}  // namespace

std::vector<Fault> shrink(std::vector<Fault> schedule,
                          const std::function<bool(const std::vector<Fault>&)>& fails,
                          int runs_max) {
  std::size_t pieces = 2;
  int runs = 0;
  while (!schedule.empty() && pieces <= schedule.size()) {
    bool smaller = false;
    for (std::size_t piece = 0; piece < pieces && !smaller; ++piece) {
      if (++runs > runs_max) {
        return schedule;
      }
      std::vector<Fault> rest = without(schedule, piece, pieces);
      if (fails(rest)) {
        schedule = std::move(rest);
        pieces = std::max<std::size_t>(pieces - 1, 2);
        smaller = true;
      }
    }
    if (!smaller) {
      if (pieces == schedule.size()) {
        break;
      }
      pieces = std::min(2 * pieces, schedule.size());
    }
  }
  return schedule;
}

}  // namespace ddprun::sim
