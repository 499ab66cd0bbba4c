#include "rendezvous/control/event_log.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <utility>

#include "rendezvous/membership/event_text.h"

namespace ddprun {
namespace {

/// How often the accounts are written while nothing happens: after a crash a reader of the file
/// lacks about a minute of them.
constexpr std::chrono::seconds kLedgerPace{60};

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

/// When the wall clock showed that instant. For people, who compare it with other logs. All
/// durations come from the steady clock, since this one may be set while the job runs. Not when a
/// line is made: the accounts in it begin and end at the instant of its event, and a busy machine
/// may put many milliseconds between the two.
EventJson::WallTime wall_at(Instant instant) {
  const auto wall = std::chrono::system_clock::now() - (now() - instant);
  return std::chrono::floor<std::chrono::milliseconds>(wall);
}

}  // namespace

struct EventLog::Impl : std::enable_shared_from_this<EventLog::Impl> {
  Impl(boost::asio::io_context& io, std::shared_ptr<EventLogFile> the_file, EventJson::Job job,
       const Membership& the_membership, std::shared_ptr<spdlog::logger> the_log)
      : file(std::move(the_file)),
        membership(the_membership),
        log(std::move(the_log)),
        event_json(std::move(job), membership),
        timer(io) {}

  /// Without a file the lines are made all the same where the log shows them: the line for people
  /// after an incident comes from them.
  [[nodiscard]] bool active() const {
    return file != nullptr || log->should_log(spdlog::level::info);
  }

  /// Nothing is written after the end of the job: job_over is the last line that a reader waits
  /// for.
  void arm() {
    timer.expires_after(kLedgerPace);
    timer.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
      const auto self = weak.lock();
      if (self && !failed && self->membership.state() != JobState::over) {
        const Instant at = now();
        self->pending.push_back(self->event_json.ledger(wall_at(at), at, self->membership));
        self->write();
        self->arm();
      }
    });
  }

  void write() {
    for (std::string& line : pending) {
      // A full disk must not end a job that has trained for weeks: one warning, and the job
      // continues.
      const int failed = file ? file->append(std::move(line)) : 0;
      if (failed != 0 && !std::exchange(complained, true)) {
        log->warn(
            "cannot write the event log '{}' ({}); the job goes on, and what cannot be "
            "written is left out",
            file->path(), std::strerror(failed));
      }
    }
    pending.clear();
    if (!for_people.empty()) {
      log->info("{}", std::exchange(for_people, {}));
    }
    if (membership.state() == JobState::over) {
      timer.cancel();
    }
  }

  std::shared_ptr<EventLogFile> file;
  const Membership& membership;
  std::shared_ptr<spdlog::logger> log;
  EventJson event_json;
  boost::asio::steady_timer timer;
  std::vector<std::string> pending;
  std::string for_people;
  bool complained = false;
};

/// The texts cost more than the decision, so they are made where somebody reads them.
void log_applied(spdlog::logger& log, Instant at, const Event& event,
                 const std::vector<Command>& commands) {
  if (log.should_log(spdlog::level::debug)) {
    log.debug("{} {}", to_text(at), to_text(event));
    for (const Command& command : commands) {
      log.debug("{}   {}", to_text(at), to_text(command));
    }
  }
}

EventLog::EventLog(boost::asio::io_context& io, std::shared_ptr<EventLogFile> file,
                   EventJson::Job job, const Membership& membership,
                   std::shared_ptr<spdlog::logger> log) {
  job.node = file ? file->node() : std::string();
  impl_ = std::make_shared<Impl>(io, std::move(file), std::move(job), membership, std::move(log));
  const Instant at = now();
  impl_->pending = impl_->event_json.begin(wall_at(at), at, membership);
  impl_->write();
  if (impl_->file) {
    impl_->arm();
  }
}

/// The timer's handler may be queued already. The membership that it reads is gone when it runs, so
/// it finds nothing by its weak pointer.
EventLog::~EventLog() {
  impl_->timer.cancel();
}

bool EventLog::active() const {
  return impl_->active();
}

/// Only collects. The disk is touched by write(), after the commands of the event have been carried
/// out: a slow disk must not delay the stop of workers.
void EventLog::observe(Instant at, const Event& event, const std::vector<Command>& commands) {
  for (std::string& line :
       impl_->event_json.observe(wall_at(at), at, event, commands, impl_->membership)) {
    impl_->pending.push_back(std::move(line));
  }
  if (!impl_->event_json.for_people().empty()) {
    impl_->for_people = impl_->event_json.for_people();
  }
}

void EventLog::write() {
  impl_->write();
}

void EventLog::resign(const std::string& why) {
  impl_->pending.push_back(impl_->event_json.resigned(wall_at(now()), impl_->membership, why));
  impl_->write();
  impl_->timer.cancel();
}

}  // namespace ddprun
