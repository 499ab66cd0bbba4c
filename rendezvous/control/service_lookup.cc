#include "rendezvous/control/service_lookup.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/control/random_voter_id.h"

namespace ddprun {

struct ServiceLookup::Timer {
  explicit Timer(boost::asio::io_context& io) : timer(io) {}
  boost::asio::steady_timer timer;
};

std::shared_ptr<ServiceLookup> ServiceLookup::create(boost::asio::io_context& io,
                                                     std::shared_ptr<ConsensusService> service,
                                                     Handler& handler,
                                                     std::shared_ptr<spdlog::logger> log) {
  return std::shared_ptr<ServiceLookup>(
      new ServiceLookup(io, std::move(service), handler, std::move(log)));
}

ServiceLookup::ServiceLookup(boost::asio::io_context& io, std::shared_ptr<ConsensusService> service,
                             Handler& handler, std::shared_ptr<spdlog::logger> log)
    : service_(std::move(service)),
      handler_(handler),
      log_(std::move(log)),
      timer_(std::make_unique<Timer>(io)) {}

ServiceLookup::~ServiceLookup() = default;

void ServiceLookup::start(std::optional<DeadLeader> dead, const NodeDescription& self) {
  DDP_CHECK(service_ != nullptr, "there is a service to ask");
  step(service_search::Started{dead, self, random_job_instance(), service_->ask_each()});
}

void ServiceLookup::stop() {
  step(service_search::Stopped{});
}

/// What is told to Node may start or stop the search, so the timer is set before.
void ServiceLookup::step(service_search::Input input) {
  auto actions =
      search_.step(std::chrono::steady_clock::now().time_since_epoch(), std::move(input));
  arm();
  for (service_search::Action& action : actions) {
    std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
  }
}

void ServiceLookup::arm() {
  const auto due = search_.next_deadline();
  if (due == armed_for_) {
    return;
  }
  armed_for_ = due;
  timer_->timer.cancel();
  if (due) {
    timer_->timer.expires_at(std::chrono::steady_clock::time_point(*due));
    timer_->timer.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
      if (const auto self = weak.lock(); self && !failed) {
        self->armed_for_.reset();
        self->step(service_search::TimePassed{});
      }
    });
  }
}

void ServiceLookup::carry_out(const service_search::ReadService& order) {
  service_->read([weak = weak_from_this(), search = order.search](const Result<ServiceView>& view) {
    if (const auto self = weak.lock()) {
      self->step(service_search::Viewed{search, view});
    }
  });
}

void ServiceLookup::carry_out(const service_search::TryToLead& order) {
  service_->lead(order.seen, order.self,
                 [weak = weak_from_this(), order](const Result<bool>& leads) {
                   if (const auto self = weak.lock()) {
                     self->step(service_search::Tried{order.seen, order.self, leads});
                   }
                 });
}

/// Node may have found a coordinator while the service was asked, and lead nothing then.
void ServiceLookup::carry_out(service_search::TellNode order) {
  const bool is_appointed = std::holds_alternative<Appointed>(order.input);
  if (!handler_.on_service(std::move(order.input)) && is_appointed) {
    step(service_search::Unwanted{});
  }
}

void ServiceLookup::carry_out(const service_search::Resign& /*order*/) {
  service_->resign(false, [](const Result<bool>&) {});
}

void ServiceLookup::carry_out(const LogLine& order) {
  log_->log(order.warning ? spdlog::level::warn : spdlog::level::info, "{}", order.text);
}

}  // namespace ddprun
