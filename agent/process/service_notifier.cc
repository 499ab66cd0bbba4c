#include "agent/process/service_notifier.h"

#include <spdlog/logger.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

/// Until another try, where the manager has not read what it was sent before.
constexpr std::chrono::milliseconds kNotifyRetryPause{100};

/// sd_notify(3) asks for this: a child that inherits the variables could speak for the service.
std::string taken_from_environment(const char* name) {
  const char* const value = std::getenv(name);
  std::string text = value != nullptr ? value : "";
  ::unsetenv(name);
  return text;
}

}  // namespace

ServiceManager take_service_manager() {
  ServiceManager manager;
  manager.notify_socket = taken_from_environment(env::kNotifySocket);
  manager.watchdog_usec = taken_from_environment(env::kWatchdogUsec);
  // Another process's, which has let us inherit it, is not for us to feed.
  if (const std::string pid = taken_from_environment(env::kWatchdogPid);
      !pid.empty() && pid != std::to_string(::getpid())) {
    manager.watchdog_usec.clear();
  }
  return manager;
}

/// Made only where there is a manager: an agent without one has no socket, and no timer that wakes
/// it.
struct ServiceNotifier::Impl {
  Impl(boost::asio::io_context& io, std::string address, std::chrono::microseconds pause,
       std::string where, std::shared_ptr<spdlog::logger> logger)
      : socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
        sun_path(std::move(address)),
        beat_pause(pause),
        origin(std::move(where)),
        log(std::move(logger)),
        beat(io),
        retry(io) {}

  /// Tells what has changed. Not connected: a manager that was started anew has the same address.
  void tell(bool is_beat) {
    const std::string text = notification(told, now, is_beat);
    if (text.empty()) {
      return;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(sun_path.begin(), sun_path.end(), std::begin(address.sun_path));
    // A path is told with the zero byte behind it, an abstract name by its length.
    const auto size =
        offsetof(sockaddr_un, sun_path) + sun_path.size() + (sun_path.front() == '\0' ? 0 : 1);
    if (::sendto(socket.get(), text.data(), text.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size)) >= 0) {
      told = now;
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      tell_later(is_beat);
    } else {
      warn(errno_error(errno, "cannot tell the service manager how the job is", origin));
    }
  }

  /// The loop never waits for a manager: its queue is full while it is busy or stopped.
  void tell_later(bool is_beat) {
    retry.expires_after(kNotifyRetryPause);
    retry.async_wait([this, is_beat](boost::system::error_code error) {
      if (!error) {
        tell(is_beat);
      }
    });
  }

  /// The next beats and changes are tried all the same: a manager may be away for a moment.
  void warn(const Error& why) {
    if (!std::exchange(warned, true)) {
      log->warn("{}", why.sentence());
    }
  }

  /// A loop that hangs sends none, and the manager restarts the service.
  void beat_later() {
    beat.expires_after(beat_pause);
    beat.async_wait([this](boost::system::error_code error) {
      if (!error) {
        tell(true);
        beat_later();
      }
    });
  }

  Fd socket;
  const std::string sun_path;
  const std::chrono::microseconds beat_pause;
  const std::string origin;
  std::shared_ptr<spdlog::logger> log;
  boost::asio::steady_timer beat;
  boost::asio::steady_timer retry;
  ServiceStatus told;
  ServiceStatus now;
  bool warned = false;
};

ServiceNotifier::ServiceNotifier(boost::asio::io_context& io, const ServiceManager& manager,
                                 std::shared_ptr<spdlog::logger> log) {
  if (manager.notify_socket.empty()) {
    return;
  }
  auto address = notify_address(manager.notify_socket);
  if (!address) {
    log->warn("the service manager is told nothing: {}", address.error().sentence());
    return;
  }
  std::chrono::microseconds pause{0};
  if (!manager.watchdog_usec.empty()) {
    if (const auto read = watchdog_pause(manager.watchdog_usec)) {
      pause = *read;
    } else {
      log->warn("the service manager gets no watchdog: {}", read.error().sentence());
    }
  }
  impl_ = std::make_unique<Impl>(io, std::move(*address), pause,
                                 "NOTIFY_SOCKET='" + printable(manager.notify_socket) + "'",
                                 std::move(log));
  if (pause.count() > 0) {
    impl_->tell(true);
    impl_->beat_later();
  }
}

ServiceNotifier::~ServiceNotifier() = default;

void ServiceNotifier::joined() {
  if (impl_) {
    impl_->now.ready = true;
    impl_->tell(false);
  }
}

void ServiceNotifier::attempt_began(const World& world) {
  if (impl_) {
    impl_->now.attempt = number(world.attempt);
    impl_->now.world_size = world.world_size;
    impl_->now.step.reset();
    impl_->tell(false);
  }
}

void ServiceNotifier::progressed(const TrainingProgress& progress) {
  if (impl_ && progress.steps) {
    impl_->now.step = progress.steps;
    impl_->tell(false);
  }
}

void ServiceNotifier::ends() {
  if (impl_) {
    impl_->now.stopping = true;
    impl_->tell(false);
  }
}

}  // namespace ddprun
