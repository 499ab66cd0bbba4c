#include "rendezvous/control/service_voter.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>
#include <variant>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/consensus_service.h"

namespace ddprun {
namespace {

/// For the word that the job is over: longer than any service's client waits for one answer.
/// Without that word the state goes by its lease.
constexpr std::chrono::milliseconds kLeaveMax{4'000};
Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

struct ServiceVoter::Timers {
  explicit Timers(boost::asio::io_context& io) : contact(io), write(io), leave(io) {}
  boost::asio::steady_timer contact;
  boost::asio::steady_timer write;
  boost::asio::steady_timer leave;
};

std::shared_ptr<ServiceVoter> ServiceVoter::create(boost::asio::io_context& io,
                                                   std::shared_ptr<ConsensusService> service,
                                                   std::chrono::milliseconds heartbeat_timeout,
                                                   Handler& handler,
                                                   std::shared_ptr<spdlog::logger> log) {
  return std::shared_ptr<ServiceVoter>(
      new ServiceVoter(io, std::move(service), heartbeat_timeout, handler, std::move(log)));
}

/// The heartbeat timeout is the coordinator's: by it the age of a contact is judged.
ServiceVoter::ServiceVoter(boost::asio::io_context& io, std::shared_ptr<ConsensusService> service,
                           std::chrono::milliseconds heartbeat_timeout, Handler& handler,
                           std::shared_ptr<spdlog::logger> log)
    : service_(std::move(service)),
      heartbeat_timeout_(heartbeat_timeout),
      handler_(&handler),
      log_(std::move(log)),
      timers_(std::make_unique<Timers>(io)) {
  DDP_CHECK(service_ != nullptr, "there is a service to stand for");
}

ServiceVoter::~ServiceVoter() = default;

/// As any node does, so that the coordinator chooses it, counts it and lists it for people.
void ServiceVoter::join(NodeId session, NodeDescription witness) {
  DDP_CHECK(witness.voter == kServiceVoter, "the service joins as itself");
  session_ = session;
  contact_.emplace(heartbeat_timeout_, session, service_->name());
  writer_.emplace(session, heartbeat_timeout_);
  handler_->on_service(SessionOpened{session_, false, {}});
  handler_->on_service(SessionTold{session_, message::Hello{std::move(witness)}});
  look({});
}

void ServiceVoter::take(const message::Message& told) {
  if (handler_ != nullptr) {
    carry_out(writer_->take(told));
  }
}

void ServiceVoter::look(LookAtContact /*order*/) {
  carry_out(contact_->look(now(), {service_->leads_until(), service_->trouble()}));
}

// --- What they decide -----------------------------------------------------------------------

void ServiceVoter::carry_out(ServiceVoterActions actions) {
  for (ServiceVoterAction& action : actions) {
    if (handler_ != nullptr) {
      std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
    }
  }
  if (handler_ != nullptr && !ends_) {
    arm();
  }
}

void ServiceVoter::carry_out(TellLeader order) {
  handler_->on_service(std::move(order.input));
}

void ServiceVoter::carry_out(const AskWhoLeads& /*order*/) {
  service_->read([weak = weak_from_this()](const Result<ServiceView>& view) {
    if (const auto self = weak.lock(); self && self->handler_ != nullptr) {
      self->carry_out(self->contact_->viewed(view));
    }
  });
}

void ServiceVoter::carry_out(const CommitState& order) {
  service_->commit(order.state, [weak = weak_from_this()](const Result<bool>& done) {
    if (const auto self = weak.lock(); self && self->handler_ != nullptr) {
      self->carry_out(self->writer_->committed(now(), self->service_->leads_until(), done));
    }
  });
}

void ServiceVoter::carry_out(const LogLine& order) {
  log_->log(order.warning ? spdlog::level::warn : spdlog::level::info, "{}", order.text);
}

/// A timer that is set again and does not move costs little: there are four looks in a timeout.
void ServiceVoter::arm() {
  const auto set = [](auto& timer, const std::optional<Instant>& due, auto action) {
    timer.cancel();
    if (due) {
      timer.expires_at(std::chrono::steady_clock::time_point(*due));
      timer.async_wait(std::move(action));
    }
  };
  set(timers_->contact, contact_->next_deadline(),
      [weak = weak_from_this()](boost::system::error_code failed) {
        if (const auto self = weak.lock(); self && !failed && self->handler_ != nullptr) {
          self->look({});
        }
      });
  set(timers_->write, writer_->next_deadline(),
      [weak = weak_from_this()](boost::system::error_code failed) {
        if (const auto self = weak.lock(); self && !failed && self->handler_ != nullptr) {
          self->carry_out(self->writer_->time_passed(now(), self->service_->leads_until()));
        }
      });
}

/// Everybody who is here has the verdict, so nobody is to go on. Without an answer in time the
/// agent ends all the same.
void ServiceVoter::end_job() {
  DDP_CHECK(!left_ && !ends_, "a job ends once");
  ends_ = true;
  timers_->contact.cancel();
  timers_->write.cancel();
  timers_->leave.expires_after(kLeaveMax);
  timers_->leave.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    if (const auto self = weak.lock(); self && !failed) {
      self->left(false);
    }
  });
  service_->resign(true, [weak = weak_from_this()](const Result<bool>& done) {
    if (const auto self = weak.lock()) {
      self->timers_->leave.cancel();
      self->left(done.has_value());
    }
  });
}

/// Once: the answer and the end of patience may both come. Whoever starts the same job again at
/// once would wonder what it waits for.
void ServiceVoter::left(bool is_known) {
  if (std::exchange(left_, true)) {
    return;
  }
  if (!is_known) {
    log_->warn(
        "{} has not confirmed that the job is over; one of the same id begins once the lease "
        "of this one has ended there",
        service_->name());
  }
  if (handler_ != nullptr) {
    handler_->on_service_left();
  }
}

/// The job goes on elsewhere, once the lease has ended.
void ServiceVoter::leave() {
  handler_ = nullptr;
  timers_->contact.cancel();
  timers_->write.cancel();
  timers_->leave.cancel();
  if (!left_) {
    service_->let_go();
  }
}

}  // namespace ddprun
