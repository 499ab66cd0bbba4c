// Waiting for an event with a deadline. The only place in the tests that pauses: a condition is
// looked at every 2 ms (a change in a file, a /proc entry or another process sends us nothing that
// would cover them all), and a deadline that passes is a false that the test must check.
#pragma once

#include <poll.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace ddprun::test {

/// Long enough for a loaded two-core machine under the address sanitizer. A test that passes does
/// not wait for it.
inline constexpr std::chrono::seconds kPatience{60};

/// True as soon as `condition()` is; false when it was not within `timeout`.
template <class Condition>
[[nodiscard]] bool wait_until(Condition condition, std::chrono::milliseconds timeout = kPatience) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return condition();
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
