#include "rendezvous/consensus/tenured_service.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/base/check.h"

namespace ddprun {

struct TenuredService::Timer {
  explicit Timer(boost::asio::io_context& io) : renewal(io) {}
  boost::asio::steady_timer renewal;
};

TenuredService::TenuredService(boost::asio::io_context& io, TenureLeases leases)
    : tenure_(leases), timer_(std::make_unique<Timer>(io)) {}

TenuredService::~TenuredService() = default;

void TenuredService::lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done) {
  step(tenure::LeadWished{wish(std::move(on_done)), seen, self});
}

void TenuredService::commit(const std::string& state, OnDone on_done) {
  step(tenure::StateGiven{wish(std::move(on_done)), state});
}

void TenuredService::let_go() {
  step(tenure::LetGo{});
}

void TenuredService::resign(bool job_is_over, OnDone on_done) {
  step(tenure::ResignWished{wish(std::move(on_done)), job_is_over});
}

/// Also of an older leadership: ServiceTenure knows which of its questions still matter.
void TenuredService::answered(tenure::Ticket ticket, Result<ServiceAnswer> answer) {
  step(tenure::Answered{ticket, std::move(answer)});
}

tenure::WishId TenuredService::wish(OnDone on_done) {
  wishes_.emplace(++last_wish_, std::move(on_done));
  return last_wish_;
}

/// What is done about a wish may bring about the next one, so the timer is set first.
void TenuredService::step(tenure::Input input) {
  std::vector<tenure::Action> actions =
      tenure_.step(std::chrono::steady_clock::now().time_since_epoch(), std::move(input));
  arm();
  for (const tenure::Action& action : actions) {
    std::visit([this](const auto& order) { carry_out(order); }, action);
  }
}

/// The callback has `this`: it is the timer's, which is a member, and stops with it.
void TenuredService::arm() {
  const auto due = tenure_.next_deadline();
  if (due == armed_for_) {
    return;
  }
  armed_for_ = due;
  timer_->renewal.cancel();
  if (due) {
    timer_->renewal.expires_at(std::chrono::steady_clock::time_point(*due));
    timer_->renewal.async_wait([this](boost::system::error_code failed) {
      if (!failed) {
        armed_for_.reset();
        step(tenure::TimePassed{});
      }
    });
  }
}

/// The wish goes first: what is done about it may be the next one.
void TenuredService::carry_out(const tenure::Done& order) {
  const auto found = wishes_.find(order.wish);
  DDP_CHECK(found != wishes_.end(), "a wish is answered once");
  const OnDone on_done = std::move(found->second);
  wishes_.erase(found);
  on_done(order.done);
}

void TenuredService::carry_out(const tenure::Ask& order) {
  ask(order.ticket, order.question);
}

}  // namespace ddprun
