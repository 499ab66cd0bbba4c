// BlockRunner: runs CUDA kernels on the CPU, block after block, the threads of a block as fibers
// that switch at barriers and shuffles. It shows wrong indices, missing barriers and wrong
// arithmetic, and nothing of speed. What it refuses ends the process with a sentence: a barrier
// that some threads never reach, a shuffle with part of a warp, a block of half a warp, more shared
// memory than was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace ddp_standin {

inline constexpr unsigned kWarp = 32;
/// Of one block on an A100 (CUDA Programming Guide, compute capability 8.0); an H100 has more.
inline constexpr std::size_t kSharedMax = std::size_t{163} << 10;
/// Without asking for more by cudaFuncSetAttribute.
inline constexpr std::size_t kSharedDefault = std::size_t{48} << 10;

struct Index {
  unsigned x = 1, y = 1, z = 1;
};

/// Runs `thread` for each thread of the grid. DDPRUN_STANDIN_THREAD_ORDER=descending in the
/// environment: the last thread of a block goes on first wherever any may. A kernel that then gives
/// other results lacks a barrier.
void run_grid(Index grid, Index block, std::size_t shared_bytes,
              const std::function<void()>& thread);

// Within a thread:
const Index& this_block();
const Index& this_thread();
const Index& grid_size();
const Index& block_size();
/// Waits for all threads of the block; whether any of them gave true.
bool await_block(bool any = false);
/// Waits for all threads of the warp, and returns what thread `lane` of it gave.
std::uint64_t exchange(std::uint64_t mine, unsigned lane);

}  // namespace ddp_standin
