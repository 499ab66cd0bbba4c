#include "trainer/threads.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>

#include "trainer/alternate_stack.h"

extern "C" void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);

namespace ddp {

TEST_CASE("a node's processors are shared by its workers, and each has one at least", "[threads]") {
  CHECK(threads_of_rank(8, 2) == 4);
  CHECK(threads_of_rank(8, 3) == 2);
  CHECK(threads_of_rank(1, 4) == 1);
  CHECK(threads_of_rank(4, 0) == 4);
}

TEST_CASE("the line about threads says where their number comes from", "[threads]") {
  CHECK(threads_text(2, {.count = 2, .quota = 1.5}, 1) ==
        "Threads: 2 (a CPU quota of 1.5 processors)");
  CHECK(threads_text(8, {.count = 64, .quota = {}}, 8) ==
        "Threads: 8 (an affinity of 64 processors, shared by 8 workers)");
}

TEST_CASE("every thread that computes has an alternate signal stack", "[threads]") {
  give_alternate_stacks();
  struct Seen {
    std::atomic<int> threads = 0;
    std::atomic<int> with_stack = 0;
  } seen;
  GOMP_parallel(
      [](void* data) {
        stack_t now{};
        ::sigaltstack(nullptr, &now);
        auto& counts = *static_cast<Seen*>(data);
        ++counts.threads;
        counts.with_stack += (now.ss_flags & SS_DISABLE) == 0 ? 1 : 0;
      },
      &seen, 0, 0);
  CHECK(seen.threads > 0);
  CHECK(seen.with_stack == seen.threads);
}

}  // namespace ddp
