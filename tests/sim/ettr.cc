#include "tests/sim/ettr.h"

#include <algorithm>
#include <cmath>

#include "tests/sim/cluster.h"
#include "tests/sim/training.h"

namespace ddprun::sim {
namespace {

constexpr double kNormal99 = 2.576;
constexpr int kMessages = 4;  ///< of a restart

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

SimOptions options_of(const EttrInput& input) {
  SimOptions options;
  options.seed = input.seed;
  options.min_nodes = options.max_nodes = options.agents = input.nodes;
  options.workers_max = 1;
  options.max_restarts = 1'000'000'000;
  options.failover = false;
  options.heartbeats = false;
  options.join_within = Duration(0);
  options.training = Duration(0);  // for ever
  options.clock_drift = 0;
  options.victims = 0;
  options.delay_max = input.rendezvous / kMessages;
  options.costs = {input.detect, input.stop, input.spawn, input.first_step, true};
  return options;
}

/// The nodes start; then faults come by themselves, each at a node drawn at random.
std::vector<Fault> faults_of(const EttrInput& input) {
  std::vector<Fault> faults;
  for (int i = 0; i < input.nodes; ++i) {
    faults.push_back({Duration(0), FaultKind::start, i});
  }
  Random random(input.seed, 3);
  Duration at(0);
  for (int i = 0; i < input.faults; ++i) {
    at += Duration(
        static_cast<std::int64_t>(static_cast<double>(input.mtbf.count()) * random.exponential()));
    faults.push_back({at, FaultKind::worker_failure, random.number_below(input.nodes)});
  }
  return faults;
}

}  // namespace

Ettr simulate_ettr(const EttrInput& input) {
  Training training(input.interval, input.snapshot_cost);
  Cluster cluster(options_of(input), faults_of(input));
  cluster.watch_training(&training);
  cluster.run_dry();
  Ettr result;
  double all = 0;
  double kept = 0;
  for (const Training::Life& life : training.lives()) {
    all += in_seconds(life.lasted);
    kept += in_seconds(life.kept);
  }
  result.ratio = kept / all;
  double squares = 0;  // of a ratio of means
  for (const Training::Life& life : training.lives()) {
    squares += std::pow(in_seconds(life.kept) - result.ratio * in_seconds(life.lasted), 2);
  }
  result.half_width = kNormal99 * std::sqrt(squares) / all;
  result.attempts = cluster.observer().attempts();
  result.simulated = cluster.now();
  if (!cluster.violation().empty()) {
    result.ratio = std::nan("");
  }
  return result;
}

double closed_form_ettr(const EttrInput& input) {
  const double rate = 1 / in_seconds(input.mtbf);
  const double segment = in_seconds(input.interval + input.snapshot_cost);
  return rate * in_seconds(input.interval) /
         (std::exp(rate * in_seconds(input.recovery())) * std::expm1(rate * segment));
}

Duration best_interval(const EttrInput& input) {
  const double cost = in_seconds(input.snapshot_cost);
  const double between =
      cost + std::sqrt(2 * in_seconds(input.mtbf + input.recovery()) * cost + cost * cost);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(between));
}

}  // namespace ddprun::sim
