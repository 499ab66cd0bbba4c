// The main of every Catch2 program: Catch2's own, and exit code 77 after a skipped test. The linker
// gives both their names (--wrap=main): __real_main is Catch2's.
#include <cstdio>

#include "tests/support/skip.h"

namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt
bool skipped = false;

}  // namespace

void ddprun::test::skip(const std::string& need, const std::string& reason) {
  std::printf("skipped: needs %s: %s\n", need.c_str(), reason.c_str());
  std::fflush(stdout);
  skipped = true;
}

// NOLINTBEGIN(bugprone-reserved-identifier): names of the linker.
extern "C" int __real_main(int count, char** words);

// ctest runs each test case in a process of its own, so one flag is enough.
extern "C" int __wrap_main(int count, char** words) {
  const int failed = __real_main(count, words);
  return failed == 0 && skipped ? kSkipped : failed;
}
// NOLINTEND(bugprone-reserved-identifier)
