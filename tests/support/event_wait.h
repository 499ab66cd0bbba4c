// Waiting for an event with a deadline. The only place in the tests that pauses: a condition is
// looked at every 2 ms (a change in a file, a /proc entry or another process sends us nothing that
// would cover them all), and a deadline that passes is a false that the test must check.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace ddprun::test {

/// Long enough for a loaded two-core machine under the address sanitizer. A test that passes does
/// not wait for it.
inline constexpr std::chrono::seconds kPatience{60};

/// For how long this thread was ready to run so far, and had no processor: what a busy machine adds
/// to all that a test measures.
inline std::chrono::nanoseconds waited_for_processor() {
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  std::ifstream("/proc/thread-self/schedstat") >> ran >> waited;
  return std::chrono::nanoseconds(waited);
}

/// True as soon as `condition()` is; false when it was not within `timeout`, the waits of this very
/// thread for a processor left out.
template <class Condition>
[[nodiscard]] bool wait_until(Condition condition, std::chrono::milliseconds timeout = kPatience) {
  const auto waited_before = waited_for_processor();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline && now >= deadline + (waited_for_processor() - waited_before)) {
      return condition();
    }
    ::poll(nullptr, 0, 2);
  }
  return true;
}

/// As wait_until(), by the clock alone: for a state that must not last longer, such as a stall that
/// the program under test is to survive.
template <class Condition>
[[nodiscard]] bool wait_at_most(std::chrono::milliseconds timeout, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    ::poll(nullptr, 0, 2);
  }
  return true;
}

/// How often `text` stands in `content`.
inline int count_of(const std::string& content, const std::string& text) {
  int count = 0;
  for (auto at = content.find(text); at != std::string::npos; at = content.find(text, at + 1)) {
    ++count;
  }
  return count;
}

/// True as soon as the file contains `text` at least `times` times.
[[nodiscard]] inline bool wait_for_text(const std::filesystem::path& file, const std::string& text,
                                        int times = 1,
                                        std::chrono::milliseconds timeout = kPatience) {
  return wait_until([&] { return count_of(read_file(file), text) >= times; }, timeout);
}

}  // namespace ddprun::test
