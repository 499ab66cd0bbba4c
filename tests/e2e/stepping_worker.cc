// stepping_worker DIR STEPS_PER_EPOCH EPOCHS FAIL_AT: makes steps of 5 ms and saves after each
// epoch, telling the agent as a trainer does. In the first attempt all ranks stop at step FAIL_AT,
// and 300 ms later rank 1 kills itself: it is known exactly what was done and what is lost. 300 ms
// pass before the first step of each attempt.
// Each rank writes down when (CLOCK_MONOTONIC, ms) it did what, before and after each thing that it
// tells: DIR/stamps.<restarts>.<rank>.
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ios>
#include <ostream>
#include <string>

#include "ddp/ddp.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

void pass(int ms) {
  ::poll(nullptr, 0, ms);
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

class Stamps {
 public:
  explicit Stamps(const std::string& path) : out_(path) { out_ << std::fixed; }
  void write(const std::string& what) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    out_ << what << ' ' << now.tv_sec * 1'000.0 + static_cast<double>(now.tv_nsec) / 1e6 << '\n'
         << std::flush;
  }

 private:
  std::ofstream out_;
};

/// All ranks are there, then rank 1 is no more. Only a signal gets anybody out of here.
void fail(const std::string& dir, const std::string& rank, Stamps& stamps) {
  std::ofstream(dir + "/there." + rank) << "yes";
  if (rank == "1") {
    while (!exists(dir + "/there.0")) {
      pass(1);
    }
    pass(300);
    stamps.write("death");
    ::kill(::getpid(), SIGKILL);
  }
  for (;;) {
    pass(1'000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "stepping_worker DIR STEPS_PER_EPOCH EPOCHS FAIL_AT\n");
    return 2;
  }
  const std::string dir = argv[1];
  const int steps_per_epoch = std::atoi(argv[2]);
  const int epochs = std::atoi(argv[3]);
  const int fail_at = std::atoi(argv[4]);
  const std::string rank = variable("RANK");
  const std::string restarts = variable("TORCHELASTIC_RESTART_COUNT");
  Stamps stamps(dir + "/stamps." + restarts + "." + rank);
  stamps.write("begin");
  auto progress = ddp::Progress::attach(std::getenv("DDPRUN_PROGRESS_CHANNEL"));
  const std::string snapshot = dir + "/snapshot." + rank;
  int epoch = 0;
  if (std::ifstream saved(snapshot); saved >> epoch) {
    progress.resumed(static_cast<std::uint64_t>(epoch - 1));
  }
  int done = 0;
  pass(300);
  for (; epoch < epochs; ++epoch) {
    for (int step = 0; step < steps_per_epoch; ++step) {
      pass(5);
      if (++done == 1) {
        stamps.write("before_first_step");
      }
      progress.step(0.5);
      if (done == 1) {
        stamps.write("first_step");
      }
      if (restarts == "0" && done == fail_at) {
        fail(dir, rank, stamps);
      }
    }
    progress.epoch_done(static_cast<std::uint64_t>(epoch));
    std::ofstream(snapshot) << epoch + 1;
    stamps.write("before_saved");
    progress.saved(static_cast<std::uint64_t>(epoch));
    stamps.write("saved");
  }
  stamps.write("end");
  return 0;
}
