#include "tests/sim/model_agent.h"

#include <utility>

#include "tests/sim/simulator.h"

namespace ddprun::sim {
namespace {

/// Heartbeat timeout of coordinator and agents; an agent counts nine tenths of it from the sending
/// of the last beat that was answered, and kills its workers within the last tenth.
constexpr Duration kTimeout = 3s;
constexpr Duration kBeat = 1s;

}  // namespace

template <class Action>
void ModelAgent::later(std::chrono::nanoseconds delay, Action action) {
  sim_.at(sim_.now() + delay, [this, life = life_, action] {
    if (running_ && life_ == life) {
      action();
    }
  });
}

void ModelAgent::start() {
  running_ = true;
  cut_ = false;
  ++life_;
  world_.reset();
  NodeDescription d;
  d.host_name = host_;
  d.local_world_size = workers_;
  d.role = "default";
  d.job_id = "job";
  d.min_nodes = sim_.options().min_nodes;
  d.max_nodes = sim_.options().max_nodes;
  d.max_restarts = sim_.options().max_restarts;
  d.program = "train";
  d.hosts_coordinator = index_ == 0;
  if (sim_.options().ranked && index_ != 0) {
    d.node_rank = static_cast<int>(index_);
  }
  d.elector = sim_.new_elector(index_);
  connection_ = sim_.connect(index_, std::move(d));
}

void ModelAgent::die() {
  kill_workers();
  running_ = false;
  ++life_;
  if (connection_ && !cut_) {
    sim_.disconnect(*connection_, sim_.now() + sim_.up_to(sim_.options().delay_max), 0ns);
  }
  connection_.reset();
}

void ModelAgent::cut_off() {
  cut_ = true;
  // The last answered beat was sent up to one beat ago, and heard a little later than sent.
  const Duration sent = sim_.now() - sim_.up_to(kBeat);
  const Duration heard = sent + sim_.up_to(sim_.options().delay_max);
  sim_.disconnect(*connection_, std::max(heard + kTimeout, sim_.now()), kTimeout);
  const Duration knows = sent + kTimeout - kTimeout / 10;
  later(std::max(knows - sim_.now(), Duration(0)),
        [this] { later(sim_.up_to(kTimeout / 10), [this] { die(); }); });
}

void ModelAgent::vanish() {
  const Duration heard = sim_.now() - sim_.up_to(kBeat);
  sim_.disconnect(*connection_, std::max(heard + kTimeout, sim_.now()), kTimeout);
  kill_workers();
  running_ = false;
  ++life_;
  connection_.reset();
}

void ModelAgent::signal() {
  say(StopRequested{*connection_, 15});
}

void ModelAgent::say(Event event) {
  if (reachable() && connection_) {
    sim_.deliver(*connection_, std::move(event));
  }
}

void ModelAgent::kill_workers() {
  live_ = false;
  sim_.truth().workers_gone(index_);
}

void ModelAgent::obey(const Command& order) {
  if (const auto* assign = std::get_if<AssignWorld>(&order)) {
    assigned(assign->world);
  } else if (const auto* stop_order = std::get_if<StopWorkers>(&order)) {
    stop(stop_order->attempt);
  } else if (const auto* told = std::get_if<TellStandbys>(&order)) {
    say(StandbyKnows{*connection_, told->succession.roster.number});
  } else if (const auto* prepare = std::get_if<Prepare>(&order)) {
    say(RosterPrepared{*connection_, prepare->roster});
  } else if (std::holds_alternative<FinishJob>(order) || std::holds_alternative<Reject>(order)) {
    die();
  }
}

void ModelAgent::assigned(const World& world) {
  world_ = world;
  failed_ = stopping_ = false;
  failure_.reset();
  live_ = true;
  sim_.truth().workers_live(index_, world.attempt);
  const AttemptNumber attempt = world.attempt;
  later(sim_.up_to(20ms), [this, attempt] {
    if (world_->attempt == attempt && !stopping_) {
      say(WorkersStarted{*connection_, attempt});
    }
  });
  later(1s + sim_.up_to(sim_.options().training), [this, attempt] { finished(attempt); });
  const double per_second = sim_.options().worker_failures;
  if (sim_.faulty() && sim_.chance(per_second * 20)) {
    later(sim_.up_to(20s), [this, attempt] { worker_fails(attempt); });
  }
}

void ModelAgent::worker_fails(AttemptNumber attempt) {
  if (world_->attempt != attempt || !live_ || stopping_ || failed_) {
    return;
  }
  failed_ = true;
  FailureRecord record;
  record.local_rank = 0;
  record.rank = world_->base_rank;
  record.exit = {ExitStatus::Kind::signalled, 9};
  failure_ = record;
  say(WorkerFailed{*connection_, attempt, record});
}

void ModelAgent::finished(AttemptNumber attempt) {
  if (world_->attempt != attempt || !live_ || stopping_ || failed_) {
    return;
  }
  kill_workers();
  say(WorkersFinished{*connection_, attempt, {}});
}

void ModelAgent::stop(AttemptNumber attempt) {
  if (!world_ || world_->attempt != attempt || stopping_) {
    return;
  }
  stopping_ = true;
  const Duration takes = live_ ? sim_.up_to(sim_.options().stop_max) : 0ns;
  later(takes, [this, attempt, takes] {
    kill_workers();
    std::vector<FailureRecord> records;
    if (failure_) {
      failure_->age = takes;
      records.push_back(*failure_);
    }
    FailureRecord ours;
    ours.rank = world_->base_rank + workers_ - 1;
    ours.exit = {ExitStatus::Kind::signalled, 15};
    ours.after_stop = true;
    if (!failure_ || failure_->rank != ours.rank) {
      records.push_back(ours);
    }
    say(WorkersStopped{*connection_, attempt, std::move(records), 0, {}});
  });
}

}  // namespace ddprun::sim
