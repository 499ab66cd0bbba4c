#include "tests/sim/workers.h"

#include <algorithm>
#include <utility>

#include "tests/sim/agent_shell.h"
#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"
#include "tests/sim/training.h"

namespace ddprun::sim {
namespace {

/// In which a worker notices that a peer is gone.
constexpr Duration kNoticeMax = milliseconds(50);
/// In which it saves.
constexpr Duration kSaveMax = seconds(2);

}  // namespace

Duration Workers::takes(Duration cost) {
  return machine_.cluster().options().costs.exact ? cost : machine_.random().up_to(cost);
}

void Workers::assign(const World& world) {
  world_ = world;
  live_ = true;
  stopping_ = fenced_ = stepped_ = leaving_ = left_ = complete_ = false;
  failures_.clear();
  machine_.cluster().observer().workers_live(machine_.index(), world.attempt);
  const SimOptions& options = machine_.cluster().options();
  const AttemptNumber attempt = world.attempt;
  machine_.later(takes(options.costs.spawn), [this, attempt] { started(attempt); });
  if (options.training.count() > 0) {
    const Duration trains = seconds(1) + machine_.random().up_to(options.training);
    machine_.later(trains, [this, attempt] { finished(attempt); });
  }
}

void Workers::started(AttemptNumber attempt) {
  if (!is(attempt) || stopping_ || !live_) {
    return;
  }
  agent_.say(message::Started{attempt});
  machine_.later(takes(machine_.cluster().options().costs.first_step), [this, attempt] {
    if (!is(attempt) || !live_ || stopping_) {
      return;
    }
    stepped_ = true;
    if (Training* training = machine_.cluster().training()) {
      training->stepped(machine_.cluster().now(), *world_);
    }
  });
}

TrainingProgress Workers::progress() const {
  TrainingProgress told;
  if (machine_.cluster().options().policy && world_) {
    told.told = true;
    if (stepped_) {
      told.first_step_after = seconds(1);
      told.steps = 10 * (number(world_->attempt) + 1);  // further every time
    }
  }
  told.left = left_;
  told.complete = complete_;
  return told;
}

void Workers::finished(AttemptNumber attempt) {
  if (!is(attempt) || !live_ || stopping_ || fenced_ || !failures_.empty()) {
    return;
  }
  live_ = false;
  machine_.cluster().observer().workers_gone(machine_.index());
  complete_ = true;
  if (leaving_) {
    report_stopped();
  } else {
    agent_.say(message::Finished{attempt, progress()});
  }
}

void Workers::finish() {
  if (world_) {
    finished(world_->attempt);
  }
}

void Workers::fail() {
  if (live_ && !stopping_ && !fenced_ && failures_.empty()) {
    machine_.cluster().peers_notice(machine_.index());
    fail_as(false);
  }
}

void Workers::notice_peer(AttemptNumber attempt) {
  machine_.later(machine_.random().up_to(kNoticeMax), [this, attempt] {
    if (is(attempt) && live_ && !stopping_ && !fenced_ && failures_.empty()) {
      fail_as(machine_.random().chance(0.5));
    }
  });
}

void Workers::fail_as(bool peer_lost) {
  Random& random = machine_.random();
  FailureRecord record;
  record.local_rank = 0;
  record.rank = world_->base_rank;
  record.exit = random.chance(0.5)
                    ? ExitStatus{ExitStatus::Kind::signalled, 9}
                    : ExitStatus{ExitStatus::Kind::exited, 1 + random.number_below(4)};
  record.peer_lost = peer_lost;
  record.time = std::chrono::sys_time<std::chrono::microseconds>(
      std::chrono::duration_cast<std::chrono::microseconds>(machine_.wall_clock()));
  failures_.push_back(record);
  if (Training* training = machine_.cluster().training()) {
    training->failed(machine_.cluster().now(), world_->attempt);
  }
  failed_at_ = machine_.now();
  machine_.later(takes(machine_.cluster().options().costs.detect),
                 [this, attempt = world_->attempt, record] {
                   if (is(attempt) && !stopping_) {
                     agent_.say(message::Failed{attempt, record});
                   }
                 });
}

void Workers::leave(AttemptNumber attempt) {
  if (is(attempt) && live_ && !stopping_ && !fenced_ && failures_.empty()) {
    left_ = true;
    gone();
    report_stopped();
  }
}

void Workers::stop(AttemptNumber attempt, StopHow how) {
  if (!is(attempt) || stopping_ || left_ || (leaving_ && complete_)) {
    return;
  }
  if (how != StopHow::now && machine_.cluster().options().policy && live_ && failures_.empty()) {
    if (!std::exchange(leaving_, true)) {
      machine_.later(machine_.random().up_to(kSaveMax), [this, attempt] { leave(attempt); });
    }
    return;
  }
  stopping_ = true;
  const Duration needs = live_ ? takes(machine_.cluster().options().costs.stop) : Duration(0);
  machine_.later(needs, [this, attempt] {
    if (is(attempt) && stopping_) {
      gone();
      report_stopped();
    }
  });
}

void Workers::report_stopped() {
  std::vector<FailureRecord> records = failures_;
  for (FailureRecord& record : records) {
    record.age = machine_.now() - failed_at_;
  }
  const int last = world_->base_rank + agent_.node().description().local_world_size - 1;
  const bool by_themselves = left_ || complete_;
  if (!by_themselves && (records.empty() || records.front().rank != last)) {
    FailureRecord ours;
    ours.rank = last;
    ours.exit = {ExitStatus::Kind::signalled, 15};
    ours.after_stop = true;
    records.push_back(ours);
  }
  agent_.say(message::Stopped{world_->attempt, std::move(records), 0, progress()});
}

void Workers::fence() {
  if (!live_) {
    agent_.workers_gone();
    return;
  }
  fenced_ = true;
  const Duration bound = machine_.cluster().options().timeout_of(machine_.index()) / 20;
  const Duration needs = std::min(takes(machine_.cluster().options().costs.stop), bound);
  machine_.later(needs, [this] {
    gone();
    if (fenced_) {
      agent_.workers_gone();
    }
  });
}

void Workers::gone() {
  if (live_) {
    live_ = false;
    machine_.cluster().observer().workers_gone(machine_.index());
  }
}

}  // namespace ddprun::sim
