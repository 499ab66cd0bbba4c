#include "launcher/resolve.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "agent/host/compared_variables.h"
#include "launcher/ending_config.h"
#include "launcher/list_options.h"
#include "launcher/metrics_config.h"
#include "launcher/python_numbers.h"
#include "launcher/rendezvous_config.h"
#include "launcher/restart_rules.h"
#include "launcher/scheduler_defaults.h"
#include "rendezvous/base/check.h"
#include "rendezvous/contract/environment.h"
#include "rendezvous/membership/node_description.h"

namespace ddprun {
namespace {

/// Of a top-level package; letters outside of ASCII may be in it (PEP 3131). The names travel in a
/// variable, with commas between them (warm_environment).
bool is_module_name(std::string_view name) {
  const auto in_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c > 0x7f; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), in_name);
}

/// The options one theme after the other; each step fills its part of the launch. The first mistake
/// ends it: one sentence is read, and the next mistake is reported by the next try.
class Resolver {
 public:
  Resolver(const ScheduledOptions& scheduled, const Environment& environment, const Host& host)
      : options_(scheduled.options),
        environment_(environment),
        host_(host),
        launch_{.job = {.expected = scheduled.expected}, .notices = scheduled.notices},
        job_(launch_.job) {}

  Result<Launch> run() {
    using Step = Result<void> (Resolver::*)();
    // The order decides which of several mistakes is reported. Only the last looks at files.
    constexpr std::array<Step, 11> kSteps{
        &Resolver::log_level, &Resolver::accepted,   &Resolver::nodes,    &Resolver::restarts,
        &Resolver::workers,   &Resolver::rendezvous, &Resolver::same_env, &Resolver::output,
        &Resolver::ending,    &Resolver::hangs,      &Resolver::program};
    for (const Step step : kSteps) {
      if (const auto done = (this->*step)(); !done) {
        return done.error();
      }
    }
    check_spec();
    return std::move(launch_);
  }

 private:
  /// What the steps guarantee together. The agent and the coordinator rely on it and do not check
  /// again (agent/job_spec.h). A value that breaks it is the mistake of a step, not of the user.
  void check_spec() const {
    DDP_CHECK(1 <= job_.min_nodes && job_.min_nodes <= job_.max_nodes, "MIN:MAX is a range");
    DDP_CHECK(job_.max_nodes <= kNodesMax, "a job has no more nodes than the protocol can count");
    DDP_CHECK(!job_.job_id.empty(), "every job has a name");
    DDP_CHECK(job_.max_restarts >= 0, "a budget is not negative");
    DDP_CHECK(job_.restarts.no_progress_max >= 0, "a limit is not negative");
    DDP_CHECK(job_.heartbeat_timeout.count() > 0, "a silent node is lost after some time");
    DDP_CHECK(job_.join_timeout.count() > 0, "nodes have some time to join");
    DDP_CHECK(job_.endpoint.port != 0 || job_.max_nodes == 1, "other nodes need a known port");
    DDP_CHECK(job_.backend != RendezvousBackend::static_ranks || job_.more_endpoints.empty(),
              "only c10d meets at several endpoints");
    DDP_CHECK(job_.backend != RendezvousBackend::static_ranks ||
                  (job_.node_rank && *job_.node_rank < job_.max_nodes),
              "a node of the static backend has a rank");
    DDP_CHECK(job_.witness == job_.program.path.empty(), "all nodes but witnesses run a program");
    DDP_CHECK(1 <= job_.local_world_size && job_.local_world_size <= kLocalWorldSizeMax,
              "a node has some workers, and no more than the protocol can count");
    DDP_CHECK(!job_.warm_workers || !job_.witness, "a witness keeps no workers warm");
  }

  [[nodiscard]] std::string at(std::string_view name) const { return origin(options_, name); }
  [[nodiscard]] std::string variable(const char* name) const {
    const char* const value = environment_(name);
    return value == nullptr ? std::string() : std::string(value);
  }

  /// The names of Python's logging module, in any case, since scripts set LOGLEVEL for torchrun.
  /// WARNING is torchrun's default, and NOTSET lets every line through.
  Result<void> log_level() {
    std::string text = variable(env::kLogLevel);
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    constexpr std::pair<std::string_view, LogLevel> kLevels[] = {
        {"", LogLevel::warning},      {"DEBUG", LogLevel::debug},
        {"NOTSET", LogLevel::debug},  {"INFO", LogLevel::info},
        {"WARN", LogLevel::warning},  {"WARNING", LogLevel::warning},
        {"ERROR", LogLevel::error},   {"CRITICAL", LogLevel::critical},
        {"FATAL", LogLevel::critical}};
    const auto* found = std::find_if(std::begin(kLevels), std::end(kLevels),
                                     [&](const auto& level) { return level.first == text; });
    if (found == std::end(kLevels)) {
      return Error{in_quotes(variable(env::kLogLevel)) + " is not a log level", env::kLogLevel,
                   "set it to DEBUG, INFO, WARNING, ERROR or CRITICAL"};
    }
    launch_.log_level = found->second;
    return {};
  }

