#include "tests/sim/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>

#include "rendezvous/base/check.h"

namespace ddprun::sim {

pid_t run_in_child(const std::function<void()>& what) {
  std::fflush(nullptr);
  std::cout.flush();
  const pid_t pid = ::fork();
  DDP_CHECK(pid >= 0, "a process can be made");
  if (pid == 0) {
    ::signal(SIGABRT, SIG_DFL);  // a test's own handler would go on with its tests
    what();
    ::_exit(0);
  }
  return pid;
}

bool ended_well(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace ddprun::sim
