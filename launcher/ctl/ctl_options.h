// CtlOptions: ddpctl's command line.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "launcher/job_certificates.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"

namespace ddprun {

struct CtlOptions {
  // Which agent.
  std::optional<std::string> job;
  std::optional<pid_t> pid;
  std::optional<Endpoint> at;  ///< another machine's, in place of the two
  std::optional<std::string> token_file;
  GivenCertificates certificates;
  // What to do.
  std::string verb;
  bool json = false;                ///< status
  std::optional<std::string> node;  ///< drain
  bool follow = false;              ///< logs
  std::optional<int> rank;          ///< logs, stacks
  double interval_seconds = 1;      ///< top
  int count = 0;                    ///< top; 0: until it is ended
};

/// What --help and --version show.
struct CtlText {
  std::string text;
};

/// `words` are the arguments without the name of the command. An Error is a command line that
/// cannot be read.
std::variant<CtlOptions, CtlText, Error> parse_ctl(std::span<const char* const> words);

}  // namespace ddprun