  /// Options without an effect are still checked as in torchrun. What ddprun cannot do is an error:
  /// a job that ignored it would run in another way than its user asked for.
  Result<void> accepted() {
    if (!(options_.monitor_interval_seconds > 0)) {
      return Error{"the interval must be above 0", at("monitor-interval"),
                   "leave it out: ddprun polls nothing"};
    }
    if (!options_.logs_specs.empty() && options_.logs_specs != "default") {
      return Error{"there is no " + in_quotes(options_.logs_specs) +
                       ": logs specs are Python plug-ins, which ddprun cannot load",
                   at("logs-specs"), "leave it out, or give 'default'"};
    }
    if (!options_.numa_binding.empty()) {
      return Error{"ddprun cannot bind workers to the CPUs of a NUMA node yet", at("numa-binding"),
                   "leave it out, and start the program through numactl where it matters"};
    }
    return {};
  }

  /// "2" means 2:2, a job of fixed size: it waits for all nodes, and does not go on with fewer.
  Result<void> nodes() {
    const std::string_view text = options_.nnodes;
    const auto colon = text.find(':');
    const auto least = read_int(text.substr(0, colon));
    const auto most = colon == std::string_view::npos ? least : read_int(text.substr(colon + 1));
    if (!least || !most) {
      return Error{in_quotes(text) + " is neither N nor MIN:MAX", at("nnodes"),
                   "write for example 2 or 2:4"};
    }
    if (*least <= 0) {
      return Error{fmt::format("a job of {} nodes cannot run", *least), at("nnodes"),
                   "give at least 1"};
    }
    if (*least > *most) {
      return Error{fmt::format("the minimum of {} nodes is above the maximum of {}", *least, *most),
                   at("nnodes"), "write it as MIN:MAX"};
    }
    if (*most > kNodesMax) {
      return Error{fmt::format("{} is above {} nodes", in_quotes(text), kNodesMax), at("nnodes"),
                   "give a smaller maximum"};
    }
    job_.min_nodes = *least;
    job_.max_nodes = *most;
    job_.scale_up = options_.scale_up == "now"     ? ScaleUp::now
                    : options_.scale_up == "never" ? ScaleUp::never
                                                   : ScaleUp::at_snapshot;
    return {};
  }

  Result<void> restarts() {
    if (options_.max_restarts < 0) {
      return Error{"the number of restarts cannot be " + std::to_string(options_.max_restarts),
                   at("max-restarts"), "give 0 or more"};
    }
    job_.max_restarts = options_.max_restarts;
    RestartRules& rules = job_.restarts;
    if (options_.restart_window) {
      const auto window = parse_restart_window(*options_.restart_window, at("restart-window"));
      if (!window) {
        return window.error();
      }
      rules.window = *window;
    }
    auto table = parse_fault_table(options_.on, at("on"));
    if (!table) {
      return table.error();
    }
    rules.on_fault = *std::move(table);
    if (options_.no_progress_limit < 0) {
      return Error{"the number of attempts cannot be " + std::to_string(options_.no_progress_limit),
                   at("no-progress-limit"), "give 0 or more"};
    }
    rules.no_progress_max = options_.no_progress_limit;
    return {};
  }

  Result<void> hangs() {
    auto timeouts = parse_hang_timeout(options_.hang_timeout.value_or("0"), at("hang-timeout"));
    if (!timeouts) {
      return timeouts.error();
    }
    // Until its first step a worker also starts, so it has more time and never less.
    DDP_CHECK(timeouts->start >= timeouts->progress, "the start has the longer timeout");
    job_.hang_timeouts = *timeouts;
    return {};
  }

