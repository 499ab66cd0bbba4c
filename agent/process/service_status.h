// ServiceStatus: what this agent tells a service manager (systemd), in the words of sd_notify(3):
// lines of NAME=value in one datagram. Pure; service_notifier.h sends them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace ddprun {

/// How to reach the manager: what it has put into the environment of this service.
struct ServiceManager {
  std::string notify_socket;  ///< NOTIFY_SOCKET; empty: there is none
  std::string watchdog_usec;  ///< WATCHDOG_USEC; empty: none, or for another process
};

struct ServiceStatus {
  bool ready = false;     ///< the agent has joined the job, or hosts it
  bool stopping = false;  ///< and now ends
  std::optional<std::uint32_t> attempt;
  int world_size = 0;  ///< of that attempt
  std::optional<std::int64_t> step;

  friend bool operator==(const ServiceStatus&, const ServiceStatus&) = default;
};

/// "attempt 1, world size 4, step 120": one line, without an end.
std::string status_line(const ServiceStatus& status);

/// The datagram after one that told `told`; empty: there is nothing to tell. `beat`: the watchdog
/// is due.
std::string notification(const ServiceStatus& told, const ServiceStatus& now, bool beat);

/// sun_path of the socket: a path, or for "@name" an abstract name, which begins with a zero byte.
Result<std::string> notify_address(std::string_view notify_socket);

/// Half of the time after which the manager takes this service for hung (sd_watchdog_enabled(3)).
Result<std::chrono::microseconds> watchdog_pause(std::string_view watchdog_usec);

}  // namespace ddprun
