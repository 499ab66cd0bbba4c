#include "trainer/command_line.h"

#include <cmath>

#include "trainer/number_option.h"

namespace ddp {
namespace {

void add_linear(CLI::App& app, LinearOptions& options) {
  auto* linear = app.add_subcommand("linear",
                                    "Linear regression by SGD on the mean squared error. Without "
                                    "--data on a toy of 2,048 random\n"
                                    "samples of 20 features.");
  const auto count = count_from_1();
  const auto rate =
      number_that<double>("a number above 0", [](double x) { return x > 0 && std::isfinite(x); });
  const auto share =
      number_that<double>("a number from 0 to below 1", [](double x) { return x >= 0 && x < 1; });
  const auto seed = number_that<std::uint64_t>("a whole number from 0 to 2^64 - 1",
                                               [](std::uint64_t) { return true; });
  linear->add_option("total_epochs", options.total_epochs, "Epochs to train in all")
      ->required()
      ->type_name("N")
      ->check(count);
  linear->add_option("save_every", options.save_every, "Save a snapshot after every so many epochs")
      ->required()
      ->type_name("N")
      ->check(count);
  linear->add_option(spellings("--batch-size"), options.batch_size, "Samples per rank and step")
      ->type_name("N")
      ->check(count)
      ->capture_default_str();
  linear
      ->add_option(spellings("--snapshot-path"), options.snapshot_path,
                   "Directory of the snapshots; training goes on from the newest")
      ->type_name("DIR")
      ->check(some_path())
      ->capture_default_str();
  linear
      ->add_option("--keep", options.keep,
                   "Snapshots kept, the newest ones: 2 leave one to fall back on")
      ->type_name("K")
      ->check(keep_count())
      ->capture_default_str();
  auto* data = linear->add_option("--data", options.data, "CSV file with a header line");
  auto* target = linear->add_option("--target", options.target, "Column of --data to predict");
  data->type_name("FILE")->check(some_path())->needs(target);
  target->type_name("COLUMN")->needs(data);
  linear
      ->add_option("--lr", options.learning_rate,
                   "Learning rate [0.001 for the toy, 0.01 with --data]")
      ->type_name("X")
      ->check(rate);
  linear->add_option("--momentum", options.momentum, "Momentum of SGD")
      ->type_name("X")
      ->check(share)
      ->capture_default_str();
  linear
      ->add_option("--seed", options.seed,
                   "Of the toy's data, first weights, held-out rows and order of samples")
      ->type_name("N")
      ->check(seed)
      ->capture_default_str();
}

}  // namespace

CommandLine::CommandLine()
    : app("Trains on one process or many: alone, under ddprun, or under mpirun.", "train") {
  app.require_subcommand(1);
  app.set_version_flag("--version", "train " DDPRUN_VERSION, "Show the version");
  add_linear(app, linear);
  add_gpt2(app, gpt2);
  add_resnet(app, resnet);
  app.add_subcommand("message-passing",
                     "Rank 0 sends a tensor to every other rank, and each says so.");
}

}  // namespace ddp
