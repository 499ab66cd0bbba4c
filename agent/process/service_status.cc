#include "agent/process/service_status.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// A manager that asks for more often gets this: the loop has other things to do.
constexpr std::chrono::microseconds kBeatPauseMin{1'000};
/// And none waits longer than a steady clock can count.
constexpr std::chrono::microseconds kBeatPauseMax = std::chrono::hours(24);

}  // namespace

std::string status_line(const ServiceStatus& status) {
  DDP_CHECK(!status.attempt || status.world_size > 0, "an attempt has workers");
  DDP_CHECK(!status.step || *status.step >= 0, "steps are counted from 0");
  std::string line;
  if (status.stopping) {
    line = "ending the job on this node";  // the longest part: workers may still save
  } else if (!status.ready) {
    line = "looking for the job";
  } else if (!status.attempt) {
    line = "waiting for the other nodes";
  }
  if (status.attempt) {
    line += line.empty() ? "" : ": ";
    line += "attempt " + std::to_string(*status.attempt) + ", world size " +
            std::to_string(status.world_size);
    if (status.step) {
      line += ", step " + std::to_string(*status.step);
    }
  }
  DDP_CHECK(line.find('\n') == std::string::npos, "a line end would begin another NAME=value");
  return line;
}

std::string notification(const ServiceStatus& told, const ServiceStatus& now, bool beat) {
  DDP_CHECK(!told.ready || now.ready, "what has joined stays so");
  DDP_CHECK(!told.stopping || now.stopping, "what ends goes on ending");
  std::string text;
  // Once: systemd keeps its socket, what waits there and what it has read over daemon-reload and
  // daemon-reexec, and what could not be sent does not count as told.
  if (now.ready && !told.ready) {
    text += "READY=1\n";
  }
  if (now.stopping && !told.stopping) {
    text += "STOPPING=1\n";
  }
  // Whole each time: a manager that was started anew has forgotten what it was told.
  if (now != told) {
    text += "STATUS=" + status_line(now) + "\n";
  }
  if (beat) {
    text += "WATCHDOG=1\n";
  }
  return text;
}

Result<std::string> notify_address(std::string_view notify_socket) {
  const std::string where = "NOTIFY_SOCKET='" + printable(std::string(notify_socket)) + "'";
  const bool is_abstract = notify_socket.starts_with('@');
  if (!is_abstract && !notify_socket.starts_with('/')) {
    return Error{"it is neither a path from / nor an abstract name (@...)", where,
                 "unset it, or let the service manager set it"};
  }
  // A path has a zero byte at its end, and an abstract name one in front, in place of the @.
  const std::size_t most = sizeof(sockaddr_un::sun_path) - (is_abstract ? 0 : 1);
  if (notify_socket.size() > most) {
    return Error{"it is longer than a socket's address may be", where, "give a shorter one"};
  }
  std::string address(notify_socket);
  if (is_abstract) {
    address.front() = '\0';
  }
  DDP_CHECK(address.size() == notify_socket.size(), "only the first byte may change");
  return address;
}

Result<std::chrono::microseconds> watchdog_pause(std::string_view watchdog_usec) {
  std::int64_t number = 0;
  const char* const end = watchdog_usec.data() + watchdog_usec.size();
  const auto [stopped, error] = std::from_chars(watchdog_usec.data(), end, number);
  const bool is_huge = error == std::errc::result_out_of_range && stopped == end;
  if ((error != std::errc() && !is_huge) || stopped != end || (number <= 0 && !is_huge)) {
    return Error{"it is no number of microseconds",
                 "WATCHDOG_USEC='" + printable(std::string(watchdog_usec)) + "'",
                 "unset it, or let the service manager set it"};
  }
  const std::chrono::microseconds half(number / 2);
  return is_huge ? kBeatPauseMax : std::clamp(half, kBeatPauseMin, kBeatPauseMax);
}

}  // namespace ddprun
