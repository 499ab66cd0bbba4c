#include "launcher/resolve.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <csignal>

#include "launcher/numbers.h"
#include "launcher/rdzv_conf.h"
#include "launcher/text_lists.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

constexpr int kDefaultPort = 29400;        // torchrun's, for c10d
constexpr int kDefaultMasterPort = 29500;  // torchrun's, for static
constexpr double kSecondsMax = 1e9;        // about 30 years; keeps milliseconds far from overflow

std::string quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
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
    constexpr std::array<Step, 11> kSteps{
        &Resolver::log_level, &Resolver::accepted, &Resolver::nodes,    &Resolver::restarts,
        &Resolver::workers,   &Resolver::meeting,  &Resolver::timeouts, &Resolver::output,
        &Resolver::signals,   &Resolver::shutdown, &Resolver::program};
    for (const Step step : kSteps) {
      if (const auto done = (this->*step)(); !done) {
        return done.error();
      }
    }
    return std::move(launch_);
  }

 private:
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
      return Error{quoted(variable(env::kLogLevel)) + " is not a log level", env::kLogLevel,
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
      return Error{"there is no " + quoted(options_.logs_specs) +
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
      return Error{quoted(text) + " is neither N nor MIN:MAX", at("nnodes"),
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
      return Error{quoted(text) + " is above " + std::to_string(kNodesMax) + " nodes", at("nnodes"),
                   "give a smaller maximum"};
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
    return Error{quoted(text) + " is not a number of workers", where,
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

  /// Backend, endpoint, job id, and who hosts.
  Result<void> meeting() {
    const auto conf = parse_rdzv_conf(options_.rdzv_conf, at("rdzv-conf"));
    if (!conf) {
      return conf.error();
    }
    conf_ = *conf;
    job_.is_host = conf_.is_host;
    job_.local_addr = options_.local_addr;
    const std::string backend = options_.rdzv_backend.value_or("");
    if (const auto known = check_backend(backend); !known) {
      return known.error();
    }
    if (options_.node_rank && *options_.node_rank < 0) {
      return Error{"the rank of a node cannot be " + std::to_string(*options_.node_rank),
                   at("node-rank"), "give 0 or more"};
    }
    job_.node_rank = options_.node_rank;
    job_.job_id = options_.rdzv_id;
    const bool endpoint = !options_.rdzv_endpoint.empty();
    // As the newest torchrun: one node that names no place to meet needs none.
    const bool alone =
        backend != "c10d" && !endpoint && !options_.master_port && job_.max_nodes == 1;
    if (options_.standalone || alone) {
      return meet_nobody(alone && !options_.standalone);
    }
    // Unlike torchrun, an endpoint alone means c10d: that is what all who give one want.
    const bool dynamic = backend == "c10d" || (backend.empty() && endpoint);
    if (const auto checked = check_job_id(); !checked) {
      return checked.error();
    }
    return dynamic ? meet_c10d() : meet_static();
  }

  Result<void> check_backend(const std::string& backend) const {
    if (backend.starts_with("etcd")) {
      return Error{"ddprun does not meet through etcd", at("rdzv-backend"),
                   "use c10d with --rdzv-endpoint HOST:PORT, which needs no other server"};
    }
    if (!backend.empty() && backend != "c10d" && backend != "static") {
      return Error{quoted(backend) + " is not a rendezvous backend", at("rdzv-backend"),
                   "give c10d or static"};
    }
    return {};
  }

  Result<void> check_job_id() const {
    const std::string& id = options_.rdzv_id;
    if (id.empty() || id.size() > kJobIdBytesMax || id.find('/') != std::string::npos ||
        id.find('\n') != std::string::npos) {
      return Error{quoted(id) + " cannot name a job", at("rdzv-id"),
                   "give 1 to " + std::to_string(kJobIdBytesMax) +
                       " characters without a slash: it names a directory of logs"};
    }
    return {};
  }

  /// `unasked`: no --standalone was given, so a job id that was is kept.
  Result<void> meet_nobody(bool unasked) {
    job_.backend = RendezvousBackend::c10d;
    job_.endpoint = Endpoint{"localhost", 0};
    job_.is_host = true;
    if (unasked && options_.rdzv_id != Options{}.rdzv_id) {
      return check_job_id();
    }
    job_.job_id = host_.new_job_id();
    if (!unasked) {
      launch_.notices.push_back({LogLevel::info,
                                 "standalone: --rdzv-backend c10d "
                                 "--rdzv-endpoint localhost:0 --rdzv-id " +
                                     job_.job_id});
    }
    return {};
  }

  Result<void> meet_c10d() {
    job_.backend = RendezvousBackend::c10d;
    const auto endpoint = parse_endpoint(options_.rdzv_endpoint, kDefaultPort);
    if (!endpoint) {
      return endpoint.error();
    }
    job_.endpoint = *endpoint;
    return check_port_0(at("rdzv-endpoint"));
  }

  Result<void> meet_static() {
    job_.backend = RendezvousBackend::static_ranks;
    job_.min_nodes = job_.max_nodes;  // static waits for the maximum, as in torchrun
    const int rank = options_.node_rank.value_or(0);
    if (rank >= job_.max_nodes) {
      return Error{"rank " + std::to_string(rank) + " is not one of " +
                       std::to_string(job_.max_nodes) + " nodes, which are counted from 0",
                   at("node-rank"), "give 0 to " + std::to_string(job_.max_nodes - 1)};
    }
    job_.node_rank = rank;
    job_.is_host = rank == 0;
    if (!options_.rdzv_endpoint.empty()) {
      const auto endpoint = parse_endpoint(options_.rdzv_endpoint, -1);
      if (!endpoint) {
        return endpoint.error();
      }
      job_.endpoint = *endpoint;
      return check_port_0(at("rdzv-endpoint"));
    }
    const int port = options_.master_port.value_or(kDefaultMasterPort);
    if (port < 0 || port > 65535) {
      return Error{std::to_string(port) + " is not a port", at("master-port"),
                   "give a number from 0 to 65535"};
    }
    const auto endpoint = parse_endpoint(options_.master_addr, port);
    if (!endpoint || endpoint->port != port) {
      return Error{quoted(options_.master_addr) + " is not a host name or address",
                   at("master-addr"), "give a host alone, and its port by --master-port"};
    }
    job_.endpoint = *endpoint;
    return check_port_0(at("master-port"));
  }

  /// Port 0, "any free port", is a well-known way to say that a node is alone; it is no place
  /// where two can meet.
  Result<void> check_port_0(const std::string& where) {
    if (job_.endpoint.port != 0) {
      return {};
    }
    if (job_.max_nodes > 1) {
      return Error{"port 0 means any free port, which the other nodes could not know", where,
                   "give a port from 1 to 65535"};
    }
    job_.is_host = true;
    return {};
  }

  Result<void> timeouts() {
    const bool is_static = job_.backend == RendezvousBackend::static_ranks;
    job_.join_timeout = is_static ? conf_.timeout.value_or(std::chrono::seconds(900))
                                  : conf_.join_timeout.value_or(std::chrono::seconds(600));
    if (conf_.last_call_timeout) {
      job_.last_call_timeout = *conf_.last_call_timeout;
    }
    // Who tuned torchrun's keep-alive meant the time after which a silent node is lost.
    if (conf_.keep_alive_interval || conf_.keep_alive_max_attempt) {
      job_.heartbeat_timeout = conf_.keep_alive_interval.value_or(std::chrono::seconds(5)) *
                               static_cast<std::int64_t>(conf_.keep_alive_max_attempt.value_or(3));
    }
    const auto replace = [&](milliseconds& value, const std::optional<double>& seconds,
                             std::string_view name) -> Result<void> {
      if (!seconds) {
        return {};
      }
      if (!(*seconds >= 0.001 && *seconds <= kSecondsMax)) {
        return Error{
            "the time must be above 0 and below " + std::to_string(long(kSecondsMax)) + " seconds",
            at(name), "give a number of seconds such as 3 or 0.5"};
      }
      value = milliseconds(std::llround(*seconds * 1000));
      return {};
    };
    if (const auto done = replace(job_.join_timeout, options_.join_timeout_seconds, "join-timeout");
        !done) {
      return done.error();
    }
    return replace(job_.heartbeat_timeout, options_.heartbeat_timeout_seconds, "heartbeat-timeout");
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
    logs.stdout_filters = split_filters(options_.duplicate_stdout_filters);
    logs.stderr_filters = split_filters(options_.duplicate_stderr_filters);
    if (const char* prefix = environment_(env::kLogLinePrefixTemplate)) {
      logs.line_prefix_template = prefix;
    }
    job_.error_file = variable(env::kErrorFile);
    return {};
  }

  Result<void> signals() {
    const std::string& text = options_.signals_to_handle;
    job_.signals_to_handle_text = text;
    for (const std::string& name : split_commas(text)) {
      const int number = host_.signal_number(name.c_str());
      if (number <= 0) {
        // torchrun takes lists written for other systems; so do we.
        launch_.notices.push_back({LogLevel::warning, at("signals-to-handle") +
                                                          ": there is no signal " + quoted(name) +
                                                          " here; it is left out"});
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
        return Error{quoted(text) + " is not a whole number of seconds", where,
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

  Result<void> program() {
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
    auto program = host_.find_program(request);
    if (!program) {
      return program.error();
    }
    job_.program = *std::move(program);
    return {};
  }

  const Options& options_;
  const Environment& environment_;
  const Host& host_;
  Launch launch_;
  JobSpec& job_;
  RdzvConf conf_;
};

}  // namespace

Result<Launch> resolve(const Options& options, const Environment& environment, const Host& host) {
  return Resolver(options, environment, host).run();
}

}  // namespace ddprun
