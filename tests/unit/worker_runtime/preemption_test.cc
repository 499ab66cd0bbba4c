#include "ddp/preemption.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

#include "ddp/ddp.h"
#include "rendezvous/contract/environment.h"
#include "rendezvous/contract/progress_channel.h"

using namespace ddp;

namespace {

/// How a worker ends, a process of its own: it makes a Preemption, does this with it, and gets
/// SIGTERM once that object is gone.
template <class Action>
int wait_status_after(const Action& action) {
  auto channel = ddprun::ProgressChannel::create();
  REQUIRE(channel.has_value());
  const pid_t worker = ::fork();
  if (worker == 0) {
    ::setenv(ddprun::env::kProgressChannel, channel->path().c_str(), 1);
    for (const int number : {SIGTERM, SIGUSR1}) {
      std::signal(number, SIG_DFL);  // the test's own main handles them
    }
    const Context context = init();
    {
      Preemption preemption(context);
      action(preemption);
    }
    std::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(worker, &status, 0) == worker);
  return status;
}

}  // namespace

TEST_CASE("A scheduler's signal is an order to save, the second one the end") {
  const int status = wait_status_after([](Preemption& preemption) {
    std::raise(SIGTERM);
    if (!preemption.asked()) {
      ::_exit(1);
    }
    std::raise(SIGTERM);
    ::_exit(2);
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("A process that has left ends in order, whatever a scheduler still sends it") {
  const int status = wait_status_after([](Preemption& preemption) { preemption.leave(); });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("A process that goes on after its training ends by a signal as any other") {
  const int status = wait_status_after([](Preemption&) {});
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}
