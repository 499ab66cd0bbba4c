// The main of every Catch2 program: Catch2's own, which also exits with 77 after a skipped test.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
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

// ctest runs each test case in a process of its own, so one flag is enough.
int main(int count, char** words) {
  const int failed = Catch::Session().run(count, words);
  return failed == 0 && skipped ? kSkipped : failed;
}
