// hang_worker: a training loop that stands still where it is told to, for tests of what finds that.
//   hang_worker STEPS MODE [RANK STEP]
// Each step all-reduces 4 MiB. In attempt 0, rank RANK before that of step STEP (from 1):
//   sleep   waits for ever     deaf   the same, and ignores SIGTERM
//   stop    stops itself by SIGSTOP   none   goes on
// Each rank writes "stepped RANK STEP" after step STEP - 1, and at the end "done".
#include <ddp/ddp.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr std::int64_t kElements = 1 << 20;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) {
    std::_Exit(1);
  }
}

/// Not inlined, so that a stack names it.
[[gnu::noinline]] void stand_still() {
  for (;;) {
    ::pause();
  }
}

void hurt(const std::string& mode) {
  if (mode == "stop") {
    ::raise(SIGSTOP);
  } else if (mode != "none") {
    if (mode == "deaf") {
      std::signal(SIGTERM, SIG_IGN);
    }
    stand_still();
  }
}

int train(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 0;
  const std::string mode = argc > 2 ? argv[2] : "none";
  const int rank = argc > 4 ? std::atoi(argv[3]) : -1;
  const int at = argc > 4 ? std::atoi(argv[4]) : -1;
  const ddp::Context context = ddp::init();
  const ddp::Tensor gradient = ddp::Tensor::zeros({kElements});
  for (int step = 1; step <= steps; ++step) {
    if (step == at && context.restart_count() == 0) {
      say("stepped " + std::to_string(context.rank()) + " " + std::to_string(step));
      if (context.rank() == rank) {
        hurt(mode);
      }
    }
    context.group().all_reduce(gradient);
    context.progress().step();
  }
  say("done");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, train);
}
