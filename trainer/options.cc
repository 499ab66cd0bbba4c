#include "trainer/options.h"

#include <iostream>

#include "trainer/command_line.h"

namespace ddp {
namespace {

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
  CommandLine line;
  CLI::App& app = line.app;
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
  const auto command = app.get_subcommands().front()->get_name();
  if (command == "linear") {
    return Command(line.linear);
  }
  if (command == "gpt2") {
    return Command(line.gpt2);
  }
  if (command == "resnet") {
    return Command(line.resnet);
  }
  return Command(MessagePassingOptions{});
}

}  // namespace ddp
