#include "agent/hang/hang_handler.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "agent/attempt.h"
#include "agent/hang/stack_collector.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

HangDetector::Time now() {
  return Clock::now().time_since_epoch();  // CLOCK_MONOTONIC, as in the progress channels
}

}  // namespace

struct HangResponse::Impl {
  Impl(asio::io_context& the_io, HangTimeouts the_timeouts, OnHang the_on_hang)
      : io(the_io), timeouts(the_timeouts), on_hang(std::move(the_on_hang)), timer(the_io) {}

  void look() {
    const HangDetector::Answer answer = rule->look(now(), attempt->signs());
    if (answer.still.empty()) {
      timer.expires_at(Clock::time_point(answer.look_again));
      timer.async_wait([this](boost::system::error_code error) {
        if (!error && attempt != nullptr) {
          look();
        }
      });
      return;
    }
    std::vector<int> ranks;
    for (const int local_rank : answer.still) {
      ranks.push_back(attempt->world().base_rank + local_rank);
    }
    // No timer is set after this: the coordinator answers with an order to stop, which is the end
    // of the attempt.
    on_hang(attempt->positions(now()),
            ranks_text(ranks) + " made no progress for " + seconds_text(answer.still_for));
  }

  asio::io_context& io;
  HangTimeouts timeouts;
  OnHang on_hang;
  asio::steady_timer timer;
  Attempt* attempt = nullptr;
  std::optional<HangDetector> rule;
  std::unique_ptr<StackCollector> taker;
};

HangResponse::HangResponse(asio::io_context& io, HangTimeouts timeouts, OnHang on_hang)
    : impl_(std::make_unique<Impl>(io, timeouts, std::move(on_hang))) {}

HangResponse::~HangResponse() = default;

void HangResponse::watch(Attempt& attempt) {
  if (impl_->timeouts.progress > HangDetector::Time(0)) {
    impl_->attempt = &attempt;
    // A new rule for each attempt: stamps and sums of the old workers mean nothing for the new
    // ones.
    impl_->rule.emplace(impl_->timeouts, now());
    impl_->look();
  }
}

void HangResponse::forget() {
  impl_->attempt = nullptr;
  impl_->timer.cancel();
  // This ends the tools and drops the callback, which refers to the attempt.
  impl_->taker.reset();
}

bool HangResponse::looks() const {
  return impl_->taker != nullptr;
}

std::vector<WorkerPosition> HangResponse::look_closely(Attempt& attempt,
                                                       std::function<void()> end) {
  impl_->attempt = nullptr;
  impl_->timer.cancel();
  // Before the first signal, which interrupts system calls: what the nodes compare is the job as it
  // hung.
  std::vector<WorkerPosition> positions = attempt.positions(now());
  impl_->taker = std::make_unique<StackCollector>(
      impl_->io, attempt.stack_targets(),
      [&attempt, end = std::move(end)](std::vector<NewestFrames> newest) {
        attempt.keep_stacks(std::move(newest));
        end();
      });
  return positions;
}

}  // namespace ddprun