  /// torchrun's words. Each question to the machine is asked only where its answer is needed: to
  /// count GPUs loads the driver's library.
  Result<void> workers() {
    job_.role = options_.role;
    job_.virtual_local_rank = options_.virtual_local_rank;
    const std::string& text = options_.nproc_per_node;
    const std::string where = at("nproc-per-node");
    if (const auto number = read_int(text)) {
      if (*number <= 0 || *number > kLocalWorldSizeMax) {
        return Error{fmt::format("a node cannot have {} workers", *number), where,
                     "give a number from 1 to " + std::to_string(kLocalWorldSizeMax)};
      }
      job_.local_world_size = *number;
      return {};
    }
    if (text == "cpu") {
      return count_of("cpu", host_.usable_cpus(), "usable CPUs");
    }
    if (text == "gpu" || text == "auto") {
      const GpuCount gpus = host_.count_gpus();
      if (gpus.count > 0) {
        return count_of(text, gpus.count, "visible GPUs");
      }
      if (text == "auto") {
        return count_of(text, host_.usable_cpus(), "usable CPUs and no visible GPU");
      }
      return Error{"no GPU was found: " + gpus.how, where, "give a number, or auto"};
    }
    if (text == "xpu") {
      return Error{"ddprun cannot count or use XPUs", where, "give a number, cpu, gpu or auto"};
    }
    return Error{in_quotes(text) + " is not a number of workers", where,
                 "give a number, cpu, gpu or auto"};
  }

  /// Large hosts have more processors than a node may have workers; the count is cut then.
  Result<void> count_of(const std::string& text, int count, const std::string& what) {
    DDP_CHECK(count > 0, "a node that counts its devices has at least one");
    job_.local_world_size = std::min(count, kLocalWorldSizeMax);
    launch_.notices.push_back(
        {LogLevel::info, fmt::format("nproc-per-node {}: {} workers, since this node has {} {}",
                                     text, job_.local_world_size, count, what)});
    return {};
  }

  /// After nodes(): where the nodes meet depends on how many there are.
  Result<void> rendezvous() {
    DDP_CHECK(job_.max_nodes > 0 && job_.job_id.empty(), "the nodes are counted, the job unnamed");
    const auto notice = resolve_rendezvous(options_, environment_, host_.new_job_id, job_);
    if (!notice) {
      return notice.error();
    }
    if (*notice) {
      launch_.notices.push_back(**notice);
    }
    return {};
  }

  /// A name that ddprun does not compare is a typo: the difference that it was meant for would be
  /// reported, or end the job.
  Result<void> same_env() {
    job_.require_same_env = options_.require_same_env;
    for (const std::string& name : split_commas(options_.same_env_ignore)) {
      if (!names_a_fact(name)) {
        return Error{in_quotes(name) + " is never compared", at("same-env-ignore"),
                     "name ddprun, program, arguments, python, torch, driver, cuda, nccl, gpu, or "
                     "a variable or option (--on) that the table of differences shows"};
      }
      job_.same_env_ignore.push_back(name);
    }
    return {};
  }

