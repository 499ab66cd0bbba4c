// stamp_worker: a worker that writes down when it began, then waits for a signal. The first thing
// it does is to ask for the time; then it appends a line to the file named by DDPRUN_BENCH_STAMPS:
//   <CLOCK_MONOTONIC in ns> <RANK> <TORCHELASTIC_RESTART_COUNT> <pid>
// One write() of a short line in O_APPEND is whole, whoever else writes to the file.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

int main() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);

  const char* const path = std::getenv("DDPRUN_BENCH_STAMPS");
  const char* const rank = std::getenv("RANK");
  const char* const attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (path == nullptr || rank == nullptr || attempt == nullptr) {
    std::fputs("stamp_worker: run it by a launcher, with DDPRUN_BENCH_STAMPS set\n", stderr);
    return 2;
  }
  char line[128];
  const int size =
      std::snprintf(line, sizeof line, "%lld%09ld %s %s %d\n", static_cast<long long>(now.tv_sec),
                    now.tv_nsec, rank, attempt, static_cast<int>(::getpid()));
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || ::write(file, line, static_cast<std::size_t>(size)) != size) {
    std::perror(path);
    return 1;
  }
  ::pause();
  return 0;
}
