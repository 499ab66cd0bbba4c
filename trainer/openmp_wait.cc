#include "trainer/openmp_wait.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

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
  // By its own path: /proc/self/exe would make "exe" of the name that ps shows.
  std::error_code unread;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unread);
  // Before any thread is there, so nobody reads the environment meanwhile.
  if (unread || ::setenv("GOMP_SPINCOUNT", kSpinCount, 1) != 0) {
    return;
  }
  // execve(2) sets handlers back and keeps the mask: a signal that comes while the program is
  // loaded waits for leave_until_preemption().
  sigset_t held;
  ::sigemptyset(&held);
  ::sigaddset(&held, SIGTERM);
  ::sigaddset(&held, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &held, nullptr);
  // Comes back only where it fails: slow is better than not at all.
  ::execv(program.c_str(), argv);
  ::sigprocmask(SIG_UNBLOCK, &held, nullptr);
}

}  // namespace ddp
