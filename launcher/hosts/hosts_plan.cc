#include "launcher/hosts/hosts_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "launcher/hosts/agent_words.h"
#include "launcher/hosts/host_entries.h"
#include "launcher/hosts/passed_environment.h"
#include "launcher/hosts/shell_words.h"
#include "launcher/list_options.h"
#include "launcher/option_table.h"
#include "launcher/python_numbers.h"
#include "launcher/scheduler/told.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/file_text.h"

namespace ddprun {
namespace {

bool is_loopback_text(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// One theme after the other; the first mistake ends it.
/// Texts are read by those who read them for an agent, too: so both refuse the same.
class Planner {
 public:
  Planner(const Options& options, const Environment& environment, const Host& host,
          const Shell& shell)
      : options_(options), environment_(environment), host_(host), shell_(shell) {}

  Result<HostsPlan> run() {
    using Step = Result<void> (Planner::*)();
    for (const Step step : {&Planner::conflicts, &Planner::hosts, &Planner::nodes,
                            &Planner::meeting, &Planner::fill, &Planner::check}) {
      if (const auto done = (this->*step)(); !done) {
        return done.error();
      }
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::string at(std::string_view name) const { return origin(options_, name); }
  [[nodiscard]] bool is_given(std::string_view name) const {
    return std::find(options_.given.begin(), options_.given.end(), name) != options_.given.end();
  }
  [[nodiscard]] std::string source() const {
    return at(options_.hosts.empty() ? "hostfile" : "hosts");
  }

  /// Of two answers to one question neither is silently the better one.
  Result<void> conflicts() {
    if (!options_.hosts.empty() && !options_.hostfile.empty()) {
      return Error{"the hosts are given twice", at("hosts") + " and " + at("hostfile"),
                   "leave one of the two out"};
    }
    if (options_.fan_out < 1) {
      return Error{"a process cannot start " + std::to_string(options_.fan_out) + " hosts",
                   at("fan-out"), "give 1 or more"};
    }
    // Each has a meaning for one agent, and would mean the same on every host.
    const std::pair<const char*, bool> kRefused[] = {{"standalone", options_.standalone},
                                                     {"witness", options_.witness},
                                                     {"node-rank", options_.node_rank.has_value()}};
    for (const auto& [name, is_set] : kRefused) {
      if (is_set) {
        return Error{"it says of one agent what " + source() + " says of all", at(name),
                     "leave one of the two out"};
      }
    }
    return {};
  }

  /// A file is read here and not on the hosts, which have no part in it.
  Result<void> hosts() {
    std::optional<std::string> text;
    if (options_.hosts.empty()) {
      text = host_.read_file(options_.hostfile);
      if (!text) {
        return Error{
            in_quotes(options_.hostfile) + " cannot be read: " + why_no_text(options_.hostfile),
            at("hostfile"), "name a file with one host a line"};
      }
    }
    const auto read =
        text ? parse_hostfile(*text, options_.hostfile) : parse_hosts(options_.hosts, at("hosts"));
    if (!read) {
      return read.error();
    }
    if (!read->passed_over.empty()) {
      plan_.notices.push_back({LogLevel::warning, read->passed_over});
    }
    entries_ = read->hosts;
    DDP_CHECK(!entries_.empty(), "a list that was read names a host");
    return no_two_names_of_this_host();
  }

  /// Two agents would share its GPUs, and nobody could say which of them has which rank.
  Result<void> no_two_names_of_this_host() {
    const std::string own = host_.full_host_name();
    const HostEntry* first = nullptr;
    for (const HostEntry& entry : entries_) {
      if (!is_here(entry, own)) {
        continue;
      }
      if (first != nullptr) {
        return Error{
            entry.host + " is this host, which " + first->host + " at " + first->place + " is, too",
            entry.place, "name each host once, with all of its workers"};
      }
      first = &entry;
    }
    return {};
  }

  [[nodiscard]] int count() const { return static_cast<int>(entries_.size()); }

  /// All hosts, or MIN:MAX of them. Texts that are neither are reported by check().
  Result<void> nodes() {
    plan_.least = count();
    nnodes_ = std::to_string(count());
    if (!is_given("nnodes")) {
      return {};
    }
    const std::string_view text = options_.nnodes;
    // "3" is 3:3. A larger MAX would wait for hosts that nobody starts.
    const auto most = read_int(text.substr(text.find(':') + 1));
    if (most && *most != count()) {
      return Error{
          in_quotes(text) + " is not the number of hosts, which are " + std::to_string(count()),
          at("nnodes"), "leave it out, or give MIN:" + std::to_string(count())};
    }
    nnodes_ = text;
    const auto least = read_int(text.substr(0, text.find(':')));
    plan_.least = std::clamp(least.value_or(count()), 1, count());
    return {};
  }

  /// Where they meet, and under which name; what is given stays, as inside of an allocation
  /// (scheduler_defaults.h). A host alone needs neither.
  Result<void> meeting() {
    // An empty endpoint is a shell's variable that is not set.
    const bool has_place =
        !options_.rdzv_endpoint.empty() || is_given("master-addr") || is_given("master-port");
    id_ = is_given("rdzv-id") ? options_.rdzv_id : host_.new_job_id();
    if (has_place || count() == 1) {
      return {};
    }
    // The hosts of a Slurm job meet at the first one, too (scheduler_defaults.h), at a port that
    // follows from the job. Here the id is random, and so is the port.
    const HostEntry& first = entries_.front();
    if (is_loopback_text(first.host)) {
      return Error{in_quotes(first.host) +
                       " is a loopback address, at which the other hosts "
                       "reach only themselves",
                   first.place, "name the first host as the others reach it"};
    }
    endpoint_ = to_text({first.host, static_cast<std::uint16_t>(derived_port(id_))});
    return {};
  }

  /// By name, or a loopback address: whether another address is this host's, its user knows.
  static bool is_here(const HostEntry& entry, const std::string& own) {
    const auto short_name = [](std::string_view name) { return name.substr(0, name.find('.')); };
    return entry.user.empty() &&
           (is_loopback_text(entry.host) || entry.host == own || entry.host == short_name(own));
  }

  /// All hosts get the same words but for their rank and number of workers, so that whatever
  /// differs between them is theirs.
  Result<void> fill() {
    RelayStart& start = plan_.start;
    start.executable = shell_.executable;
    start.directory = host_.current_dir;
    auto ssh = split_shell_words(options_.ssh_command, at("ssh-command"));
    if (!ssh) {
      return ssh.error();
    }
    auto passed =
        passed_environment(shell_.environment, split_commas(options_.pass_env), at("pass-env"));
    if (!passed) {
      return passed.error();
    }
    start.ssh = *std::move(ssh);
    start.environment = *std::move(passed);
    plan_.environment = merged_environment(shell_.environment, {});
    start.fan_out = static_cast<std::uint32_t>(options_.fan_out);
    start.options = agent_words(options_);
    // No scheduler's word counts on the hosts: all that it would say is said here.
    start.options.insert(start.options.end(), {"--no-scheduler", "--nnodes=" + nnodes_});
    if (!endpoint_.empty()) {
      start.options.push_back("--rdzv-endpoint=" + endpoint_);
    }
    if (count() > 1) {
      start.options.push_back("--rdzv-id=" + id_);
    }
    start.program = options_.program;
    const std::string own = host_.full_host_name();
    for (const HostEntry& entry : entries_) {
      plan_.labels.push_back(entry.host);
      RelayHost host{
          .number = static_cast<std::uint32_t>(start.hosts.size()),
          // By its name, where another host is to start it.
          .target = is_loopback_text(entry.host) && entry.user.empty() ? own : entry.target(),
          .here = is_here(entry, own)};
      if (count() > 1) {
        host.words.push_back("--node-rank=" + std::to_string(host.number));
      }
      // Behind the words of all: of an option that is given twice the last one counts.
      if (entry.workers > 0) {
        host.words.push_back("--nproc-per-node=" + std::to_string(entry.workers));
      }
      start.hosts.push_back(std::move(host));
    }
    if (frame_of(start).size() > kToRelayFrameBytesMax) {
      return Error{"the variables and arguments are larger than any host takes", source(),
                   "pass less"};
    }
    DDP_CHECK(plan_.labels.size() == start.hosts.size(), "each host has a label");
    return {};
  }

  [[nodiscard]] ProgramRequest ssh_request() const {
    const char* const path = environment_("PATH");
    ProgramRequest request;
    request.name = plan_.start.ssh.front();
    request.search_path = path == nullptr ? "/bin:/usr/bin" : path;
    request.current_dir = plan_.start.directory;
    return request;
  }

  /// As an agent checks them: one sentence here, and not one from each host.
  Result<void> check() {
    Options options = options_;
    options.nnodes = nnodes_;
    options.rdzv_id = id_;
    options.no_scheduler = true;
    if (!endpoint_.empty()) {
      options.rdzv_endpoint = endpoint_;
    }
    if (count() > 1) {
      options.node_rank = 0;
    }
    // This machine may have no GPU and no copy of the program, and the hosts have.
    Host anywhere = host_;
    anywhere.usable_cpus = [] { return 1; };
    anywhere.count_gpus = [] { return GpuCount{1, ""}; };
    anywhere.find_program = [](const ProgramRequest& request) -> Result<Program> {
      return Program{"/" + request.name, request.arguments, request.name};
    };
    // Each host would say so otherwise.
    const bool all_here = std::all_of(plan_.start.hosts.begin(), plan_.start.hosts.end(),
                                      [](const RelayHost& one) { return one.here; });
    if (const auto found = host_.find_program(ssh_request()); !found && !all_here) {
      return Error{"it is not there: " + found.error().sentence(), at("ssh-command"),
                   "install OpenSSH's client, or name what reaches the hosts"};
    }
    const auto launch = resolve(options, environment_, anywhere);
    return launch ? Result<void>() : Result<void>(launch.error());
  }

  const Options& options_;
  const Environment& environment_;
  const Host& host_;
  const Shell& shell_;
  HostsPlan plan_;
  std::vector<HostEntry> entries_;
  std::string nnodes_;
  std::string id_;
  std::string endpoint_;
};

}  // namespace

bool asks_for_hosts(const Options& options) {
  return !options.hosts.empty() || !options.hostfile.empty();
}

std::optional<Error> hosts_option_alone(const Options& options) {
  DDP_CHECK(!asks_for_hosts(options), "with hosts these options have an effect");
  for (const OptionRow& row : option_rows()) {
    if (row.group == OptionGroup::hosts && is_on_command_line(options, row.name)) {
      return Error{"without --hosts or --hostfile it has no effect", origin(options, row.name),
                   "name the hosts, or leave it out"};
    }
  }
  return std::nullopt;
}

Result<HostsPlan> plan_hosts(const Options& options, const Environment& environment,
                             const Host& host, const Shell& shell) {
  DDP_CHECK(asks_for_hosts(options), "hosts are planned where they are asked for");
  DDP_CHECK(shell.executable.starts_with('/'), "the hosts know only absolute paths");
  return Planner(options, environment, host, shell).run();
}

}  // namespace ddprun
