#include "tests/sim/cluster.h"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/event_text.h"
#include "rendezvous/membership/quorum.h"
#include "tests/sim/agent_shell.h"

namespace ddprun::sim {
namespace {

/// Between looks at whether a job that could run does.
constexpr Duration kProgressTick = seconds(1);
/// What may happen at one instant, in a job of thousands of nodes.
constexpr int kAtOnceMax = 200'000;
/// From the removal of a leader's key on: until it has found out, and its nodes have stopped. Where
/// it cannot ask, that is when its lease ends.
constexpr Duration kFindsErasure = seconds(18);
/// What may still happen after the end of the job: who was cut off finds out.
constexpr Duration kAfterlife = seconds(30);

}  // namespace

Cluster::Cluster(SimOptions options, std::vector<Fault> schedule, bool tracing)
    : options_(std::move(options)),
      schedule_(std::move(schedule)),
      observer_(options_),
      network_(timeline_, options_, *this),
      tracing_(tracing) {
  if (options_.service) {
    service_.emplace(timeline_, options_);
    observer_.watch_service(&*service_);
  }
  for (int i = 0; i < options_.machines(); ++i) {
    machines_.push_back(std::make_unique<Machine>(*this, i));
  }
  for (const Fault& fault : schedule_) {
    at(fault.at, [this, &fault] { strike(fault); });
  }
}

Cluster::~Cluster() = default;

// --- The network's ends ---------------------------------------------------------------------

AgentShell* Cluster::agent_of(int machine) const {
  return machines_[static_cast<std::size_t>(machine)]->agent();
}

bool Cluster::powered(int machine) const {
  return machines_[static_cast<std::size_t>(machine)]->powered();
}

bool Cluster::awake(int machine) const {
  return machines_[static_cast<std::size_t>(machine)]->awake();
}

/// Where no process is, the kernel answers for it.
bool Cluster::reads(int machine) const {
  const Machine& place = *machines_[static_cast<std::size_t>(machine)];
  return place.agent() == nullptr || place.runs();
}

void Cluster::deliver(ConnectionId connection, Side to, const Message& message) {
  const int place = network_.machine_of(connection, to);
  const auto* said = std::get_if<Said>(&message);
  digest_.add(now().count()).add(place).add(said != nullptr ? (**said).index() : message.index());
  if (AgentShell* agent = agent_of(place)) {
    agent->on_message(connection, to, message);
  } else {
    network_.close(connection, to);
  }
}

void Cluster::ask(int from, int to, std::function<void(AgentShell&)> question) {
  network_.call(from, to, [this, to, question = std::move(question)]() mutable {
    machine(to).when_it_runs([this, to, question = std::move(question)] {
      if (AgentShell* agent = agent_of(to); agent != nullptr && !agent->is_over()) {
        question(*agent);
      }
    });
  });
}

void Cluster::ask_voter(int from, VoterId voter, std::function<void(AgentShell&)> question,
                        std::function<void(AgentShell&)> gone) {
  const int to = machine_of(voter);
  const auto lives = [this, to, voter] {
    const AgentShell* agent = agent_of(to);
    return agent != nullptr && agent->voter_id() == voter;
  };
  network_.call(
      from, to,
      [this, from, to, lives, question = std::move(question), gone = std::move(gone)]() mutable {
        if (!lives()) {
          if (machine(to).powered() && machine(to).awake()) {
            ask(to, from, std::move(gone));
          }
          return;
        }
        machine(to).when_it_runs([this, to, lives, question = std::move(question)] {
          if (lives() && !agent_of(to)->is_over()) {
            question(*agent_of(to));
          }
        });
      });
}

void Cluster::count_event(const Event& event, const std::vector<Command>& commands) {
  ++events_;
  digest_.add(now().count()).add(event.index());
  for (const Command& command : commands) {
    digest_.add(command.index());
  }
}

// --- Faults ---------------------------------------------------------------------------------

int Cluster::coordinator() const {
  int found = -1;
  Term newest{};
  for (const auto& machine : machines_) {
    const auto term = machine->agent() != nullptr ? machine->agent()->leading_term() : std::nullopt;
    if (term && *term >= newest) {
      newest = *term;
      found = machine->index();
    }
  }
  return found;
}

void Cluster::strike(const Fault& fault) {
  int target = fault.target % options_.machines();
  if (fault.kind == FaultKind::coordinator_death ||
      fault.kind == FaultKind::coordinator_vanishing || fault.kind == FaultKind::coordinator_stop) {
    target = coordinator();
  }
  if (target < 0) {
    return;
  }
  if (tracing_) {
    log(target, to_text(fault));
  }
  switch (fault.kind) {
    case FaultKind::cut:
    case FaultKind::silent_cut:
    case FaultKind::deaf_cut:
      network_.cut(fault);
      return;
    case FaultKind::stranger:
      knock_as_stranger(target);
      return;
    case FaultKind::end_vanishing:
      end_is_fatal_ = true;
      return;
    case FaultKind::service_erasure:
      excuse_all(kFindsErasure);
      service_->strike(fault);
      return;
    case FaultKind::service_away:
    case FaultKind::service_cut:
    case FaultKind::service_slow:
    case FaultKind::service_loss:
      service_->strike(fault);
      return;
    default:
      strike_machine(fault, machine(target));
  }
}

void Cluster::strike_machine(const Fault& fault, Machine& machine) {
  AgentShell* agent = machine.agent();
  // Without failover the coordinator's end is the end of the job.
  const bool spared = !options_.failover && machine.index() == 0;
  switch (fault.kind) {
    case FaultKind::start:
      if (!observer_.summary()) {
        machine.start();
      }
      break;
    case FaultKind::worker_failure:
      if (machine.runs()) {
        agent->workers().fail();
      }
      break;
    case FaultKind::signal:
      if (machine.runs()) {
        agent->signal(15, StopWish::end);
      }
      break;
    case FaultKind::preemption:
      if (machine.runs()) {
        agent->signal(10, StopWish::preempt);
      }
      break;
    case FaultKind::leave:  // a coordinator's node stays, without workers: that is a unit test's
      if (machine.runs() && !agent->leads()) {
        agent->signal(12, StopWish::leave);
      }
      break;
    case FaultKind::clock_jump:
      machine.jump_clock();
      break;
    case FaultKind::death:
    case FaultKind::coordinator_death:
      if (agent != nullptr && !spared) {
        peers_notice(machine.index());
        machine.die();
      }
      break;
    case FaultKind::vanishing:
    case FaultKind::coordinator_vanishing:
      if (!spared) {
        peers_notice(machine.index());
        machine.vanish();
      }
      break;
    case FaultKind::agent_stop:
      machine.stop_agent(fault.lasts);
      break;
    case FaultKind::node_stop:
    case FaultKind::coordinator_stop:
      machine.stop_all(fault.lasts);
      break;
    case FaultKind::suspension:
      machine.suspend(fault.lasts);
      break;
    default:
      break;
  }
}

/// It says hello to whoever leads, and is told why not.
void Cluster::knock_as_stranger(int from) {
  const int to = coordinator();
  if (to < 0 || observer_.summary()) {
    return;
  }
  NodeDescription node;
  node.host_name = "stranger";
  node.job_id = "another job";
  const ConnectionId connection = network_.connect(from, to, kEndpointPort);
  network_.send(connection, Side::client, message::Hello{node});
  network_.close(connection, Side::client);
}

void Cluster::peers_notice(int place) {
  AgentShell* agent = agent_of(place);
  if (agent == nullptr || !agent->workers().live()) {
    return;
  }
  const AttemptNumber attempt = agent->workers().world()->attempt;
  Random& random = machine(place).random();
  for (const auto& machine : machines_) {
    AgentShell* other = machine->agent();
    if (other != nullptr && other != agent && machine->runs() && other->workers().live() &&
        other->workers().world()->attempt == attempt && random.chance(options_.victims)) {
      other->workers().notice_peer(attempt);
    }
  }
}

void Cluster::vanish_with_end(Machine& machine) {
  end_is_fatal_ = false;
  at(now(), [&machine] { machine.vanish(); });
}

void Cluster::excuse_all(Duration lasts) {
  for (const auto& machine : machines_) {
    machine->excuse(lasts);
  }
}

// --- The story ------------------------------------------------------------------------------

/// After the last fault: the last lost node is noticed, one more gathering may run into its
/// timeout, and what starts then runs and finishes. Each node may still come (back) and make the
/// world grow once.
Duration Cluster::bound() const {
  const int restarts = std::min(options_.machines(), 40) + 2;
  return std::max(options_.faults_until + seconds(60), options_.join_within) +
         2 * options_.join_timeout + options_.last_call +
         (options_.training + seconds(8)) * restarts;
}

void Cluster::run() {
  const Duration until = bound();
  Duration next_look = kProgressTick;
  std::optional<Duration> over_since;
  int at_once = 0;
  while (!timeline_.empty() && observer_.violation().empty()) {
    if (timeline_.next() > until) {
      judge_end(true);
      return;
    }
    const Duration before = now();
    timeline_.step();
    if (observer_.begun_twice()) {
      return;
    }
    at_once = now() == before ? at_once + 1 : 0;
    if (at_once > kAtOnceMax) {
      observer_.broken("time stands still: a deadline comes again and again");
    }
    if (now() < next_look) {
      continue;
    }
    next_look = now() + kProgressTick;
    look_at_service();
    observer_.check_progress(now());
    // Of a job that a service has forgotten, over or away for too long, each goes its own way.
    const bool meets = !service_ || !(observer_.summary() || service_->has_forgotten());
    if (const std::string apart = meets ? apart_.look(*this) : ""; !apart.empty()) {
      observer_.broken(apart);
    }
    if (observer_.summary() && !over_since) {
      over_since = now();
    }
    if (over_since && now() - *over_since > kAfterlife && now() > options_.faults_until) {
      return;
    }
  }
  if (timeline_.empty()) {
    judge_end(false);
  }
}

/// Who leads by a lease that is over has stopped all workers by then, and keeps no nodes that wait.
void Cluster::look_at_service() {
  if (!service_) {
    return;
  }
  const bool is_over = service_->lease_is_over();
  for (const auto& machine : machines_) {
    observer_.serves(machine->index(), service_->serves(machine->index()));
    AgentShell* const agent = machine->agent();
    if (agent == nullptr || observer_.is_excused(machine->index())) {
      continue;
    }
    if (is_over && agent->workers().live()) {
      observer_.broken("workers of " + host_name(machine->index()) +
                       " live after the end of their leader's lease");
    }
    if (agent->gathers() && service_->lease_is_over(agent->voter_id())) {
      observer_.broken(host_name(machine->index()) + " gathers nodes after the end of its lease");
    }
  }
}

void Cluster::run_until(Duration time) {
  at(time, [] {});
  while (now() < time && (observer_.violation().empty() || observer_.begun_twice())) {
    timeline_.step();
  }
}

void Cluster::run_dry() {
  while (!timeline_.empty() && observer_.violation().empty()) {
    timeline_.step();
  }
}

/// Of the newest configuration in use, or of one that was about to be, too few are what they were.
bool Cluster::quorum_is_gone() const {
  const int leader = coordinator();
  const auto gone = [&](const Configuration& configuration) {
    std::size_t here = 0;
    bool own = false;
    for (const auto& machine : machines_) {
      const AgentShell* agent = machine->agent();
      if (agent != nullptr && std::binary_search(configuration.voters.begin(),
                                                 configuration.voters.end(), agent->voter_id())) {
        ++here;
        own = own || machine->index() == leader;
      }
    }
    return !keeps_quorum(here, configuration.voters.size(), own);
  };
  return gone(observer_.newest_configuration()) || gone(observer_.announced_configuration());
}

void Cluster::judge_end(bool timed_out) {
  if (observer_.summary()) {
    return;
  }
  const bool anybody = std::any_of(machines_.begin(), machines_.end(),
                                   [](const auto& machine) { return machine->agent() != nullptr; });
  if (!anybody || (options_.failover && !options_.service && quorum_is_gone())) {
    return;
  }
  observer_.broken(timed_out
                       ? "the job neither ends nor can be seen to end, long after the last fault"
                       : "nothing is left to happen, and the job has not ended");
}

void Cluster::log_step(const std::string& what) {
  trace_ += ddprun::to_text(now()) + " * " + what + "\n";
}

void Cluster::log(int machine, const std::string& what) {
  trace_ += ddprun::to_text(now()) + " n" + std::to_string(machine) + " " + what + "\n";
}

}  // namespace ddprun::sim
