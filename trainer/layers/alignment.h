// Arrays of floats that share an allocation each begin at a cache line: vector loads do not cross
// one then.
#pragma once

#include <cstddef>

namespace ddp {

/// `count` floats, rounded up to whole lines of 64 bytes.
constexpr std::size_t aligned_floats(std::size_t count) {
  constexpr std::size_t kLine = 16;
  return (count + kLine - 1) / kLine * kLine;
}

}  // namespace ddp
