#include "rendezvous/control/service_search.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/committed_state.h"
#include "rendezvous/control/random_voter_id.h"

namespace ddprun {
namespace {

/// A leader that was elected meanwhile also calls the nodes that it knows.
constexpr std::chrono::milliseconds kAskEach{200};
/// A service that cannot be asked, or refuses, is not pressed.
constexpr std::chrono::milliseconds kAfterError{1'000};

}  // namespace

struct ServiceSearch::Pause {
  explicit Pause(boost::asio::io_context& io) : timer(io) {}
  boost::asio::steady_timer timer;
};

std::shared_ptr<ServiceSearch> ServiceSearch::create(boost::asio::io_context& io,
                                                     std::shared_ptr<ConsensusService> service,
                                                     Handler& handler,
                                                     std::shared_ptr<spdlog::logger> log) {
  return std::shared_ptr<ServiceSearch>(
      new ServiceSearch(io, std::move(service), handler, std::move(log)));
}

ServiceSearch::ServiceSearch(boost::asio::io_context& io, std::shared_ptr<ConsensusService> service,
                             Handler& handler, std::shared_ptr<spdlog::logger> log)
    : service_(std::move(service)),
      handler_(handler),
      log_(std::move(log)),
      pause_(std::make_unique<Pause>(io)) {}

ServiceSearch::~ServiceSearch() = default;

/// The description is of this moment: its promise says what this node has followed.
void ServiceSearch::start(std::optional<Term> dead, const NodeDescription& self) {
  DDP_CHECK(service_ != nullptr, "there is a service to ask");
  dead_ = dead;
  self_ = self;
  searches_ = true;
  ++search_;
  ask();
}

/// A question to lead that is on its way is not taken back: appointed() sees to what comes of it.
void ServiceSearch::stop() {
  searches_ = false;
  ++search_;
  pause_->timer.cancel();
}

/// An answer to a search that has ended meanwhile is dropped: this node has a leader.
void ServiceSearch::ask() {
  service_->read([weak = weak_from_this(), search = search_](const Result<ServiceView>& view) {
    if (const auto self = weak.lock(); self && self->search_ == search) {
      self->answered(view);
    }
  });
}

/// By polling: a watch would keep a connection for each agent, and only those without a coordinator
/// want to know.
void ServiceSearch::ask_later(std::chrono::milliseconds pause) {
  pause_->timer.expires_after(pause);
  pause_->timer.async_wait(
      [weak = weak_from_this(), search = search_](boost::system::error_code failed) {
        if (const auto self = weak.lock(); self && !failed && self->search_ == search) {
          self->ask();
        }
      });
}

/// An entry of this very agent is of a leadership that it has lost: it has ended its workers, and
/// may be let lead again. (Where etcd was away for long, its resignation did not get there.)
void ServiceSearch::answered(const Result<ServiceView>& view) {
  if (!view) {
    warn_once(view.error().sentence());
    return ask_later(kAfterError);
  }
  warned_of_.clear();
  if (!view->leader || view->leader->voter == self_.voter ||
      (dead_ && view->leader->term <= *dead_)) {
    return try_to_lead(*view);
  }
  const LeaderRecord& leader = *view->leader;
  ask_later(kAskEach);
  handler_.on_service(CalledByLeader{{self_.job_id, leader.term, leader.addresses, leader.port,
                                      std::nullopt, leader.instance, self_.voter}});
}

/// The term is above all that the service and this node know of: of the leaders, and of the state,
/// whose coordinator may have raised its own. A state that cannot be read is nobody's to replace.
void ServiceSearch::try_to_lead(const ServiceView& view) {
  const auto state = committed_state(view.state);
  if (!state) {
    warn_once(state.error().sentence());
    return ask_later(kAfterError);
  }
  LeaderRecord own;
  own.term = std::max(view.newest_term, self_.promise.term);
  // A node that remembers the job goes on with it, though the service has forgotten it.
  own.instance = self_.past ? self_.past->instance : random_job_instance();
  if (*state) {
    own.term = std::max(own.term, (*state)->replicated.term);
    own.instance = (*state)->replicated.instance;
  }
  own.term = Term{number(own.term) + 1};
  own.voter = self_.voter;
  own.addresses = self_.addresses;
  own.port = self_.port;
  // Whatever comes of it, the answer is waited for: this process may lead by then.
  service_->lead(view, own, [weak = weak_from_this(), view, own](const Result<bool>& done) {
    const auto self = weak.lock();
    if (!self) {
      return;
    }
    if (done && *done) {
      self->appointed(view, own);
    } else if (self->searches_) {
      if (!done) {
        self->warn_once(done.error().sentence());
      }
      self->ask_later(done ? kAskEach : kAfterError);
    }
  });
}

/// The view was read before this node came to lead, and nobody has led in between: what it has is
/// the newest.
void ServiceSearch::appointed(const ServiceView& view, const LeaderRecord& own) {
  auto state = committed_state(view.state);
  DDP_CHECK(state, "it was read before");
  // Where this node follows another by now, nobody would lead.
  if (!handler_.on_service(
          Appointed{own.term, own.instance, std::move(*state), view.leader.has_value()})) {
    service_->resign(false, [](const Result<bool>&) {});
    if (searches_) {
      ask_later(kAskEach);
    }
  }
}

/// Once for each reason, for it may be the same for minutes.
void ServiceSearch::warn_once(const std::string& why) {
  if (warned_of_ != why) {
    log_->warn("{}; asking again until the join timeout", why);
    warned_of_ = why;
  }
}

}  // namespace ddprun
