#include "rendezvous/node/service_search.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/node/committed_state.h"

namespace ddprun {
namespace {

/// A service that cannot be asked, or refuses, is not pressed.
constexpr std::chrono::milliseconds kAfterError{1'000};
/// Who led for so short a time only, a lease and a little more, may not be able to lead: for a
/// while it leaves that to others. Their own reads are up to a second apart, and its entry may have
/// to end.
constexpr std::chrono::seconds kShortLead{30};
constexpr std::chrono::seconds kGiveWay{5};

}  // namespace

std::vector<service_search::Action> ServiceSearch::step(Instant now, service_search::Input input) {
  DDP_CHECK(now >= now_, "time never goes back");
  DDP_CHECK(actions_.empty(), "each action is handed out once");
  now_ = now;
  std::visit([this](auto& one) { on(std::move(one)); }, input);
  return std::exchange(actions_, {});
}

void ServiceSearch::on(service_search::Started input) {
  dead_ = input.dead;
  self_ = std::move(input.self);
  drawn_ = input.drawn;
  ask_each_ = input.ask_each;
  DDP_CHECK(ask_each_.count() > 0, "a service is not asked without a pause");
  if (const auto led = std::exchange(led_since_, std::nullopt); led && now_ - *led < kShortLead) {
    gives_way_until_ = now_ + kGiveWay;
  }
  searches_ = true;
  ++search_;
  ask();
}

/// A question to lead that is on its way is not taken back: what comes of it is seen to.
void ServiceSearch::on(const service_search::Stopped&) {
  searches_ = false;
  ++search_;
  ask_at_.reset();
}

void ServiceSearch::ask() {
  ask_at_.reset();
  actions_.emplace_back(service_search::ReadService{search_});
}

/// By polling: a watch would keep a connection for each agent, and only those without a coordinator
/// want to know. A leader that was elected meanwhile also calls the nodes that it knows.
void ServiceSearch::on(const service_search::TimePassed&) {
  if (searches_ && ask_at_ && now_ >= *ask_at_) {
    ask();
  }
}

/// An answer to a search that has ended meanwhile is dropped: this node has a leader. An entry of
/// this very agent is of a leadership that it has lost: it has ended its workers, and may be let
/// lead again. (Where the service was away for long, its resignation did not get there.)
void ServiceSearch::on(const service_search::Viewed& input) {
  if (!searches_ || input.search != search_) {
    return;
  }
  if (!input.view) {
    failed(is_unread_, input.view.error());
    return;
  }
  works(is_unread_);
  const ServiceView& view = *input.view;
  const bool is_gone = view.leader && dead_ && dead_->made(view.leader->term, view.leader->voter);
  if (!view.leader || view.leader->voter == self_.voter || is_gone) {
    return try_to_lead(view);
  }
  const LeaderRecord& leader = *view.leader;
  ask_at_ = now_ + ask_each_;
  actions_.emplace_back(service_search::TellNode{
      CalledByLeader{{self_.job_id, leader.term, leader.addresses, leader.port, std::nullopt,
                      leader.instance, self_.voter}}});
}

/// The term is above all that the service and this node know of: of the leaders, and of the state,
/// whose coordinator may have raised its own. A state that cannot be read is nobody's to replace.
void ServiceSearch::try_to_lead(const ServiceView& view) {
  if (now_ < gives_way_until_) {
    ask_at_ = std::min(now_ + ask_each_, gives_way_until_);
    return;
  }
  const auto state = committed_state(view.state);
  if (!state) {
    failed(is_unled_, state.error());
    return;
  }
  LeaderRecord own;
  own.term = std::max(view.newest_term, self_.promise.term);
  // A node that remembers the job goes on with it, though the service has forgotten it.
  own.instance = self_.past ? self_.past->instance : drawn_;
  if (*state) {
    own.term = std::max(own.term, (*state)->replicated.term);
    own.instance = (*state)->replicated.instance;
  }
  own.term = Term{number(own.term) + 1};
  own.voter = self_.voter;
  own.addresses = self_.addresses;
  own.port = self_.port;
  actions_.emplace_back(service_search::TryToLead{view, own});
}

/// The view was read before this node came to lead, and nobody has led in between: what it has is
/// the newest.
void ServiceSearch::on(const service_search::Tried& input) {
  if (input.leads && *input.leads) {
    auto state = committed_state(input.seen.state);
    DDP_CHECK(state, "it was read before");
    led_since_ = now_;
    actions_.emplace_back(service_search::TellNode{Appointed{
        input.self.term, input.self.instance, std::move(*state), input.seen.leader.has_value()}});
  } else if (searches_ && input.leads) {
    works(is_unled_);
    ask_at_ = now_ + ask_each_;
  } else if (searches_) {
    failed(is_unled_, input.leads.error());
  }
}

void ServiceSearch::on(const service_search::Unwanted&) {
  actions_.emplace_back(service_search::Resign{});
  if (searches_) {
    ask_at_ = now_ + ask_each_;
  }
}

/// The same may be wrong for minutes. Node needs the newest for its last words; reading may work
/// while leading does not.
void ServiceSearch::failed(bool& trouble, const Error& why) {
  ask_at_ = now_ + kAfterError;
  trouble = true;
  actions_.emplace_back(service_search::TellNode{ServiceTrouble{why}});
  std::string told = why.sentence();
  std::erase_if(told, [](char c) { return c >= '0' && c <= '9'; });  // counts and times change
  if (told_.tells(now_, told)) {
    actions_.emplace_back(LogLine{true, why.sentence() + "; asking again until the join timeout"});
  }
}

void ServiceSearch::works(bool& trouble) {
  if (std::exchange(trouble, false) && !is_unread_ && !is_unled_) {
    actions_.emplace_back(service_search::TellNode{ServiceTrouble{}});
  }
}

}  // namespace ddprun
