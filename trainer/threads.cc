#include "trainer/threads.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "trainer/alternate_stack.h"

// GCC's OpenMP library, which oneDNN computes with. By hand: clang has another <omp.h>, or none.
extern "C" void omp_set_num_threads(int count);

namespace ddp {

int threads_of_rank(int processors, int local_world_size) {
  return std::max(1, processors / std::max(1, local_world_size));
}

void choose_threads(const Context& context) {
  const char* given = std::getenv("OMP_NUM_THREADS");
  if (given == nullptr || *given == '\0') {  // else the library has read it
    cpu_set_t set;
    CPU_ZERO(&set);
    // More processors than a cpu_set_t holds: the call fails, and one thread is always right.
    const int processors = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    omp_set_num_threads(threads_of_rank(processors, context.local_world_size()));
  }
  give_alternate_stacks();
}

}  // namespace ddp
