// Ettr: which share of its time a job trains effectively (work that is not done twice), under
// faults that come at random: once by simulating the real membership with measured costs, once by
// the closed form for exponential faults (Daly, "A higher order estimate of the optimum checkpoint
// interval for restart dumps", 2006).
#pragma once

#include <cstdint>

#include "tests/sim/random.h"

namespace ddprun::sim {

struct EttrInput {
  Duration mtbf{};           ///< of the job: mean time between faults of any of its workers
  Duration interval{};       ///< useful work between snapshots
  Duration snapshot_cost{};  ///< for which training stands still
  // The recovery, in its parts.
  Duration detect{};      ///< from a worker's end to its agent's report
  Duration stop{};        ///< of the workers that are left
  Duration rendezvous{};  ///< of four messages: failed, stop, stopped, assigned
  Duration spawn{};
  Duration first_step{};  ///< from the spawn on: imports, communicators, the snapshot
  int nodes = 4;
  int faults = 40'000;  ///< that are simulated
  std::uint64_t seed = 1;

  [[nodiscard]] Duration recovery() const {
    return detect + stop + rendezvous + spawn + first_step;
  }
};

struct Ettr {
  double ratio = 0;
  double half_width = 0;  ///< of the 99 % interval
  int attempts = 0;
  Duration simulated{};
};

Ettr simulate_ettr(const EttrInput& input);

/// lambda T / (e^(lambda u) (e^(lambda (T + C)) - 1)): T of useful work, C for its snapshot, u for
/// each recovery, at any of which a fault may strike.
double closed_form_ettr(const EttrInput& input);

/// The interval with the highest availability: C + sqrt(2 (M + u) C + C^2) between the ends of two
/// snapshots (Saxena et al., 2024), of which C is the snapshot.
Duration best_interval(const EttrInput& input);

}  // namespace ddprun::sim
