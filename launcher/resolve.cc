#include "launcher/resolve.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>

#include "agent/host/compared_variables.h"
#include "launcher/list_options.h"
#include "launcher/python_numbers.h"
#include "launcher/rendezvous_config.h"
#include "launcher/restart_rules.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/contract/environment.h"
#include "rendezvous/membership/node_description.h"

namespace ddprun {
namespace {

/// Of a top-level package.
bool is_module_name(std::string_view name) {
  const auto in_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c > 0x7f; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), in_name);
}

/// The options one theme after the other; each step fills its part of the launch.
class Resolver {
 public:
  Resolver(const Options& options, const Environment& environment, const Host& host)
      : options_(options), environment_(environment), host_(host), job_(launch_.job) {}

  Result<Launch> run() {
    using Step = Result<void> (Resolver::*)();
    // The order decides which of several mistakes is told. The program comes last: it is the only
    // one that looks at the file system.
    constexpr std::array<Step, 13> kSteps{
        &Resolver::log_level, &Resolver::accepted,   &Resolver::nodes,     &Resolver::restarts,
        &Resolver::workers,   &Resolver::rendezvous, &Resolver::same_env,  &Resolver::output,
        &Resolver::signals,   &Resolver::shutdown,   &Resolver::departure, &Resolver::hangs,
        &Resolver::program};
    for (const Step step : kSteps) {
      if (const auto done = (this->*step)(); !done) {
        return done.error();
      }
    }
    check_spec();
    return std::move(launch_);
  }

 private:
  /// What every step has seen to, so that nobody behind us asks again.
  void check_spec() const {
    DDP_CHECK(1 <= job_.min_nodes && job_.min_nodes <= job_.max_nodes, "MIN:MAX is a range");
    DDP_CHECK(job_.max_restarts >= 0, "a budget is not negative");
    DDP_CHECK(job_.heartbeat_timeout.count() > 0, "a silence is noticed some day");
    DDP_CHECK(job_.shutdown_timeout.count() >= 0, "time runs forwards");
    DDP_CHECK(job_.witness == job_.program.path.empty(), "all but witnesses run a program");
    DDP_CHECK(job_.witness || job_.local_world_size > 0, "and have workers");
  }

  [[nodiscard]] std::string at(std::string_view name) const { return origin(options_, name); }
  [[nodiscard]] std::string variable(const char* name) const {
    const char* const value = environment_(name);
    return value == nullptr ? std::string() : std::string(value);
  }

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

