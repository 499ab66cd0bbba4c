#include "trainer/alternate_stack.h"

#include <csignal>
#include <cstddef>
#include <vector>

// What GCC makes of `#pragma omp parallel`. By hand: clang has another OpenMP, or none.
extern "C" void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);

namespace ddp {
namespace {

/// Room for the registers of any processor, AMX's tiles too, and for a handler that takes a stack.
constexpr std::size_t kStackBytes = std::size_t{64} << 10U;

/// As long as the thread lives: the kernel forgets a stack with its thread, and not before.
class AlternateStack {
 public:
  AlternateStack() {
    stack_t now{};
    // ddp::record() has given the main thread one.
    if (::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) {
      return;
    }
    memory_.resize(kStackBytes);
    stack_t mine{};
    mine.ss_sp = memory_.data();
    mine.ss_size = memory_.size();
    ::sigaltstack(&mine, nullptr);
  }
  ~AlternateStack() {
    if (!memory_.empty()) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      ::sigaltstack(&none, nullptr);
    }
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  std::vector<std::byte> memory_;
};

void give_to_this_thread(void* /*data*/) {
  static thread_local const AlternateStack stack;
}

}  // namespace

void give_alternate_stacks() {
  // 0 threads: as many as the team has.
  GOMP_parallel(give_to_this_thread, nullptr, 0, 0);
}

}  // namespace ddp
