#include "tests/sim/simulator.h"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/trace.h"

namespace ddprun::sim {
namespace {

/// Faults are drawn this often.
constexpr Duration kFaultTick = 250ms;

MembershipOptions membership_options(const SimOptions& o) {
  MembershipOptions options{"job",          o.min_nodes,    o.max_nodes,
                            o.max_restarts, o.join_timeout, o.last_call};
  options.self = o.succession ? ElectorId{1} : ElectorId{};
  return options;
}

}  // namespace

SimOptions draw(std::uint64_t seed) {
  std::mt19937_64 random(seed * 2 + 1);
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
  SimOptions o;
  o.seed = seed;
  o.min_nodes = 1 + below(4);
  o.max_nodes = o.min_nodes + below(3);
  o.agents = std::max(1, o.min_nodes - 1 + below(5));
  o.workers_max = 1 + below(4);
  o.max_restarts = below(5);
  o.join_within = below(2) == 0 ? Duration(100ms) : Duration(40s);
  o.faults_until = below(4) == 0 ? Duration(0) : Duration(60s);
  o.training = std::chrono::seconds(1 + below(40));
  o.ranked = below(2) == 0;
  o.succession = below(2) == 0;
  return o;
}

Simulator::Simulator(SimOptions options, bool trace)
    : options_(options),
      random_(options.seed),
      membership_(membership_options(options), 0ns),
      invariants_(membership_options(options)),
      tracing_(trace) {
  for (int i = 0; i < options_.agents; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const int workers =
        1 + static_cast<int>(random_() % static_cast<unsigned>(options_.workers_max));
    agents_.push_back(std::make_unique<ModelAgent>(*this, index, "n" + std::to_string(i), workers));
    at(up_to(options_.join_within), [this, index] { agents_[index]->start(); });
  }
  at(kFaultTick, [this] { fault_tick(); });
  arm();
}

Simulator::~Simulator() = default;

void Simulator::run() {
  // After the last fault: the last lost node is noticed, one more gathering may run into its
  // timeout, and what starts then runs and finishes. Each node may still come (back) and make the
  // world grow once.
  const Duration bound = std::max(options_.faults_until, options_.join_within) + 30s +
                         options_.join_timeout + options_.last_call +
                         (options_.training + 5s) * (options_.agents + 2);
  while (!queue_.empty() && violation().empty()) {
    if (invariants_.over() && !faulty()) {
      return;
    }
    now_ = queue_.top().time;
    if (now_ > bound) {
      if (!invariants_.over()) {
        stuck_ = "the job neither ended nor can be seen to end, long after the last fault";
      }
      return;
    }
    const auto action = queue_.top().run;
    queue_.pop();
    action();
  }
  if (queue_.empty() && !invariants_.over()) {
    stuck_ = "nothing is left to happen, and the job has not ended";
  }
}

std::string Simulator::violation() const {
  return invariants_.violation().empty() ? stuck_ : invariants_.violation();
}

void Simulator::at(Duration time, std::function<void()> action) {
  queue_.push({time, sequence_++, std::move(action)});
}

Duration Simulator::up_to(Duration max) {
  return Duration(
      static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(max.count() + 1)));
}

bool Simulator::chance(double probability) {
  return static_cast<double>(random_() % 1'000'000) < probability * 1e6;
}

NodeId Simulator::connect(std::uint64_t agent, NodeDescription description) {
  links_.push_back({agent, now_, now_, false});
  const NodeId id{links_.size()};
  deliver(id, NodeJoined{id, std::move(description)});
  return id;
}

ElectorId Simulator::new_elector(std::uint64_t agent) {
  return !options_.succession ? ElectorId{} : ElectorId{agent == 0 ? 1 : ++electors_};
}

void Simulator::deliver(NodeId connection, Event event) {
  Link& link = links_[number(connection) - 1];
  link.up = std::max(link.up, now_ + up_to(options_.delay_max));
  at(link.up, [this, connection, event = std::move(event)] {
    if (!links_[number(connection) - 1].gone) {
      feed(event);
    }
  });
}

