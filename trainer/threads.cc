#include "trainer/threads.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ddp/error.h"
#include "rendezvous/base/text.h"
#include "trainer/alternate_stack.h"

// GCC's OpenMP library, which oneDNN computes with. By hand: clang has another <omp.h>, or none.
extern "C" {
void omp_set_num_threads(int count);
int omp_get_max_threads();
}

namespace ddp {
namespace {

/// More than any machine has processors. From some 10,000 on there is no memory for their stacks,
/// which neither the OpenMP library nor oneDNN survives.
constexpr int kThreadsMax = 4096;

}  // namespace

int threads_of_rank(int processors, int local_world_size) {
  return std::max(1, processors / std::max(1, local_world_size));
}

std::string threads_text(int threads, const ddprun::UsableCpus& usable, int local_world_size) {
  return fmt::format(
      "Threads: {} ({}{})", threads,
      usable.quota ? fmt::format("a CPU quota of {:.3g} processors", *usable.quota)
                   : fmt::format("an affinity of {} processor{}", usable.count,
                                 usable.count == 1 ? "" : "s"),
      local_world_size > 1 ? fmt::format(", shared by {} workers", local_world_size) : "");
}

std::string choose_threads(const Context& context) {
  const char* given = std::getenv("OMP_NUM_THREADS");
  std::string line;
  if (given == nullptr || *given == '\0') {
    const ddprun::UsableCpus usable = ddprun::usable_cpus();
    const int threads = threads_of_rank(usable.count, context.local_world_size());
    // Not by the variable: the library has read that before main began.
    omp_set_num_threads(threads);
    line = threads_text(threads, usable, context.local_world_size());
  } else {
    // The library has read it, and goes its own way where it cannot. A list is of nested levels.
    const std::string_view first =
        std::string_view(given).substr(0, std::string_view(given).find(','));
    const int threads = ddprun::parse_number<int>(ddprun::trimmed(first)).value_or(0);
    if (threads < 1 || threads > kThreadsMax) {
      throw InvalidArgument(fmt::format("OMP_NUM_THREADS is '{}'; give it a number from 1 to {}",
                                        given, kThreadsMax));
    }
    line = fmt::format("Threads: {} (OMP_NUM_THREADS)", omp_get_max_threads());
  }
  give_alternate_stacks();
  return line;
}

/// The stacks of more threads than processors are memory that nobody gains by.
std::string no_memory() {
  const int threads = omp_get_max_threads();
  return threads > ddprun::usable_cpus().count
             ? fmt::format(
                   "there is not enough memory for this training with {} threads; give "
                   "OMP_NUM_THREADS a smaller number, or each worker more memory",
                   threads)
             : "there is not enough memory for this training; choose a smaller model or "
               "--batch-size, or give each worker more memory";
}

void say_threads(const Context& context, const std::string& line) {
  if (context.local_rank() == 0) {
    std::printf("%s\n", line.c_str());
  }
}

}  // namespace ddp
