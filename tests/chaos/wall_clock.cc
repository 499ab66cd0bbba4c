// wall_clock: to be preloaded (LD_PRELOAD): CLOCK_REALTIME, and that alone, is off by the seconds
// (a decimal text) in the file CHAOS_CLOCK, from the moment at which they are written there: a
// clock that somebody sets, which no namespace offers. Time spans and CLOCK_MONOTONIC stay right.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>

namespace {

long offset_seconds() {
  const char* const path = std::getenv("CHAOS_CLOCK");
  const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return 0;
  }
  std::array<char, 32> text{};
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  return size > 0 ? std::strtol(text.data(), nullptr, 10) : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += offset_seconds();
  }
  return static_cast<int>(failed);
}

int gettimeofday(timeval* now, void* /*zone*/) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != nullptr) {
    *now = precise.tv_sec;
  }
  return precise.tv_sec;
}
}
