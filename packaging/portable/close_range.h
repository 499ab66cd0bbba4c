// Boost.Process calls close_range(2) where the kernel's headers know it; glibc has it since 2.34.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

inline int close_range(unsigned first, unsigned last, int flags) {
  return static_cast<int>(::syscall(SYS_close_range, first, last, flags));
}
