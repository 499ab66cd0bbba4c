#include "launcher/ctl/ctl_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

constexpr double kIntervalMin = 0.1;
constexpr double kIntervalMax = 3600;

// CLI11's own validators let NaN pass, and print both ends of the range in full digits.

std::string is_interval(const std::string& text) {
  const double seconds = parse_number<double>(text).value_or(0);
  const bool fits = seconds >= kIntervalMin && seconds <= kIntervalMax;  // NaN does not
  return fits ? "" : "'" + text + "' is no number of seconds from 0.1 to 3600";
}

std::string is_count(const std::string& text) {
  return parse_number<int>(text).value_or(0) > 0 ? "" : "'" + text + "' is no number above 0";
}

Error empty_text(const std::string& name) {
  return {name + " is given an empty text", "command line", "name something, or leave it out"};
}

/// `--job=`, where CLI11 would take the word behind it.
std::optional<Error> empty_value(std::span<const char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--") {
      break;
    }
    if (word.starts_with("-") && word.find('=') == word.size() - 1) {
      return empty_text(std::string(word.substr(0, word.size() - 1)));
    }
  }
  return std::nullopt;
}

/// An empty word is most often a variable that is not set. What `drain ""` would do, leave with
/// this node, is not what was meant.
std::optional<Error> empty_word(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& word : option->results()) {
      if (word.empty()) {
        return empty_text(option->get_name(option->get_positional()));
      }
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) {
    if (auto found = empty_word(*verb)) {
      return found;
    }
  }
  return std::nullopt;
}

/// As ddprun's own; its variables count, too.
void add_certificates(CLI::App& app, CLI::Option* at, GivenCertificates& given) {
  app.add_option("--tls-ca", given.ca, "With --at: the job's authority; else DDPRUN_TLS_CA.")
      ->option_text("FILE")
      ->needs(at);
  app.add_option("--tls-cert", given.certificate,
                 "A certificate of that authority; else DDPRUN_TLS_CERT.")
      ->option_text("FILE")
      ->needs(at);
  app.add_option("--tls-key", given.key, "The key of that certificate; else DDPRUN_TLS_KEY.")
      ->option_text("FILE")
      ->needs(at);
}

/// In the order of the help: looks, then orders, then looks that are rarer.
void add_verbs(CLI::App& app, CtlOptions& options) {
  auto* const status = app.add_subcommand("status", "How the job is: nodes, incidents, workers.");
  status->add_flag("--json", options.json, "As the JSON object of docs/operations.md.");
  auto* const drain = app.add_subcommand(
      "drain", "Let a node leave the job in order: all workers save, and the others go on.");
  drain
      ->add_option("NODE", options.node,
                   "Its name, or its number as status of the coordinator shows it; else this node.")
      ->option_text("[NODE]");
  app.add_subcommand("save", "Preempt the job: all workers save, and every agent exits with 75.");
  app.add_subcommand("stop",
                     "End the job in order, as SIGTERM does; a second stop ends it at once.");
  auto* const logs =
      app.add_subcommand("logs", "The output of this node's workers, from its files.");
  logs->add_flag("-f,--follow", options.follow, "Go on as it grows, until the agent ends.");
  logs->add_option("--rank", options.rank, "Of this rank alone.")->option_text("N");
  auto* const stacks =
      app.add_subcommand("stacks", "What this node's workers are about; they run on.");
  stacks->add_option("--rank", options.rank, "Of this rank alone.")->option_text("N");
  auto* const top = app.add_subcommand(
      "top", "Processors, memory, steps and GPUs of this node, again and again.");
  top->add_option("-d,--interval", options.interval_seconds, "Seconds between two looks.")
      ->check(is_interval)
      ->option_text("SECONDS");
  top->add_option("-n,--count", options.count, "End after so many looks.")
      ->check(is_count)
      ->option_text("COUNT");
}

}  // namespace

/// CLI11 parses here, and not ddprun's own reader: no torchrun has this command line, so argparse's
/// rules do not matter.
std::variant<CtlOptions, CtlText, Error> parse_ctl(std::span<const char* const> words) {
  CtlOptions options;
  CLI::App app{"Looks after a ddprun agent: one on this host, or with --at a job's coordinator.",
               "ddpctl"};
  app.set_version_flag("--version", "ddpctl " DDPRUN_VERSION);
  app.add_option("--job", options.job, "The agent of this job (--rdzv-id).")->option_text("ID");
  app.add_option("--pid", options.pid, "The agent with this process id, or its parent's.")
      ->option_text("PID");
  std::string at;
  auto* const at_option =
      app.add_option("--at", at, "The coordinator of a job with a token or TLS, on any machine.")
          ->option_text("HOST:PORT")
          ->excludes("--job")
          ->excludes("--pid");
  app.add_option("--job-token-file", options.token_file,
                 "With --at: the job's token; else that of DDPRUN_JOB_TOKEN.")
      ->option_text("FILE")
      ->needs(at_option);
  add_certificates(app, at_option, options.certificates);
  app.require_subcommand(1);
  app.fallthrough();  // --job and --pid may stand behind the verb, too
  app.footer(
      "Exit code: 0 done, 1 refused or failed, 2 a command line that cannot be read, 3 no agent\n"
      "found, 4 several found, 5 the agent does not answer. It may still carry an order out then:\n"
      "ask status when it answers again. Only its own user, and root, reach an agent, and with\n"
      "--at whoever has the job's credentials. For one in a container, run ddpctl in it.");
  add_verbs(app, options);
  if (auto empty = empty_value(words)) {
    return std::move(*empty);
  }
  // CLI11 takes the words from the end.
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& asked) {
    // --help of the verb that was named, else of all.
    const auto named = app.get_subcommands();
    return CtlText{dynamic_cast<const CLI::CallForVersion*>(&asked) != nullptr
                       ? std::string("ddpctl " DDPRUN_VERSION "\n")
                       : (named.empty() ? &app : named.front())->help()};
  } catch (const CLI::ParseError& wrong) {
    const auto unknown = app.remaining();
    const bool no_verb = dynamic_cast<const CLI::RequiredError*>(&wrong) != nullptr;
    std::string what = no_verb && !unknown.empty() ? "'" + unknown.front() + "' is no command"
                                                   : std::string(wrong.what());
    std::replace(what.begin(), what.end(), '\n', ' ');
    return Error{what, "command line", "ddpctl --help lists the commands"};
  }
  if (auto empty = empty_word(app)) {
    return std::move(*empty);
  }
  if (at_option->count() > 0) {
    auto endpoint = parse_endpoint(at, -1);
    if (!endpoint || endpoint->port == 0) {
      return Error{"'" + at + "' is no HOST:PORT", "--at", "name the job's rendezvous endpoint"};
    }
    options.at = std::move(*endpoint);
  }
  options.verb = app.get_subcommands().front()->get_name();
  return options;
}

}  // namespace ddprun
