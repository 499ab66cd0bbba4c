#include "agent/hang/progress_poller.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace ddprun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPauseFirst{50};
constexpr milliseconds kPauseMax{1'000};
/// While no worker has reported anything. Most programs have no runtime and never do, and each look
/// wakes an idle agent. What comes late by it is only the first report: hangs, orders to save and
/// the end of an attempt read the pages themselves.
constexpr milliseconds kPauseMaxUntold{15'000};
/// Then steps are told without other news, for the live accounts.
constexpr int kLooksWithoutNewsMax = 20;

}  // namespace

struct ProgressReport::Timer {
  explicit Timer(boost::asio::io_context& io) : wait(io) {}
  boost::asio::steady_timer wait;
};

ProgressReport::ProgressReport(boost::asio::io_context& io) : timer_(std::make_unique<Timer>(io)) {}

ProgressReport::~ProgressReport() = default;

/// Snapshots decide how much a restart loses, and the first step ends a downtime: both are reported
/// at once.
bool ProgressReport::is_news(const TrainingProgress& before, const TrainingProgress& now) {
  return before.told != now.told || before.resumed_from != now.resumed_from ||
         before.first_step_after != now.first_step_after || before.saved != now.saved;
}

milliseconds ProgressReport::pause_after(milliseconds pause, bool told) {
  return std::min(2 * pause, told ? kPauseMax : kPauseMaxUntold);
}

void ProgressReport::begin(Read read, Tell tell) {
  end();
  read_ = std::move(read);
  tell_ = std::move(tell);
  told_ = {};
  // The pause doubles from here: a short job reports its first step in time, and a long one costs a
  // look per second.
  pause_ = kPauseFirst;
  looks_without_news_ = 0;
  look_later();
}

void ProgressReport::end() {
  timer_->wait.cancel();
  read_ = nullptr;
  tell_ = nullptr;
}

void ProgressReport::look_later() {
  timer_->wait.expires_after(pause_);
  timer_->wait.async_wait([this](boost::system::error_code error) {
    // A wait that was queued already when it was cancelled finds the next one's expiry ahead.
    if (!error && read_ && timer_->wait.expiry() <= std::chrono::steady_clock::now()) {
      look();
    }
  });
}

void ProgressReport::look() {
  const TrainingProgress now = read_();
  const bool steps = now.steps != told_.steps && ++looks_without_news_ >= kLooksWithoutNewsMax;
  if (is_news(told_, now) || steps) {
    told_ = now;
    looks_without_news_ = 0;
    tell_(now);
  }
  // tell_ may have called end().
  if (read_) {
    pause_ = pause_after(pause_, now.told);
    look_later();
  }
}

}  // namespace ddprun