void Simulator::disconnect(NodeId connection, Duration time, Duration silent_for) {
  Link& link = links_[number(connection) - 1];
  link.up = std::max(link.up, time);  // what was sent before arrives before
  at(link.up, [this, connection, silent_for] {
    Link& gone = links_[number(connection) - 1];
    if (!gone.gone) {
      gone.gone = true;
      feed(NodeLost{connection, silent_for > 0ns ? "it was silent" : "its connection closed",
                    silent_for});
    }
  });
}

void Simulator::feed(const Event& event) {
  ++events_;
  if (tracing_) {
    log(to_text(now_) + " " + to_text(event));
  }
  const std::vector<Command> commands = membership_.apply(now_, event);
  for (const Command& command : commands) {
    if (tracing_) {
      log(to_text(now_) + "   " + to_text(command));
    }
  }
  invariants_.after(event, commands);
  for (const Command& command : commands) {
    send_order(command);
  }
  arm();
}

void Simulator::send_order(const Command& command) {
  const auto send = [this](NodeId connection, const Command& order) {
    Link& link = links_[number(connection) - 1];
    if (link.gone) {
      return;
    }
    link.down = std::max(link.down, now_ + up_to(options_.delay_max));
    at(link.down, [this, connection, order] {
      ModelAgent& agent = *agents_[links_[number(connection) - 1].agent];
      if (agent.reachable() && agent.connection() == connection) {
        agent.obey(order);
      }
    });
  };
  if (const auto* watch = std::get_if<WatchNode>(&command)) {
    ++contests_;
    // Whoever lives says something within a beat.
    at(now_ + up_to(1s), [this, node = watch->node] {
      const ModelAgent& agent = *agents_[links_[number(node) - 1].agent];
      if (agent.reachable() && agent.connection() == node) {
        deliver(node, NodeHeard{node});
      }
    });
    return;
  }
  if (const auto* told = std::get_if<TellStandbys>(&command)) {
    for (const NodeId standby : told->standbys) {
      send(standby, command);
    }
    return;
  }
  if (std::holds_alternative<FinishJob>(command) || std::holds_alternative<Prepare>(command)) {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      send(NodeId{i + 1}, command);
    }
    return;
  }
  std::visit(
      [&](const auto& order) {
        if constexpr (requires { order.node; }) {
          send(order.node, command);
        }
      },
      command);
}

void Simulator::arm() {
  const auto due = membership_.next_deadline();
  if (!due || (armed_ && *armed_ <= *due)) {
    return;
  }
  armed_ = due;
  at(std::max(*due, now_), [this, due] {
    if (armed_ == due) {
      armed_.reset();
      feed(TimePassed{});
    }
  });
}

void Simulator::fault_tick() {
  if (!faulty()) {
    return;
  }
  const double share = std::chrono::duration<double>(kFaultTick).count();
  for (auto& agent : agents_) {
    if (!agent->reachable() || (options_.succession && agent == agents_.front())) {
      continue;
    }
    ModelAgent* one = agent.get();
    const bool dies = chance(options_.deaths * share);
    const bool cut = !dies && chance(options_.cuts * share);
    const bool vanishes = !dies && !cut && chance(options_.vanishings * share);
    if (dies) {
      one->die();
    } else if (cut) {
      one->cut_off();
    } else if (vanishes) {
      one->vanish();
    } else if (chance(options_.signals * share)) {
      one->signal();
    }
    if ((dies || cut || vanishes) && chance(options_.return_chance)) {
      // A machine that is replaced may be so before anybody knows that it is gone.
      const Duration back = vanishes ? 200ms + up_to(5s) : 4s + up_to(20s);
      at(now_ + back, [this, one] {
        if (!one->running() && !invariants_.over()) {
          one->start();
        }
      });
    }
  }
  at(now_ + kFaultTick, [this] { fault_tick(); });
}

void Simulator::log(const std::string& line) {
  trace_ += line + "\n";
}

}  // namespace ddprun::sim
