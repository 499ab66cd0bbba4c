#include "rendezvous/control/service_voter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>
#include <variant>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/consensus/consensus_service.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// After a service that did not answer.
constexpr std::chrono::milliseconds kWriteAgain{500};
/// For the word that the job is over. Without it the state goes by its lease.
constexpr std::chrono::milliseconds kLeaveMax{2'000};
/// In a heartbeat timeout; as often as an agent's beats.
constexpr int kContacts = 4;

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

struct ServiceVoter::Timers {
  explicit Timers(boost::asio::io_context& io) : contact(io), write(io) {}
  boost::asio::steady_timer contact;
  boost::asio::steady_timer write;
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
void ServiceVoter::join(NodeId session, NodeDescription witness, JobInstance instance) {
  DDP_CHECK(witness.voter == kServiceVoter, "the service joins as itself");
  session_ = session;
  instance_ = instance;
  handler_->on_service(SessionOpened{session_, false, {}});
  handler_->on_service(SessionTold{session_, message::Hello{std::move(witness)}});
  tell_contact();
}

/// Nobody else leads before leads_until(). A contact that is a heartbeat timeout older than that
/// makes the coordinator and its agents stop by then.
void ServiceVoter::tell_contact() {
  if (handler_ == nullptr) {
    return;
  }
  tell_trouble();
  if (service_->leads_until() == Instant{}) {
    ask_who_leads();
  }
  handler_->on_service(
      SessionEchoed{session_, std::min(now(), service_->leads_until() - heartbeat_timeout_)});
  timers_->contact.expires_after(heartbeat_timeout_ / kContacts);
  timers_->contact.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    if (const auto self = weak.lock(); self && !failed) {
      self->tell_contact();
    }
  });
}

/// While the lease lasts the job goes on, and people see why it may not for long.
void ServiceVoter::tell_trouble() {
  const std::string trouble = service_->trouble();
  if (in_trouble_ == !trouble.empty()) {
    return;
  }
  in_trouble_ = !trouble.empty();
  if (in_trouble_) {
    log_->warn("{}; the job goes on without it for up to {}", trouble,
               seconds_text(std::max(service_->leads_until() - now(), Instant{})));
  } else {
    log_->warn("etcd answers again");
  }
}

/// Another process leads, or somebody has removed this one's entry.
void ServiceVoter::ask_who_leads() {
  if (std::exchange(was_replaced_, true)) {
    return;
  }
  service_->read([weak = weak_from_this()](const Result<ServiceView>& view) {
    if (const auto self = weak.lock(); self && self->handler_ != nullptr) {
      self->give_way(view);
    }
  });
}

/// This coordinator leads no more, whoever does: that one is followed at once, and where nobody is
/// entered this node asks the service anew. An etcd that is gone again is asked with the next
/// contact.
void ServiceVoter::give_way(const Result<ServiceView>& view) {
  was_replaced_ = view.has_value();
  if (view && view->leader) {
    const LeaderRecord& other = *view->leader;
    handler_->on_service(
        CallAnswered{{other.voter, {}, other.addresses, other.port}, other.term, other.instance});
  } else if (view) {
    handler_->on_service(CallAnswered{{}, kTermMax, instance_});
  }
}

/// A new state begins anew what follows it. Other words (tables, the end) are for agents.
void ServiceVoter::take(const message::Message& told) {
  if (const auto* state = std::get_if<message::VoterState>(&told)) {
    voter_state_ = encode(told);
    ends_ = state->replicated.ends;
    story_.clear();
    nodes_.clear();
    to_acknowledge_ = message::StateKept{state->replicated.configuration.number, state->stamp};
  } else if (voter_state_.empty()) {
    return;  // there is nothing yet that this would add to
  } else if (std::holds_alternative<message::Story>(told)) {
    story_ = encode(told);
  } else if (std::holds_alternative<message::MoreNodes>(told)) {
    nodes_ += encode(told);
  } else {
    return;
  }
  changed_ = true;
  write();
}

/// One at a time, and always the newest: what came while one was on its way goes with the next.
/// The acknowledgement is of what was on its way, and may be of a plan that was dropped since.
void ServiceVoter::write() {
  if (writing_ || !changed_ || handler_ == nullptr) {
    return;
  }
  writing_ = true;
  changed_ = false;
  service_->commit(
      voter_state_ + nodes_ + story_,
      [weak = weak_from_this(), acknowledged = to_acknowledge_](const Result<bool>& done) {
        const auto self = weak.lock();
        if (!self || self->handler_ == nullptr) {
          return;
        }
        if (done && *done && acknowledged) {
          if (self->to_acknowledge_ &&
              self->to_acknowledge_->configuration == acknowledged->configuration) {
            self->to_acknowledge_.reset();
          }
          self->handler_->on_service(SessionTold{self->session_, *acknowledged});
        }
        self->written(done);
      });
}

/// A service that lets another process lead takes nothing more: the contact tells that.
void ServiceVoter::written(const Result<bool>& done) {
  writing_ = false;
  if (!done) {
    // Whether it answered or not: a full etcd refuses each write, and answers each other question.
    if (refused_why_ != done.error().what) {
      refused_why_ = done.error().what;
      log_->warn("{}; no new world begins before it has kept the state of the job", refused_why_);
    }
    // The verdict of a job need not wait: nobody can lead it while the service keeps nothing, and
    // who is here is told.
    if (ends_ && to_acknowledge_) {
      handler_->on_service(SessionTold{session_, *std::exchange(to_acknowledge_, std::nullopt)});
      return;
    }
    changed_ = true;
    timers_->write.expires_after(kWriteAgain);
    timers_->write.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
      if (const auto self = weak.lock(); self && !failed) {
        self->write();
      }
    });
  } else if (*done) {
    refused_why_.clear();
    write();
  } else {
    tell_contact();
  }
}

/// Everybody who is here has the verdict, so nobody is to go on. Without an answer in time the
/// agent ends all the same.
void ServiceVoter::end_job() {
  DDP_CHECK(!left_, "a job ends once");
  timers_->contact.cancel();
  timers_->write.expires_after(kLeaveMax);
  timers_->write.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    if (const auto self = weak.lock(); self && !failed) {
      self->left();
    }
  });
  service_->resign(true, [weak = weak_from_this()](const Result<bool>&) {
    if (const auto self = weak.lock()) {
      self->timers_->write.cancel();
      self->left();
    }
  });
}

/// Once: the answer and the end of patience may both come.
void ServiceVoter::left() {
  if (!std::exchange(left_, true) && handler_ != nullptr) {
    handler_->on_service_left();
  }
}

/// The job goes on elsewhere: the next leader need not wait for the lease to end.
void ServiceVoter::leave() {
  handler_ = nullptr;
  timers_->contact.cancel();
  timers_->write.cancel();
  if (!left_) {
    service_->resign(false, [](const Result<bool>&) {});
  }
}

}  // namespace ddprun
