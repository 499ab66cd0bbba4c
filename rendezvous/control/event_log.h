// EventLog: what happens to the job, as JSON lines in a file on the coordinator's node
// (--event-log, docs/events.md), and a line for people in the agent's log after each incident.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/control/event_json.h"
#include "rendezvous/control/event_log_file.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

/// At level debug: an event and the commands that it led to.
void log_applied(spdlog::logger& log, Instant at, const Event& event,
                 const std::vector<Command>& commands);

/// Of one coordinator. Never ends a job: what cannot be written is told once and left out.
class EventLog {
 public:
  /// `file` may be null; `membership` outlives it. Writes the first lines.
  EventLog(boost::asio::io_context& io, std::shared_ptr<EventLogFile> file, EventJson::Job job,
           const Membership& membership, std::shared_ptr<spdlog::logger> log);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Whether anything is written at all.
  [[nodiscard]] bool active() const;
  /// An event of the state machine was applied. write() is to follow once the commands have been
  /// carried out, which a slow disk shall not delay.
  void observe(Instant at, const Event& event, const std::vector<Command>& commands);
  void write();
  /// The coordinator gives up.
  void resign(const std::string& why);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
