#include "trainer/gpt2/step_meter.h"

#include <unistd.h>

#include <fstream>

namespace ddp {

std::int64_t resident_bytes() {
  // proc(5): pages in all, then those that are resident.
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  return file >> all >> resident ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace ddp