  static std::vector<int> ranks_in(const StreamMap& map) {
    std::vector<int> ranks;
    if (const auto* by_rank = std::get_if<std::map<int, Streams>>(&map.value)) {
      for (const auto& [rank, streams] : *by_rank) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

  /// torchrun passes over local ranks that a node does not have, and one command line may serve
  /// nodes of several sizes: so the job runs. Its user reads why no file or no line comes.
  void warn_of_missing(const std::vector<int>& ranks, std::string_view option) {
    std::string missing;
    for (const int rank : ranks) {
      if (rank >= job_.local_world_size) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      }
    }
    if (!missing.empty() && !job_.witness) {
      launch_.notices.push_back(
          {LogLevel::warning,
           fmt::format(
               "{}: no worker here has local rank {}; the local ranks of this node are 0 to {}",
               at(option), missing, job_.local_world_size - 1)});
    }
  }

  /// Variables without an option are torchrun's: its own agents read them from the environment.
  Result<void> output() {
    LogSpec& logs = job_.logs;
    logs.dir = options_.log_dir;
    const auto redirects = parse_stream_map(options_.redirects, at("redirects"));
    const auto tee = parse_stream_map(options_.tee, at("tee"));
    const auto ranks = parse_ranks(options_.local_ranks_filter, at("local-ranks-filter"));
    if (!redirects) {
      return redirects.error();
    }
    if (!tee) {
      return tee.error();
    }
    if (!ranks) {
      return ranks.error();
    }
    warn_of_missing(ranks_in(*redirects), "redirects");
    warn_of_missing(ranks_in(*tee), "tee");
    warn_of_missing(*ranks, "local-ranks-filter");
    logs.redirects = *redirects;
    logs.tee = *tee;
    logs.local_ranks_filter = *ranks;
    logs.fold = options_.no_fold ? Folding::never
                : options_.fold  ? Folding::always
                                 : Folding::on_terminals;
    logs.stdout_filters = split_filters(options_.duplicate_stdout_filters);
    logs.stderr_filters = split_filters(options_.duplicate_stderr_filters);
    if (const char* prefix = environment_(env::kLogLinePrefixTemplate); prefix && *prefix) {
      logs.line_prefix_template = prefix;
    }
    job_.event_log = options_.event_log;
    job_.error_file = variable(env::kErrorFile);
    // torchrun compares with this very text.
    if (variable(env::kEnableFileTimer) == "1") {
      job_.timer_file = variable(env::kTimerFile);
    }
    // PyTorch's own only warns, too: who sets the port has a probe, which silence would alarm.
    if (const char* port = environment_(env::kHealthCheckPort)) {
      launch_.notices.push_back(
          {LogLevel::warning,
           fmt::format("{} '{}': no health check server is started, here as under torchrun; "
                       "--metrics-port {} has /healthz",
                       env::kHealthCheckPort, port, port)});
    }
    return resolve_metrics(options_, job_);
  }

  Result<void> ending() {
    auto notices = resolve_ending(options_, environment_, host_.unix_time, job_);
    if (!notices) {
      return notices.error();
    }
    launch_.notices.insert(launch_.notices.end(), notices->begin(), notices->end());
    return {};
  }

  /// What is executed, by torchrun's rules for --module, --no-python and --run-path. A program that
  /// does not end in .py differs: torchrun gives it to Python (docs/command-line.md).
  Result<void> program() {
    DDP_CHECK(options_.witness || !options_.program.empty(), "the command line names a program");
    if (options_.witness) {
      return options_.program.empty()
                 ? Result<void>()
                 : Error{"a witness runs no workers, but a program was named: " +
                             in_quotes(options_.program.front()),
                         at("witness"), "leave one of the two out"};
    }
    // torchrun looks at --run-path first, so it wins over the other two.
    ProgramRequest request;
    request.name = options_.program.front();
    request.arguments.assign(options_.program.begin() + 1, options_.program.end());
    request.python = variable(env::kPythonExec);
    const char* const path = environment_("PATH");
    request.search_path = path == nullptr ? "/bin:/usr/bin" : path;  // as execvp
    request.beside_dir = host_.executable_dir;
    request.current_dir = host_.current_dir;
    if (options_.run_path) {
      request.kind = ProgramKind::python_script;
    } else if (options_.module && options_.no_python) {
      return Error{"--module asks for Python and --no-python for none", at("no-python"),
                   "leave one of them out"};
    } else if (options_.module) {
      request.kind = ProgramKind::python_module;
    } else if (!options_.no_python && request.name.ends_with(".py")) {
      request.kind = ProgramKind::python_script;
    }
    if (options_.legacy_launch && !options_.use_env) {
      if (options_.no_python && !options_.run_path) {
        return Error{"a program that does not run under Python gets no --local-rank",
                     at("legacy-launch"), "give --use-env too, or leave out --no-python"};
      }
      request.local_rank_argument = true;
    }
    auto program = host_.find_program(request);
    if (!program) {
      return program.error();
    }
    job_.program = *std::move(program);
    DDP_CHECK(!job_.program.path.empty(), "a program that was found has a path");
    return warm_workers(request.kind);
  }

  /// A warm worker is a Python process that has done its imports before an attempt needs it.
  Result<void> warm_workers(ProgramKind kind) {
    if (!options_.warm_workers) {
      return options_.warm_imports.empty()
                 ? Result<void>()
                 : Error{"without --warm-workers it has no effect", at("warm-imports"),
                         "add --warm-workers, or leave it out"};
    }
    if (kind == ProgramKind::executable) {
      return Error{in_quotes(options_.program.front()) +
                       " does not run under Python, and only Python has imports to do in advance",
                   at("warm-workers"), "leave it out, or name a script (.py) or a module (-m)"};
    }
    for (const std::string& name : split_commas(options_.warm_imports)) {
      if (!is_module_name(name)) {
        return Error{in_quotes(name) + " is not the name of a package", at("warm-imports"),
                     "write names as in Python's import, with commas between: torchvision,pandas"};
      }
      job_.warm_imports.push_back(name);
    }
    // Of several nodes, one can be lost or join: that costs no restart, and begins an attempt.
    if (job_.max_restarts == 0 && job_.max_nodes == 1) {
      launch_.notices.push_back({LogLevel::warning, at("warm-workers") +
                                                        " has no effect: without --max-restarts "
                                                        "this job has no second attempt"});
      return {};
    }
    job_.warm_workers = true;
    return {};
  }

  const Options& options_;
  const Environment& environment_;
  const Host& host_;
  Launch launch_;
  JobSpec& job_;
};

}  // namespace

Result<Launch> resolve(const Options& options, const Environment& environment, const Host& host) {
  const auto scheduled = with_scheduler_defaults(options, environment, host);
  return scheduled ? Resolver(*scheduled, environment, host).run() : scheduled.error();
}

}  // namespace ddprun
