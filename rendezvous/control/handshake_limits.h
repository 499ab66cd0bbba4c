// Greeting limits: what strangers may take of a listening agent. Internal to control.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace ddprun {

/// An agent speaks first, and at once. A connection that is silent for this long is not an agent's.
inline constexpr std::chrono::milliseconds kHelloTimeout{5'000};

/// Connections that may be open without having said hello; the oldest makes room. Bounded by a
/// quarter of the descriptors too, so that a thousand silent strangers leave enough for agents and
/// workers.
inline std::size_t max_unauthenticated() {
  constexpr std::size_t kMost = 4096;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return kMost / 16;
  }
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 16, kMost);
}

/// Strangers and rejections that are remembered, in order to log each once: a node that is started
/// again and again with the same mistake is a row of the waiting table, not a flood.
inline constexpr std::size_t kRememberedMax = 256;

}  // namespace ddprun
