// ddpctl: looks after a ddprun agent, of this host or with --at of another. A failure is one
// sentence on stderr and one of the codes of ctl_exit.h.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <variant>

#include "launcher/ctl/ctl_commands.h"
#include "launcher/ctl/ctl_exit.h"
#include "launcher/ctl/ctl_options.h"
#include "launcher/ctl/status_view.h"
#include "rendezvous/base/text.h"

namespace {

using namespace ddprun;

/// Names of other hosts and jobs may be in it: printable() takes what would move a terminal's
/// cursor.
int complain(const Error& error, int exit_code) {
  std::fprintf(stderr, "ddpctl: %s\n", printable(error.sentence()).c_str());
  return exit_code;
}

std::variant<ChosenAgent, CtlFailure> choose(const CtlOptions& options) {
  if (options.at) {
    auto remote = remote_agent(*options.at, options.token_file, options.certificates);
    if (!remote) {
      return CtlFailure{remote.error(), kCtlFailed};
    }
    return ChosenAgent(std::move(*remote));
  }
  auto found = find_agent(options.job, options.pid);
  if (auto* none = std::get_if<CtlFailure>(&found)) {
    return std::move(*none);
  }
  return ChosenAgent(std::move(std::get<FoundAgent>(found)));
}

/// Three steps, each of which may end it: read the words, find the agent, speak with it.
int run(std::span<const char* const> words) {
  const auto parsed = parse_ctl(words);
  if (const auto* wrong = std::get_if<Error>(&parsed)) {
    return complain(*wrong, kCtlUsage);
  }
  if (const auto* text = std::get_if<CtlText>(&parsed)) {
    if (std::fputs(text->text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
      return complain(Error{"cannot write", "stdout", ""}, kCtlFailed);
    }
    return kCtlDone;
  }
  const CtlOptions& options = std::get<CtlOptions>(parsed);
  auto chosen = choose(options);
  if (const auto* none = std::get_if<CtlFailure>(&chosen)) {
    return complain(none->error, none->exit_code);
  }
  const auto failed = carry_out(options, std::get<ChosenAgent>(chosen));
  return failed ? complain(failed->error, failed->exit_code) : kCtlDone;
}

}  // namespace

/// Libraries throw where the machine has no memory left; that ends here, as one sentence.
int main(int argc, char** argv) {
  try {
    return run({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& error) {
    return complain(Error{std::string("cannot continue: ") + error.what(), "", ""}, kCtlFailed);
  }
}
