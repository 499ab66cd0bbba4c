#include "agent/process/descriptor_limit.h"

#include <sys/resource.h>

namespace ddprun {

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 0;
  }
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &raised) != 0) {
    return 0;
  }
  return limit.rlim_cur;
}

}  // namespace ddprun
