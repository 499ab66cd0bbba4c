#include "tests/sim/options.h"

#include <algorithm>

namespace ddprun::sim {
namespace {

/// All rates times `factor`.
void scale(Rates& rates, double factor) {
  for (double* rate : {&rates.worker_failures,
                       &rates.deaths,
                       &rates.vanishings,
                       &rates.cuts,
                       &rates.flaps,
                       &rates.agent_stops,
                       &rates.node_stops,
                       &rates.suspensions,
                       &rates.signals,
                       &rates.preemptions,
                       &rates.leaves,
                       &rates.clock_jumps,
                       &rates.strangers,
                       &rates.coordinator_deaths,
                       &rates.coordinator_stops,
                       &rates.services_away,
                       &rates.service_cuts,
                       &rates.services_slow,
                       &rates.service_losses,
                       &rates.service_erasures}) {
    *rate *= factor;
  }
}

/// Many nodes.
void enlarge(SimOptions& o, Random& random, int agents) {
  o.agents = agents;
  o.max_nodes = std::max(1, agents - random.number_below(agents / 10 + 1));
  o.min_nodes = std::max(1, o.max_nodes - random.number_below(o.max_nodes / 4 + 1));
  o.max_restarts = 10 + random.number_below(20);
  o.workers_max = 8;
  o.join_within = seconds(1 + random.number_below(10));
  o.faults_until = seconds(20);
}

/// The shapes that elections find hard.
void shrink(SimOptions& o, Random& random) {
  o.failover = true;
  o.min_nodes = 1;
  o.max_nodes = 2 + random.number_below(3);
  o.agents = o.max_nodes + random.number_below(2);
  o.witnesses = random.number_below(2);
  o.max_restarts = 20;
  o.training = seconds(60);
}

void add_service(SimOptions& o) {
  o.service = !o.fresh_coordinators && o.seed >= kServiceSeeds;
  if (o.service) {
    o.failover = true;
  }
}

}  // namespace

SimOptions draw(std::uint64_t seed) {
  Random random(seed, 1);
  SimOptions o;
  o.seed = seed;
  o.fresh_coordinators = seed >= kFreshSeeds;
  o.min_nodes = 1 + random.number_below(4);
  o.max_nodes = o.min_nodes + random.number_below(3);
  o.agents = std::max(1, o.min_nodes - 1 + random.number_below(5));
  o.workers_max = 1 + random.number_below(4);
  o.max_restarts = random.number_below(6);
  o.failover = o.max_nodes > 1 && random.chance(0.7);
  o.witnesses = o.failover && random.chance(0.2) ? 1 : 0;
  o.join_within = random.chance(0.5) ? Duration(milliseconds(100)) : Duration(seconds(20));
  o.faults_until = random.chance(0.15) ? Duration(0) : Duration(seconds(40));
  o.training = seconds(1 + random.number_below(30));
  o.ranked = random.chance(0.3);
  o.policy = random.chance(0.3);
  o.scrambled = random.chance(0.25);
  o.delay_max = random.chance(0.2) ? Duration(milliseconds(60)) : Duration(milliseconds(5));
  if (random.chance(0.3)) {
    shrink(o, random);
  }
  if (random.chance(0.3)) {
    scale(o.rates, 4);  // a bad day
  }
  if (random.chance(0.0005)) {
    enlarge(o, random, 1000 + random.number_below(3001));
  } else if (random.chance(0.01)) {
    enlarge(o, random, 20 + random.number_below(180));
  }
  if (o.fresh_coordinators && seed % 4 == 3) {  // the first asks at the others before it hosts
    o.endpoints = std::min(o.machines(), 3);
  }
  add_service(o);
  o.scale_up = random.chance(0.8)   ? ScaleUp::at_snapshot
               : random.chance(0.5) ? ScaleUp::now
                                    : ScaleUp::never;
  return o;
}

SimOptions scripted_job() {
  SimOptions options;
  options.seed = 1;
  options.workers_max = 1;
  options.training = seconds(0);
  options.delay_max = milliseconds(1);
  options.costs = {Duration(0), milliseconds(100), milliseconds(20), Duration(0), true};
  options.clock_drift = 0;
  options.last_call = seconds(1);
  options.victims = 0;
  options.fatal_ends = 0;
  options.fresh_coordinators = true;
  options.one_by_one = true;
  return options;
}

MembershipOptions membership_options(const SimOptions& o) {
  MembershipOptions options;
  options.job_id = "job";
  options.min_nodes = o.min_nodes;
  options.max_nodes = o.max_nodes;
  options.max_restarts = o.max_restarts;
  options.join_timeout = o.join_timeout;
  options.last_call_timeout = o.last_call;
  options.scale_up = o.scale_up;
  options.heartbeat_timeout = o.heartbeat_timeout;
  if (o.policy) {
    options.restarts.window = RestartWindow{3, seconds(30)};
    options.restarts.on_fault = {
        {FaultClass::exit_code, 3, FaultAction::free, "exit:3=free"},
        {FaultClass::exit_code, 4, FaultAction::fail, "exit:4=fail"},
    };
  }
  return options;
}

}  // namespace ddprun::sim
