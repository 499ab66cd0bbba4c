// Options of `train`: what the command line says, checked. No defaults that depend on the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "trainer/gpt2/gpt2_options.h"
#include "trainer/resnet/resnet_options.h"

namespace ddp {

struct LinearOptions {
  std::int64_t total_epochs = 0;  ///< at least 1
  std::int64_t save_every = 0;    ///< at least 1: epochs 0, save_every, 2 save_every, ... are saved
  std::int64_t batch_size = 32;   ///< of each rank, at least 1
  std::string snapshot_path = "snapshot.ddp";
  int keep = 2;  ///< snapshots, the newest ones; at least 1
  /// Both or neither.
  std::optional<std::string> data;
  std::optional<std::string> target;
  /// Not given: kToyRate, or kDataRate with --data.
  std::optional<double> learning_rate;
  double momentum = 0;
  std::uint64_t seed = 0;
};

/// The tutorial's.
inline constexpr double kToyRate = 1e-3;
/// For standardised columns: the largest round value at which plain SGD stayed stable on
/// collinear columns with batches of 32.
inline constexpr double kDataRate = 1e-2;

struct MessagePassingOptions {};

using Command = std::variant<LinearOptions, Gpt2Options, ResnetOptions, MessagePassingOptions>;

/// The program must end with this status.
struct Exit {
  int status = 0;
  std::string mistake;  ///< one sentence; empty where there is none
};
inline constexpr int kUsageStatus = 2;

/// Reads argv. --help goes to stdout with status 0; a mistake has kUsageStatus and its sentence.
std::variant<Command, Exit> parse_options(int argc, const char* const* argv);

}  // namespace ddp
