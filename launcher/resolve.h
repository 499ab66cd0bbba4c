// Resolve: what the options mean together on this machine. Every rule that torchrun checks after
// reading its command line stands here, with the sentence for the one who broke it; what comes out
// needs no further checking.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/gpus.h"
#include "agent/job_spec.h"
#include "launcher/notice.h"
#include "launcher/options.h"
#include "launcher/program.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// Questions to this machine. Each is asked only when an option needs the answer, since some cost
/// more than all the rest of the start.
struct Host {
  std::function<int()> usable_cpus;
  std::function<GpuCount()> count_gpus;
  /// A random UUID (version 4) as text.
  std::function<std::string()> new_job_id;
  std::function<Result<Program>(const ProgramRequest&)> find_program;
  /// Now, since 1970.
  std::function<std::chrono::milliseconds()> unix_time;
  /// The content of a file, none where it cannot be read.
  std::function<std::optional<std::string>(const std::string&)> read_file;
  /// This host's name, with its domain where it has one.
  std::function<std::string()> full_host_name;
  /// Whether a host's name stands for loopback addresses and nothing else here; false where it
  /// stands for nothing (yet).
  std::function<bool(const std::string&)> is_loopback_name;
  std::string executable_dir;  ///< where ddprun itself lies
  std::string current_dir;
};

struct Launch {
  JobSpec job = {};
  LogLevel log_level = LogLevel::warning;
  std::vector<Notice> notices = {};
};

/// An Error here is one of the configuration: main returns kExitFailure for it, as torchrun does.
Result<Launch> resolve(const Options& options, const Environment& environment, const Host& host);

}  // namespace ddprun
