#include "trainer/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>

#include "trainer/number_option.h"

namespace ddp {
namespace {

CLI::App* add_linear(CLI::App& app, LinearOptions& options) {
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
      ->type_name("PATH")
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
  return linear;
}

/// CLI11's own texts speak of arguments and counts; those of our checks are sentences already.
std::string sentence_of(const CLI::ParseError& problem) {
  std::string text = problem.what();
  const auto option = text.substr(0, text.find(':'));
  if (problem.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    return option + (text.find("At Most") != std::string::npos ? " is given twice"
                                                               : " needs a value behind it");
  }
  if (problem.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    // It lists all of them, the first one last.
    return "there is no option or word '" + text.substr(text.find_last_of(' ') + 1) +
           "' in this command";
  }
  if (problem.get_exit_code() == static_cast<int>(CLI::ExitCodes::ConversionError)) {
    // Every value that is a number or a word has its own check; those of flags are left.
    return text.substr(text.find("--"), text.find(" = ") - text.find("--")) + " takes no value";
  }
  return text;
}

}  // namespace

std::variant<Command, Exit> parse_options(int argc, const char* const* argv) {
  CLI::App app("Trains on one process or many: alone, under ddprun, or under mpirun.", "train");
  app.require_subcommand(1);
  app.set_version_flag("--version", "train " DDPRUN_VERSION, "Show the version");
  LinearOptions linear_options;
  const auto* linear = add_linear(app, linear_options);
  Gpt2Options gpt2_options;
  const auto* gpt2 = add_gpt2(app, gpt2_options);
  ResnetOptions resnet_options;
  const auto* resnet = add_resnet(app, resnet_options);
  app.add_subcommand("message-passing",
                     "Rank 0 sends a tensor to every other rank, and each says so.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    // --help arrives here, too, with status 0. CLI11 has a code for each kind of mistake. Launchers
    // and their users need one code, and it must differ from that of a failed training.
    if (problem.get_exit_code() == 0) {
      app.exit(problem, std::cout, std::cerr);
      return std::cout.flush()
                 ? Exit{0, ""}
                 : Exit{1, "stdout cannot be written to; make room, or name another place"};
    }
    const auto chosen = app.get_subcommands();
    if (chosen.empty()) {
      return Exit{
          kUsageStatus,
          "the first word must be linear, gpt2, resnet or message-passing; see train --help"};
    }
    return Exit{kUsageStatus,
                sentence_of(problem) + "; see train " + chosen.front()->get_name() + " --help"};
  }
  if (linear->parsed()) {
    return Command(linear_options);
  }
  if (gpt2->parsed()) {
    return Command(gpt2_options);
  }
  if (resnet->parsed()) {
    return Command(resnet_options);
  }
  return Command(MessagePassingOptions{});
}

}  // namespace ddp
