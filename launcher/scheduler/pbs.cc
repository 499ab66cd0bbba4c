#include "launcher/scheduler/pbs.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "launcher/list_options.h"
#include "launcher/scheduler/host_list.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

constexpr char kNodeFile[] = "PBS_NODEFILE";
constexpr char kNodeFileTodo[] =
    "give --nnodes and --rdzv-endpoint HOST:PORT; or copy the file to a folder that all nodes "
    "see, and set PBS_NODEFILE to it";

/// What a job needs to know of the file, which may have a line for each core of thousands of hosts.
struct NodeFile {
  std::string first;
  int count = 0;
  std::vector<std::string> names;  ///< each once; empty beyond kExpectedHostsMax
};

/// A line for each process of a host, so a host may be there many times.
Result<NodeFile> hosts_of(const Environment& environment, const ReadFile& read_file) {
  const auto path = told_text(environment, kNodeFile);
  if (!path) {
    return Error{"it is not set, so the nodes of this PBS job are not known", kNodeFile,
                 kNodeFileTodo};
  }
  const auto text = read_file(*path);
  if (!text) {
    return Error{in_quotes(*path) + " cannot be read on this node", kNodeFile, kNodeFileTodo};
  }
  const std::vector<std::string_view> lines = words_of(*text, " \t\r\n");
  if (lines.empty()) {
    return Error{in_quotes(*path) + " names no host", kNodeFile, kNodeFileTodo};
  }
  const auto* const odd = std::find_if_not(lines.data(), lines.data() + lines.size(), is_host_name);
  if (odd != lines.data() + lines.size()) {
    return Error{in_quotes(*odd) + " in " + in_quotes(*path) + " is no host", kNodeFile,
                 kNodeFileTodo};
  }
  const std::unordered_set<std::string_view> hosts(lines.begin(), lines.end());
  NodeFile file{std::string(lines.front()), static_cast<int>(hosts.size()), {}};
  if (file.count <= kExpectedHostsMax) {
    file.names.assign(hosts.begin(), hosts.end());
  }
  return file;
}

/// "15422.login2" is job 15422; "15422[7].login2" the seventh of an array.
std::pair<std::uint64_t, std::uint64_t> numbers_of(std::string_view id) {
  const std::string_view number = id.substr(0, id.find_first_not_of("0123456789"));
  std::string_view index;
  if (id.substr(number.size()).starts_with('[')) {
    index = id.substr(number.size() + 1);
    index = index.substr(0, index.find_first_not_of("0123456789"));
  }
  return {parse_number<std::uint64_t>(number).value_or(0),
          parse_number<std::uint64_t>(index).value_or(0)};
}

}  // namespace

std::optional<BatchJob> pbs_job(const Environment& environment, const ReadFile& read_file) {
  const auto id = told_text(environment, "PBS_JOBID");
  if (!id) {
    return std::nullopt;
  }
  const auto [number, index] = numbers_of(*id);
  BatchJob job{.system = "PBS job", .id = {*id, "PBS_JOBID"}, .number = number, .part = index};
  // An error here is no failure yet: a user who gives --rdzv-endpoint does not need the host.
  const auto hosts = hosts_of(environment, read_file);
  if (hosts) {
    job.first_host = Told<std::string>{hosts->first, kNodeFile};
  } else {
    job.first_host = hosts.error();
  }
  return job;
}

std::optional<Allocation> pbs_allocation(const Environment& environment,
                                         const ReadFile& read_file) {
  const auto job = pbs_job(environment, read_file);
  if (!job) {
    return std::nullopt;
  }
  Allocation found{.launcher = job->system, .meeting_host = job->first_host};
  found.job_id = job->id;
  found.port = derived_port(job->number, job->part);
  const auto hosts = hosts_of(environment, read_file);
  if (hosts) {
    found.host_names = {hosts->names, kNodeFile};
  }
  const int node = told_number(environment, "PBS_NODENUM").value_or(0);
  // pbsdsh's tasks on the first node have higher numbers than the script.
  const bool is_script = node == 0 && told_number(environment, "PBS_TASKNUM").value_or(1) <= 1;
  if (is_script) {
    // Nothing is refused: the script may be meant to run here alone. The advice says what to do.
    found.agents = Told<int>{1, "PBS_JOBID"};
    if (hosts && hosts->count > 1) {
      found.advice = std::string(kNodeFile) + ": the job has " + std::to_string(hosts->count) +
                     " nodes, but pbsdsh did not start ddprun, so the program runs on this node "
                     "alone; start ddprun by pbsdsh, or give --nnodes 1";
    } else if (!hosts && told_text(environment, kNodeFile)) {
      found.advice = hosts.error().where + ": " + hosts.error().what +
                     ", and pbsdsh did not start ddprun, so the program runs on this node alone; "
                     "give --nnodes 1 if that is meant";
    }
  } else if (hosts && node >= hosts->count) {
    // A file of another job, or a copy that was cut: the nodes would count differently.
    found.agents = Error{"this is node " + std::to_string(node) + " (counted from 0), but " +
                             kNodeFile + " names " + std::to_string(hosts->count) +
                             (hosts->count == 1 ? " host" : " hosts"),
                         "PBS_NODENUM", kNodeFileTodo};
  } else if (hosts) {
    found.agents = Told<int>{hosts->count, kNodeFile};
    found.hosts = hosts->count;
  } else {
    found.agents = hosts.error();
  }
  return found;
}

}  // namespace ddprun