  /// Options without an effect are still checked as torchrun does; what we cannot do is refused,
  /// never passed over in silence.
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
      return Error{"a job of " + std::to_string(*least) + " nodes cannot run", at("nnodes"),
                   "give at least 1"};
    }
    if (*least > *most) {
      return Error{"the minimum of " + std::to_string(*least) + " nodes is above the maximum of " +
                       std::to_string(*most),
                   at("nnodes"), "write it as MIN:MAX"};
    }
    if (*most > kNodesMax) {
      return Error{in_quotes(text) + " is above " + std::to_string(kNodesMax) + " nodes",
                   at("nnodes"), "give a smaller maximum"};
    }
    job_.min_nodes = *least;
    job_.max_nodes = *most;
    return {};
  }

  Result<void> restarts() {
    if (options_.max_restarts < 0) {
      return Error{"the number of restarts cannot be " + std::to_string(options_.max_restarts),
                   at("max-restarts"), "give 0 or more"};
    }
    job_.max_restarts = options_.max_restarts;
    RestartRules& rules = job_.restarts;
    if (!options_.restart_window.empty()) {
      const auto window = parse_restart_window(options_.restart_window, at("restart-window"));
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
    auto timeouts = parse_hang_timeout(options_.hang_timeout, at("hang-timeout"));
    if (!timeouts) {
      return timeouts.error();
    }
    job_.hang_timeouts = *timeouts;
    return {};
  }

  Result<void> workers() {
    job_.role = options_.role;
    job_.virtual_local_rank = options_.virtual_local_rank;
    const std::string& text = options_.nproc_per_node;
    const std::string where = at("nproc-per-node");
    if (const auto number = read_int(text)) {
      if (*number <= 0 || *number > kLocalWorldSizeMax) {
        return Error{"a node cannot have " + std::to_string(*number) + " workers", where,
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

  Result<void> count_of(const std::string& text, int count, const std::string& what) {
    job_.local_world_size = std::min(count, kLocalWorldSizeMax);
    launch_.notices.push_back({LogLevel::info, "nproc-per-node " + text + ": " +
                                                   std::to_string(job_.local_world_size) +
                                                   " workers, since this node has " +
                                                   std::to_string(count) + " " + what});
    return {};
  }

  Result<void> rendezvous() {
    const Result<std::optional<Notice>> notice =
        resolve_rendezvous(options_, environment_, host_.new_job_id, job_);
    if (!notice) {
      return notice.error();
    }
    if (*notice) {
      launch_.notices.push_back(**notice);
    }
    return {};
  }

  Result<void> same_env() {
    job_.require_same_env = options_.require_same_env;
    for (const std::string& name : split_commas(options_.same_env_ignore)) {
      if (!names_a_fact(name)) {
        return Error{in_quotes(name) + " is never compared", at("same-env-ignore"),
                     "name one of ddprun, program, python, torch, driver, cuda, nccl and gpu, or a "
                     "variable that the table of differences shows"};
      }
      job_.same_env_ignore.push_back(name);
    }
    return {};
  }

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
    logs.redirects = *redirects;
    logs.tee = *tee;
    logs.local_ranks_filter = *ranks;
    logs.fold = options_.no_fold ? Folding::never
                : options_.fold  ? Folding::always
                                 : Folding::on_terminals;
    logs.stdout_filters = split_filters(options_.duplicate_stdout_filters);
    logs.stderr_filters = split_filters(options_.duplicate_stderr_filters);
    if (const char* prefix = environment_(env::kLogLinePrefixTemplate)) {
      logs.line_prefix_template = prefix;
    }
    job_.event_log = options_.event_log;
    job_.error_file = variable(env::kErrorFile);
    if (variable(env::kEnableFileTimer) == "1") {
      job_.timer_file = variable(env::kTimerFile);
    }
    if (const char* port = environment_(env::kHealthCheckPort)) {
      launch_.notices.push_back({LogLevel::warning, std::string(env::kHealthCheckPort) + " '" +
                                                        port +
                                                        "': no health check server is started, "
                                                        "here as under torchrun; probe the "
                                                        "process itself"});
    }
    return {};
  }

  Result<void> signals() {
    const std::string& text = options_.signals_to_handle;
    job_.signals_to_handle_text = text;
    for (const std::string& name : split_commas(text)) {
      const int number = signal_number(name);
      if (number <= 0) {
        // torchrun takes lists written for other systems; so do we.
        launch_.notices.push_back(
            {LogLevel::warning, at("signals-to-handle") + ": there is no signal " +
                                    in_quotes(name) + " here; it is left out"});
        continue;
      }
      if (number == SIGKILL || number == SIGSTOP) {
        return Error{"no program can handle " + name, at("signals-to-handle"), "leave it out"};
      }
      auto& numbers = job_.signals_to_handle;
      if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
        numbers.push_back(number);
      }
    }
    return {};
  }

  Result<void> shutdown() {
    std::optional<int> seconds = options_.shutdown_timeout_seconds;
    std::string where = at("shutdown-timeout");
    const std::string text = variable(env::kShutdownTimeout);
    if (!seconds && !text.empty()) {
      where = env::kShutdownTimeout;
      seconds = read_int(text);
      if (!seconds) {
        return Error{in_quotes(text) + " is not a whole number of seconds", where,
                     "set it to a number such as 30"};
      }
    }
    if (seconds && *seconds < 0) {
      return Error{"the time cannot be " + std::to_string(*seconds) + " seconds", where,
                   "give 0 or more"};
    }
    if (seconds) {
      job_.shutdown_timeout = std::chrono::seconds(*seconds);
    }
    return {};
  }

  Result<void> departure() {
    const auto grace = read_time(options_.preempt_grace);
    if (!grace) {
      return Error{in_quotes(options_.preempt_grace) + " is no time", at("preempt-grace"),
                   "write for example 90s, 10m or 1h"};
    }
    job_.preempt_grace = std::chrono::duration_cast<std::chrono::milliseconds>(*grace);
    job_.scale_up = options_.scale_up == "now"     ? ScaleUp::now
                    : options_.scale_up == "never" ? ScaleUp::never
                                                   : ScaleUp::at_snapshot;
    const std::string_view text = options_.deadline;
    if (text.empty()) {
      return {};
    }
    if (!text.starts_with('@')) {
      const auto time = read_time(text);
      if (!time) {
        return Error{in_quotes(text) + " is no time", at("deadline"),
                     "write for example 230m, or @ and a Unix time"};
      }
      job_.deadline = std::chrono::duration_cast<std::chrono::milliseconds>(*time);
      return {};
    }
    std::int64_t unix_time = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + 1, end, unix_time);
    constexpr std::int64_t kUnixTimeMax = 100'000'000'000;
    if (read.ec != std::errc() || read.ptr != end || unix_time > kUnixTimeMax) {
      return Error{in_quotes(text) + " is no Unix time", at("deadline"),
                   "write @ and the seconds since 1970, as `date +%s` does"};
    }
    job_.deadline = std::chrono::seconds(unix_time) - host_.unix_time();
    if (*job_.deadline <= std::chrono::milliseconds(0)) {
      return Error{"the time " + in_quotes(text) + " is over", at("deadline"),
                   "give one that is to come"};
    }
    return {};
  }

  Result<void> program() {
    if (options_.witness) {
      return options_.program.empty()
                 ? Result<void>()
                 : Error{"a witness runs no workers, but a program was named: " +
                             in_quotes(options_.program.front()),
                         at("witness"), "leave one of the two out"};
    }
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
        return Error{"a program without Python is given no --local-rank", at("legacy-launch"),
                     "give --use-env too, or leave out --no-python"};
      }
      request.local_rank_argument = true;
    }
    auto program = host_.find_program(request);
    if (!program) {
      return program.error();
    }
    job_.program = *std::move(program);
    return warm_workers(request.kind);
  }

  Result<void> warm_workers(ProgramKind kind) {
    if (!options_.warm_workers) {
      return options_.warm_imports.empty()
                 ? Result<void>()
                 : Error{"there is no warm worker to import anything", at("warm-imports"),
                         "add --warm-workers, or leave it out"};
    }
    if (kind == ProgramKind::executable) {
      return Error{in_quotes(options_.program.front()) +
                       " is not run by Python, and only Python has imports to do ahead",
                   at("warm-workers"), "leave it out, or name a script (.py) or a module (-m)"};
    }
    for (const std::string& name : split_commas(options_.warm_imports)) {
      if (!is_module_name(name)) {
        return Error{in_quotes(name) + " is not the name of a package", at("warm-imports"),
                     "write names as in Python's import, with commas between: torchvision,pandas"};
      }
      job_.warm_imports.push_back(name);
    }
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
  return Resolver(options, environment, host).run();
}

}  // namespace ddprun
