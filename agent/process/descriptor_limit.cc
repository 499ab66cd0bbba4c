#include "agent/process/descriptor_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/base/fd.h"

namespace ddprun {

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 0;
  }
  // getrlimit(2): a process without privileges may raise its soft limit up to the hard one.
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &raised) != 0) {
    return 0;
  }
  return limit.rlim_cur;
}

void reserve_descriptors(std::uint64_t count) {
  rlimit limit{};
  // F_DUPFD refuses a number at or above the soft limit, so the limit is raised for this one call
  // and put back below.
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || raise_descriptor_limit() == 0) {
    return;
  }
  const std::uint64_t highest = std::min<std::uint64_t>(count, limit.rlim_max);
  if (highest > 0) {
    // The table grows for a number, and does not shrink.
    (void)Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, static_cast<int>(highest - 1)));
  }
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddprun
