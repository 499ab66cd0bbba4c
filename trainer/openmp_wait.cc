#include "trainer/openmp_wait.h"

#include <unistd.h>

#include <cstdlib>

namespace ddp {
namespace {

/// The library's own number for more threads than processors: some microseconds, which bridges the
/// gap between two loops, and no more.
constexpr char kSpinCount[] = "1000";

}  // namespace

void spin_briefly(char* const* argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) {
    return;  // the user's decision, or ours of a moment ago
  }
  // Before any thread is there, so nobody reads the environment meanwhile.
  if (::setenv("GOMP_SPINCOUNT", kSpinCount, 1) == 0) {
    ::execv("/proc/self/exe",
            argv);  // comes back only where it fails; slow is better than not at all
  }
}

}  // namespace ddp
