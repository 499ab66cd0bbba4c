// Any texts in the variables of a scheduler: a list of hosts whose hosts can be asked for, and an
// allocation that makes sense, or a sentence. The same texts as what a user names hosts by, and as
// what a relay sends.
#include <array>
#include <map>
#include <string>

#include "launcher/hosts/host_entries.h"
#include "launcher/hosts/relay_message.h"
#include "launcher/hosts/shell_words.h"
#include "launcher/scheduler/host_list.h"
#include "launcher/scheduler/scheduler.h"
#include "tests/fuzz/input.h"

namespace {

using ddprun::fuzz::require;

void try_hosts(const ddprun::Result<ddprun::HostEntries>& entries) {
  if (!entries) {
    require(!entries.error().where.empty(), "a refusal names the place");
    return;
  }
  require(!entries->hosts.empty(), "a list names a host");
  for (const ddprun::HostEntry& entry : entries->hosts) {
    require(!entry.host.empty() && entry.workers >= 0, "a host has a name");
    require(!entry.target().starts_with('-'), "a host is no option of ssh");
    require(entry.target().find_first_of(" \t\n'\"`$;&|") == std::string::npos,
            "no shell could read more than a name");
  }
}

void try_relay(std::string_view bytes) {
  for (const bool from_host : {false, true}) {
    ddprun::RelayReader reader(ddprun::kFromHostFrameBytesMax, from_host);
    reader.feed(bytes, [&](std::uint8_t type, std::string_view payload) {
      if (const auto message = ddprun::read_from_host(type, payload); message && from_host) {
        require(!ddprun::frame_of(*message).empty(), "what was read can be sent");
      }
      if (const auto message = ddprun::read_to_relay(type, payload); message && !from_host) {
        require(!ddprun::frame_of(*message).empty(), "what was read can be sent");
      }
      return true;
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  fuzz::Input input(data, size);
  // Lines: a list of hosts, then the values of these variables in their order.
  constexpr std::array kNames = {
      "SLURM_JOB_ID",         "SLURM_STEP_ID",        "SLURM_STEP_NUM_TASKS",
      "SLURM_PROCID",         "SLURM_NODEID",         "SLURM_STEP_TASKS_PER_NODE",
      "SLURM_STEP_NUM_NODES", "SLURMD_NODENAME",      "PBS_JOBID",
      "PBS_NODEFILE",         "PBS_NODENUM",          "LSB_JOBID",
      "LSB_MCPU_HOSTS",       "LSF_PM_TASKID",        "OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_SIZE", "JOB_COMPLETION_INDEX", "JOBSET_NAME"};
  std::string rest(input.rest());
  try_hosts(parse_hosts(rest.substr(0, rest.find('\n')), "X"));
  try_hosts(parse_hostfile(rest, "X"));
  try_relay(rest);
  try_relay(preamble() + rest);
  if (const auto words = split_shell_words(rest, "X")) {
    require(!words->front().empty(), "a command has a program");
  }
  const auto next = [&rest] {
    const std::size_t end = rest.find('\n');
    std::string line = rest.substr(0, end);
    rest.erase(0, end == std::string::npos ? rest.size() : end + 1);
    return line;
  };
  const std::string text = next();
  if (const auto list = HostList::parse(text, "X")) {
    require(list->size() > 0, "a list names a host");
    for (const int index : {0, list->size() / 2, list->size() - 1}) {
      require(!list->at(index).empty(), "a host has a name");
    }
    require(list->has(list->at(list->size() - 1)), "a list has its last host");
  } else {
    require(list.error().sentence().size() > text.size(), "a refusal shows the text");
  }
  std::map<std::string, std::string> variables{{"SLURM_STEP_NODELIST", text},
                                               {"SLURM_JOB_NODELIST", text}};
  for (const char* name : kNames) {
    if (std::string line = next(); !line.empty() && line.find('\0') == std::string::npos) {
      variables[name] = line;
    }
  }
  const auto found = find_allocation(
      [&](const char* name) {
        const auto at = variables.find(name);
        return at == variables.end() ? nullptr : at->second.c_str();
      },
      [&](const std::string& path) { return std::optional(path); }, [&] { return text; });
  if (found) {
    require(found->agents_here >= 1 && found->hosts >= 0, "this process is on a host");
    require(found->port == 0 || (20'000 <= found->port && found->port < 30'000), "a port");
  }
  return 0;
}
