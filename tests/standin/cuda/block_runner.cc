#include "tests/standin/cuda/block_runner.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/standin/cuda/fibers.h"

namespace ddp {

/// What `extern __shared__` arrays of the kernels are: the bytes behind what was asked for show who
/// writes beyond it.
alignas(1024) unsigned char shared_bytes[ddp_standin::kSharedMax + 4096];

}  // namespace ddp

namespace ddp_standin {
namespace {

/// A NaN as a float, as a double and as a bf16.
constexpr int kPoison = 0xff;
constexpr std::size_t kGuardBytes = 4096;

enum class State : std::uint8_t { new_one, ready, at_block_barrier, at_warp_barrier, done };

struct Thread {
  State state = State::new_one;
  std::size_t fiber = 0;
  // Two, in turn: the next exchange does not overwrite what a slower lane has yet to read.
  std::array<std::uint64_t, 2> shown{};
  unsigned exchanges = 0;
};

[[noreturn]] void refuse(const char* what, const Index& block) {
  std::fprintf(stderr, "CUDA stand-in: block (%u, %u, %u): %s\n", block.x, block.y, block.z, what);
  std::abort();
}

class BlockRunner {
 public:
  void run(Index grid, Index block, std::size_t shared, const std::function<void()>& thread) {
    grid_ = grid;
    block_ = block;
    thread_ = &thread;
    shared_ = shared;
    const char* order = std::getenv("DDPRUN_STANDIN_THREAD_ORDER");
    descending_ = order != nullptr && std::strcmp(order, "descending") == 0;
    const std::size_t count = std::size_t{block.x} * block.y * block.z;
    if (count % kWarp != 0 || count > 1024 || count == 0) {
      refuse("its number of threads is no multiple of a warp's, or above 1024", grid);
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
      refuse("the grid has no blocks, or more than 65535 in y or z", grid);
    }
    for (at_.z = 0; at_.z < grid.z; ++at_.z) {
      for (at_.y = 0; at_.y < grid.y; ++at_.y) {
        for (at_.x = 0; at_.x < grid.x; ++at_.x) {
          run_block(count);
        }
      }
    }
  }

  [[nodiscard]] const Index& block_at() const { return at_; }
  [[nodiscard]] const Index& thread_at() const { return thread_at_; }
  [[nodiscard]] const Index& grid() const { return grid_; }
  [[nodiscard]] const Index& block() const { return block_; }

  bool await_block(bool any) {
    any_next_ = any_next_ || any;
    wait(State::at_block_barrier);
    return any_;
  }

  std::uint64_t exchange(std::uint64_t mine, unsigned lane) {
    Thread& self = threads_[current_];
    const unsigned turn = self.exchanges++ % 2;
    self.shown[turn] = mine;
    const std::size_t from = current_ / kWarp * kWarp + lane % kWarp;
    wait(State::at_warp_barrier);
    return threads_[from].shown[turn];
  }

 private:
  void run_block(std::size_t count) {
    threads_.assign(count, {});
    fresh_ = 0;
    any_next_ = false;
    std::memset(ddp::shared_bytes, kPoison, shared_ + kGuardBytes);
    while (step()) {
    }
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      if (ddp::shared_bytes[shared_ + i] != kPoison) {
        refuse("it wrote beyond the shared memory that it has", at_);
      }
    }
  }

  /// Lets one warp after the other run as far as it can, past its own barriers: so that warps are
  /// as far apart as CUDA lets them be. False when all are done.
  bool step() {
    for (std::size_t warp = 0; warp < threads_.size(); warp += kWarp) {
      do {
        for (std::size_t i = warp; i < warp + kWarp; ++i) {
          if (threads_[in_order(i)].state == State::ready) {
            current_ = in_order(i);
            go(threads_[current_].fiber);
          }
        }
        for (fresh_end_ = warp + kWarp; fresh_ < fresh_end_;) {
          go(free_fiber());  // it takes new threads until one of them waits
        }
      } while (release_warp(in_order(warp) / kWarp * kWarp));
    }
    return release_block();
  }

  std::size_t free_fiber() {
    if (!idle_.empty()) {
      const std::size_t fiber = idle_.back();
      idle_.pop_back();
      return fiber;
    }
    return fibers_made_++;
  }

  void go(std::size_t fiber) {
    set_thread_index();
    fibers_.resume(fiber);
  }

  void run_new_threads(std::size_t fiber) {
    while (fresh_ < fresh_end_) {
      const std::size_t mine = in_order(fresh_++);
      current_ = mine;
      threads_[mine].fiber = fiber;
      set_thread_index();
      (*thread_)();
      threads_[mine].state = State::done;
    }
    idle_.push_back(fiber);
  }

  void wait(State state) {
    const std::size_t self = current_;
    threads_[self].state = state;
    fibers_.stop();
    current_ = self;
    set_thread_index();
  }

  /// Whether it was waiting at a barrier of its own, and now goes on.
  bool release_warp(std::size_t first) {
    unsigned waiting = 0;
    for (std::size_t i = first; i < first + kWarp; ++i) {
      waiting += threads_[i].state == State::at_warp_barrier ? 1 : 0;
    }
    if (waiting == 0) {
      return false;
    }
    if (waiting < kWarp) {
      refuse("a part of a warp waits for the rest, which has ended or waits elsewhere", at_);
    }
    for (std::size_t i = first; i < first + kWarp; ++i) {
      threads_[i].state = State::ready;
    }
    return true;
  }

  /// The same of the block.
  bool release_block() {
    std::size_t waiting = 0;
    for (const Thread& thread : threads_) {
      waiting += thread.state == State::at_block_barrier ? 1 : 0;
    }
    if (waiting == 0) {
      return false;
    }
    if (waiting < threads_.size()) {
      refuse("some threads wait at __syncthreads, and others never come", at_);
    }
    any_ = std::exchange(any_next_, false);
    for (Thread& thread : threads_) {
      thread.state = State::ready;
    }
    return true;
  }

  [[nodiscard]] std::size_t in_order(std::size_t i) const {
    return descending_ ? threads_.size() - 1 - i : i;
  }

  void set_thread_index() {
    const auto i = static_cast<unsigned>(current_);
    thread_at_ = {i % block_.x, i / block_.x % block_.y, i / (block_.x * block_.y)};
  }

  Index grid_, block_, at_, thread_at_;
  const std::function<void()>* thread_ = nullptr;
  std::size_t shared_ = 0;
  bool descending_ = false;
  std::vector<Thread> threads_;
  std::size_t fresh_ = 0;      // how many threads have begun
  std::size_t fresh_end_ = 0;  // how many may
  std::size_t current_ = 0;
  std::size_t fibers_made_ = 0;
  std::vector<std::size_t> idle_;
  bool any_ = false, any_next_ = false;
  Fibers fibers_{[this](std::size_t fiber) { run_new_threads(fiber); }};
};

BlockRunner& runner() {
  static BlockRunner one;
  return one;
}

}  // namespace

void run_grid(Index grid, Index block, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  runner().run(grid, block, shared_bytes, thread);
}
const Index& this_block() {
  return runner().block_at();
}
const Index& this_thread() {
  return runner().thread_at();
}
const Index& grid_size() {
  return runner().grid();
}
const Index& block_size() {
  return runner().block();
}
bool await_block(bool any) {
  return runner().await_block(any);
}
std::uint64_t exchange(std::uint64_t mine, unsigned lane) {
  return runner().exchange(mine, lane);
}

}  // namespace ddp_standin
