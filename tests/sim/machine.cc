#include "tests/sim/machine.h"

#include <utility>

#include "tests/sim/agent_shell.h"
#include "tests/sim/cluster.h"

namespace ddprun::sim {
namespace {

/// Of a leader, by a clock that differs.
constexpr Duration kServiceLeaseMax = seconds(16);

}  // namespace

Machine::Machine(Cluster& cluster, int index)
    : cluster_(cluster),
      index_(index),
      random_(cluster.options().seed, 2'000'000 + static_cast<std::uint64_t>(index)) {
  rate_ = 1 + cluster.options().clock_drift * (2 * random_.fraction() - 1);
  local_base_ = random_.up_to(std::chrono::hours(1));
}

Machine::~Machine() = default;

Duration Machine::now() const {
  if (!awake()) {
    return local_base_;
  }
  const auto passed = static_cast<double>((cluster_.now() - true_base_).count());
  return local_base_ + Duration(static_cast<std::int64_t>(passed * rate_));
}

// --- Time -----------------------------------------------------------------------------------

/// Until its clock shows `local`, if nothing happens to it meanwhile.
void Machine::wait_until(Duration local, std::function<void()> action) {
  const auto left = static_cast<double>((local - now()).count());
  const Duration wait(left <= 0 ? 0 : static_cast<std::int64_t>(left / rate_) + 1);
  Duration at = cluster_.now() + wait;
  if (cluster_.options().one_by_one) {  // what is due at about the same time is so at once
    at = std::chrono::ceil<milliseconds>(at);
  }
  cluster_.at(at, std::move(action), {ActionTag::Kind::timer, index_, 0});
}

Machine::Timer Machine::look_at_timer(Duration local, std::uint64_t life) const {
  return life != life_   ? Timer::of_the_dead
         : !runs()       ? Timer::stands
         : now() < local ? Timer::early
                         : Timer::due;
}

void Machine::when_it_runs(std::function<void()> action) {
  if (runs()) {
    action();
  } else if (agent_) {
    waiting_.push_back(std::move(action));
  }
}

// --- Faults ---------------------------------------------------------------------------------

void Machine::start() {
  if (agent_) {
    return;
  }
  powered_ = true;
  ++life_;
  agent_ = std::make_unique<AgentShell>(*this);
  agent_->start();
}

void Machine::end_life(bool kernel_lives) {
  cluster_.observer().workers_gone(index_);
  if (!agent_) {
    return;
  }
  ++life_;
  stopped_ = 0;
  waiting_.clear();
  // It may be what runs now.
  const std::shared_ptr<AgentShell> old = std::move(agent_);
  old->end(kernel_lives);
  cluster_.at(cluster_.now(), [old] {});
}

void Machine::die() {
  end_life(true);
}

void Machine::exit() {
  end_life(true);
}

void Machine::vanish() {
  end_life(false);
  powered_ = false;
}

void Machine::excuse(Duration lasts) {
  ++excuses_;
  cluster_.observer().excuse(index_, true);
  cluster_.at(cluster_.now() + lasts, [this] {
    if (--excuses_ == 0) {
      cluster_.observer().excuse(index_, false);
    }
  });
}

void Machine::go_on() {
  std::vector<std::function<void()>> waiting = std::exchange(waiting_, {});
  const bool messages_first = random_.chance(0.5);
  if (messages_first) {
    cluster_.network().wake(index_);
  }
  for (auto& action : waiting) {
    action();
  }
  if (!messages_first) {
    cluster_.network().wake(index_);
  }
}

/// What the process cannot do meanwhile it cannot be blamed for, nor for a while after: it has to
/// find out first.
void Machine::stop_agent(Duration lasts) {
  if (!agent_) {
    return;
  }
  excuse(lasts + cluster_.options().heartbeat_timeout / 2);
  ++stopped_;
  cluster_.at(cluster_.now() + lasts, [this, life = life_] {
    if (life != life_) {
      return;
    }
    if (--stopped_ == 0 && awake()) {
      go_on();
    }
  });
}

void Machine::stop_all(Duration lasts) {
  stop_agent(lasts);  // of workers that stand still nothing is to be seen but that they live
}

/// Its clock stands, so it believes for a whole lease more that all is well; where it is the
/// coordinator's, what that says of its quorum is too young as well.
void Machine::suspend(Duration lasts) {
  if (!powered_) {
    return;
  }
  // By a service it may lead until a lease ends that is longer.
  const Duration excused =
      lasts + (cluster_.options().service ? kServiceLeaseMax
                                          : cluster_.options().heartbeat_timeout * 3 / 2);
  // One that searches may come to lead by a question that it had asked before its clock stood.
  const bool may_lead =
      agent_ && (agent_->leads() || (cluster_.options().service && agent_->leader_machine() < 0));
  if (may_lead) {
    cluster_.excuse_all(excused);
  } else {
    excuse(excused);
  }
  if (suspended_ == 0) {
    local_base_ = now();
  }
  ++suspended_;
  cluster_.at(cluster_.now() + lasts, [this] {
    if (--suspended_ > 0) {
      return;
    }
    true_base_ = cluster_.now();
    if (stopped_ == 0) {
      go_on();
    }
  });
}

}  // namespace ddprun::sim
