#include "trainer/options.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace ddp {
namespace {

/// Both spellings of the tutorials: --batch-size and --batch_size.
std::string spellings(std::string name) {
  auto other = name;
  std::replace(other.begin() + 2, other.end(), '-', '_');
  return other == name ? name : name + "," + other;
}

CLI::App* add_linear(CLI::App& app, LinearOptions& options) {
  auto* linear = app.add_subcommand("linear",
                                    "Linear regression by SGD on the mean squared error. Without "
                                    "--data on a toy of 2,048 random\n"
                                    "samples of 20 features.");
  const CLI::Range at_least_one(std::int64_t{1}, std::int64_t{1} << 48);
  linear->add_option("total_epochs", options.total_epochs, "Epochs to train in all")
      ->required()
      ->check(at_least_one);
  linear->add_option("save_every", options.save_every, "Save a snapshot after every so many epochs")
      ->required()
      ->check(at_least_one);
  linear->add_option(spellings("--batch-size"), options.batch_size, "Samples per rank and step")
      ->check(at_least_one)
      ->capture_default_str();
  linear
      ->add_option(spellings("--snapshot-path"), options.snapshot_path,
                   "Directory of the snapshots; training goes on from the newest")
      ->capture_default_str();
  auto* data = linear->add_option("--data", options.data, "CSV file with a header line");
  auto* target = linear->add_option("--target", options.target, "Column of --data to predict");
  data->needs(target);
  target->needs(data);
  linear
      ->add_option("--lr", options.learning_rate,
                   "Learning rate [0.001 for the toy, 0.01 with --data]")
      ->check(CLI::PositiveNumber);
  linear->add_option("--momentum", options.momentum, "Momentum of SGD")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  linear
      ->add_option("--seed", options.seed,
                   "Of the toy's data, first weights, held-out rows and order of samples")
      ->capture_default_str();
  return linear;
}

}  // namespace

std::variant<Command, Exit> parse_options(int argc, const char* const* argv) {
  CLI::App app("Trains on one process or many: alone, under ddprun, or under mpirun.", "train");
  app.require_subcommand(1);
  LinearOptions linear_options;
  const auto* linear = add_linear(app, linear_options);
  app.add_subcommand("message-passing",
                     "Rank 0 sends a tensor to every other rank, and each says so.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    const int status = app.exit(problem, std::cout, std::cerr);
    return Exit{status == 0 ? 0 : kUsageStatus};
  }
  if (linear->parsed()) {
    return Command(linear_options);
  }
  return Command(MessagePassingOptions{});
}

}  // namespace ddp
