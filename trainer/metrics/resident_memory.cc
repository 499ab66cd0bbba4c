#include "trainer/metrics/resident_memory.h"

#include <unistd.h>

#include <fstream>

namespace ddp {

std::int64_t resident_bytes() {
  std::int64_t virtual_pages = 0;
  std::int64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace ddp
