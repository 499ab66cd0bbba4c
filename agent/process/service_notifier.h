// ServiceNotifier: tells the service manager that has started this agent (systemd, Type=notify)
// when the node has joined its job, how far the job is, that the loop still turns, and that it
// ends. The protocol is a datagram to a socket (sd_notify(3)), so no library is needed. Without a
// manager it does nothing. Lives on the agent's loop: a loop that stands still sends no watchdog.
#pragma once

#include <memory>

#include "agent/process/service_status.h"
#include "rendezvous/membership/world.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

/// Reads the manager's variables, and takes them out of this process's environment, so that no
/// child speaks in our name. Call it in the process that the manager has started, before threads.
ServiceManager take_service_manager();

class ServiceNotifier {
 public:
  /// What cannot be told is told to the log, once; the job goes on without.
  ServiceNotifier(boost::asio::io_context& io, const ServiceManager& manager,
                  std::shared_ptr<spdlog::logger> log);
  ~ServiceNotifier();
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  void joined();
  void attempt_began(const World& world);
  void progressed(const TrainingProgress& progress);
  /// Each may come again, and is told once.
  void ends();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  ///< null: there is no manager
};

}  // namespace ddprun
