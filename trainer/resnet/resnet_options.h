// Options of `train resnet`: what the command line says, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/parallel_options.h"

namespace CLI {
class App;
}

namespace ddp {

struct ResnetOptions {
  std::string data;         ///< directory of CIFAR-10's .bin files
  int model = 18;           ///< 18 or 50
  bool large_stem = false;  ///< --stem large
  std::int64_t epochs = 30;
  std::int64_t batch_size = 128;  ///< of each rank
  double learning_rate = 0.1;     ///< at the start; falls to 0 along half a cosine
  double momentum = 0.9;
  double weight_decay = 5e-4;
  std::int64_t seed = 0;
  ParallelOptions parallel;
  std::string snapshot_path = "snapshot.ddp";
  std::int64_t checkpoint_every = 500;  ///< steps; the end of each epoch besides
  int keep = 2;                         ///< snapshots, the newest ones; at least 1
  std::int64_t log_every = 10;          ///< steps
  std::string experiment = "resnet";
  std::optional<std::string> metrics;
  std::optional<std::string> tensorboard;
};

/// Adds the subcommand `resnet`, which fills `options`.
void add_resnet(CLI::App& app, ResnetOptions& options);

}  // namespace ddp
