// A machine that answers resolve's questions from fixed values, and command lines through both
// parse and resolve.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "launcher/resolve.h"
#include "tests/unit/launcher/launch_words.h"

namespace ddprun::test {

struct Machine {
  int cpus = 12;
  int gpus = 0;
  /// How often each was asked: a question not needed costs start-up time.
  int asked_cpus = 0;
  int asked_gpus = 0;
  ProgramRequest requested;
  std::string name = "vm";
  /// Names that the resolver knows by a loopback address only.
  std::set<std::string> loopback_names = {};
  std::string node_file = "n1\nn2\n";

  Host host() {
    Host host;
    host.usable_cpus = [this] {
      ++asked_cpus;
      return cpus;
    };
    host.count_gpus = [this] {
      ++asked_gpus;
      return GpuCount{gpus, "no libnvidia-ml.so.1, no /dev/nvidia0"};
    };
    host.new_job_id = [] { return std::string("fresh-id"); };
    host.find_program = [this](const ProgramRequest& request) -> Result<Program> {
      requested = request;
      if (request.name == "nowhere") {
        return Error{"not found", request.name, "look again"};
      }
      return Program{"/bin/" + request.name, request.arguments, request.name};
    };
    host.read_file = [this](const std::string&) { return std::optional(node_file); };
    host.full_host_name = [this] { return name; };
    host.is_loopback_name = [this](const std::string& asked) {
      return loopback_names.count(asked) > 0;
    };
    host.executable_dir = "/opt/ddprun/bin";
    host.current_dir = "/home/me";
    return host;
  }
};

inline Result<Launch> resolved(const std::string& line, const Variables& variables = {},
                               Machine machine = {}) {
  const auto parsed = parse(line, variables);
  if (const auto* usage = std::get_if<UsageError>(&parsed)) {
    return usage->error;
  }
  return resolve(std::get<Options>(parsed), environment_of(variables), machine.host());
}

}  // namespace ddprun::test
