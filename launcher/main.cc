// ddprun: reads argv and the environment, runs one agent, and turns its result into an exit code.
// options and resolve make all decisions on the way. A bad input ends in one sentence on stderr and
// in one of the codes of exit_status.h.
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/system/system_error.hpp>
#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "agent/agent.h"
#include "agent/host/gpus.h"
#include "agent/host/host.h"
#include "agent/output/summary.h"
#include "agent/process/descriptor_limit.h"
#include "agent/process/guardian.h"
#include "agent/process/service_notifier.h"
#include "agent/process/signals.h"
#include "launcher/completion.h"
#include "launcher/exit_status.h"
#include "launcher/help.h"
#include "launcher/hosts/hosts_plan.h"
#include "launcher/hosts/hosts_run.h"
#include "launcher/hosts/relay.h"
#include "launcher/hosts/remote_command.h"
#include "launcher/job_certificates.h"
#include "launcher/job_token_file.h"
#include "launcher/kubernetes_config.h"
#include "launcher/options.h"
#include "launcher/program.h"
#include "launcher/rendezvous_config.h"
#include "launcher/resolve.h"
#include "launcher/scheduler_defaults.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/base/standard_streams.h"
#include "rendezvous/base/text.h"
#include "rendezvous/base/usable_cpus.h"
#include "rendezvous/contract/environment.h"
#include "rendezvous/control/job_tls.h"
#include "rendezvous/tls/tls_context.h"
#include "rendezvous/tls/tls_self_check.h"

namespace {

using namespace ddprun;

/// Descriptors that an agent may come to have: its own, and as host of the endpoint and of the
/// store one for each node and for each of its workers. More are possible, and slower to get.
constexpr std::uint64_t kDescriptorsOfAgent = 1'024;
constexpr std::uint64_t kDescriptorsOfNode = 9;

/// A word of the command line may have 128 KiB (execve(2)), and a sentence may quote it twice, with
/// what to do behind it. Paths of a usual length stay whole.
constexpr std::size_t kWordBytesMax = 1'000;
constexpr std::size_t kSentenceBytesMax = 8'000;

/// The begin and the end of a text that is longer than `most`.
std::string cut_middle(const std::string& text, std::size_t most) {
  return text.size() <= most
             ? text
             : text.substr(0, most / 2) + "[...]" + text.substr(text.size() - most / 2);
}

/// What a person can read of a sentence: each word, then the whole, without their middles.
std::string readable(const std::string& sentence) {
  std::string words;
  for (std::size_t begin = 0; begin < sentence.size();) {
    const std::size_t end = std::min(sentence.find(' ', begin), sentence.size() - 1) + 1;
    words += cut_middle(sentence.substr(begin, end - begin), kWordBytesMax);
    begin = end;
  }
  return cut_middle(words, kSentenceBytesMax);
}

/// One line, also when the sentence quotes words with line breaks or terminal escapes in them.
int complain(const std::string& reason, int exit_code) {
  std::fprintf(stderr, "ddprun: %s\n", printable(readable(reason)).c_str());
  return exit_code;
}

/// For --help and --version. A full disk or a closed stdout must not end in success: a script may
/// go on with the empty output.
int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return complain(errno_error(errno, "cannot write", "stdout").sentence(), kExitFailure);
  }
  return kExitSuccess;
}

std::string text_asked_for(const Options& options) {
  if (options.help) {
    return help_text();
  }
  return options.version ? "ddprun " DDPRUN_VERSION "\n"
                         : completion_script(options.print_completion);
}

/// A random UUID, version 4.
std::string random_job_id() {
  return boost::uuids::to_string(boost::uuids::random_generator()());
}

/// This very binary, whatever argv[0] says: a shell that found ddprun on PATH puts the bare name
/// there. Empty where /proc is not mounted.
std::string executable() {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

std::string executable_dir() {
  const std::string path = executable();
  return path.substr(0, path.rfind('/'));
}

/// "." where the directory has been removed: then only absolute paths can still be found.
std::string current_dir() {
  std::array<char, PATH_MAX> path{};
  return ::getcwd(path.data(), path.size()) == nullptr ? "." : path.data();
}

/// The answers to what resolve() asks. All but the directories are looked up when it asks, because
/// some answers are slow: to count GPUs loads the driver's library.
Host this_host(const Environment& environment) {
  Host host;
  host.usable_cpus = [] { return usable_cpus().count; };
  host.count_gpus = [environment] { return count_gpus(environment(env::kCudaVisibleDevices)); };
  host.new_job_id = random_job_id;
  host.find_program = find_program;
  host.unix_time = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
  };
  host.read_file = read_named_file;
  host.full_host_name = full_host_name;
  host.is_loopback_name = is_loopback_name;
  host.executable_dir = executable_dir();
  host.current_dir = current_dir();
  return host;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::critical:
      return spdlog::level::critical;
  }
  return spdlog::level::warn;
}

/// The agent's own error file (TORCHELASTIC_ERROR_FILE), for the process that started it. Nothing
/// without a path or a failure. If it cannot be written, the exit code stays that of the job.
void leave_error_file(const std::string& path, const std::string& json) {
  if (path.empty() || json.empty()) {
    return;
  }
  if (const auto written = write_agent_error_file(path, json); !written) {
    complain(written.error().sentence(), kExitFailure);
  }
}

std::chrono::sys_time<std::chrono::microseconds> now_in_us() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

/// Runs in the agent's process, which the guardian made. The logger is made here, after the fork,
/// so that no two processes share one.
int agent_main(const Launch& launch) {
  auto log =
      std::make_shared<spdlog::logger>("ddprun", std::make_shared<spdlog::sinks::stderr_sink_st>());
  log->set_pattern("[ddprun] %v");
  log->set_level(spdlog_level(launch.log_level));
  for (const Notice& notice : launch.notices) {
    log->log(spdlog_level(notice.level), "{}", printable(notice.text));
  }
  JobSpec job = launch.job;
  // Workers get the limit as it was before (descriptor_limit.h).
  job.descriptor_limit = raise_descriptor_limit();
  const Result<JobSummary> summary = run_agent(job, log);
  const auto now = now_in_us();
  if (!summary) {
    leave_error_file(launch.job.error_file, agent_error_json(summary.error(), now));
    return complain(summary.error().sentence(), kExitFailure);
  }
  // Not through the logger: the summary has many lines and is shown at each log level.
  const std::string text = summary_text(*summary, launch.job.program.display_name);
  std::fwrite(text.data(), 1, text.size(), stderr);
  leave_error_file(launch.job.error_file, agent_error_json(*summary, now));
  return exit_code_of(summary->verdict);
}

/// Before any other static object of the program: to make those takes as long as the loader does,
/// and a signal that comes meanwhile would end an agent that others may count on already.
[[gnu::constructor(101)]] void hold_signals_from_the_start() {
  hold_early_signals();
}

/// Below /proc ddprun finds what its workers leave behind, and names their streams to them. One of
/// another PID namespace would show it strangers under its own number.
std::optional<Error> unusable_proc() {
  char target[32];
  const ssize_t size = ::readlink("/proc/self", target, sizeof target);
  if (size > 0 &&
      std::string_view(target, static_cast<std::size_t>(size)) == std::to_string(::getpid())) {
    return std::nullopt;
  }
  return Error{size > 0 ? "it is that of another PID namespace" : "it is not mounted", "/proc",
               "mount the one of this namespace (unshare --mount-proc; mount -t proc proc /proc)"};
}

/// Failures are values (Result) all over ddprun. The libraries below throw where the machine has no
/// memory, descriptors or threads left; that ends here, as one sentence and not as std::terminate.
int run_or_complain(const std::function<int()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return complain("out of memory: raise the limit (ulimit -v)", kExitFailure);
  } catch (const boost::system::system_error& error) {
    const bool files = error.code() == boost::system::errc::too_many_files_open;
    return complain(std::string("cannot continue: ") + error.what() +
                        (files ? ": raise the limit of open files (ulimit -n)" : ""),
                    kExitFailure);
  } catch (const std::exception& error) {
    return complain(std::string("cannot continue: ") + error.what(), kExitFailure);
  }
}

/// What lives until the end of a job: with a guardian. A library's failure ends in that process,
/// too.
int run_guarded(const std::function<int()>& life) {
  hold_without_limit();
  return run_under_guardian([&] { return run_or_complain(life); });
}

/// --hosts or --hostfile: one agent on each host, and none in this process.
int start_hosts(const Options& options, const Environment& environment) {
  auto token = job_token(options, environment, read_named_file);
  if (!token) {
    accept_early_signals();
    return complain(token.error().sentence(), kExitFailure);
  }
  // Who starts all agents and names the job at random knows that nobody else is to join, so its
  // agents get a secret. It goes with the other variables, on no command line.
  const bool is_named =
      std::find(options.given.begin(), options.given.end(), "rdzv-id") != options.given.end();
  if (*token || !is_named) {
    ::setenv(kJobTokenVariable, *token ? (*token)->secret().c_str() : random_job_id().c_str(), 1);
  }
  // Each host gets some of the variables: by name, so all of them are looked at.
  std::size_t variables = 0;
  while (::environ[variables] != nullptr) {
    ++variables;
  }
  const std::string path = executable();
  const auto plan = path.empty() ? Error{"it does not tell where ddprun lies", "/proc", "mount it"}
                                 : plan_hosts(options, environment, this_host(environment),
                                              Shell{path, {::environ, variables}});
  if (!plan) {
    accept_early_signals();
    return complain(plan.error().sentence(), kExitFailure);
  }
  return run_guarded([&] { return run_hosts(*plan); });
}

/// What this agent shows to others, and to the service that decides who leads. All files are read
/// now: a mistake in one is told before anything begins.
Result<void> read_credentials(const Options& options, const Environment& environment,
                              JobSpec& job) {
  auto token = job_token(options, environment, read_named_file);
  if (!token) {
    return token.error();
  }
  job.credentials.token = std::move(*token);
  // An option or a variable that is there counts, also in a job of one node: its port is open to
  // others, too.
  const auto files =
      job_certificates({options.tls_ca, options.tls_cert, options.tls_key}, environment,
                       [&options](std::string_view name) { return origin(options, name); });
  if (!files) {
    return files.error();
  }
  if (*files) {
    auto tls = TlsContext::make_mutual(**files);
    if (!tls) {
      return tls.error();
    }
    // Otherwise people would learn it from the log of another node.
    if (const auto fit = check_with_itself(*tls); !fit) {
      return fit.error();
    }
    job.credentials.tls = std::make_shared<JobTls>(std::move(*tls));
  }
  if (const auto read = read_service_account(read_named_file, job); !read) {
    return read.error();
  }
  if (job.service_certificates) {
    auto tls = TlsContext::make(*job.service_certificates);
    if (!tls) {
      return tls.error();
    }
    job.service_tls = std::move(*tls);
  }
  return {};
}

/// Signals are held until the agent can take them. What ends before an agent starts accepts them as
/// it begins to write, so that a stream that nobody reads holds up no Ctrl-C.
/// torchrun's exit codes: 2 for words that argparse refuses, 1 for all that is wrong after that.
int run(int argc, char** argv) {
  const Environment environment = [](const char* name) -> const char* { return std::getenv(name); };
  const std::span<const char* const> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  // On a host of --hosts. No option: nobody writes it, and what it takes comes from its stdin.
  if (words.size() == 1 && words.front() == kRelayWord) {
    return run_guarded(run_relay);
  }
  auto parsed = parse_command_line(words, environment);
  if (const auto* usage = std::get_if<UsageError>(&parsed)) {
    accept_early_signals();
    return complain(usage->error.sentence(), usage->exit_code);
  }
  const Options& options = std::get<Options>(parsed);
  if (only_shows_text(options)) {
    accept_early_signals();
    return print(text_asked_for(options));
  }
  if (const auto unusable = unusable_proc()) {
    accept_early_signals();
    return complain(unusable->sentence(), kExitFailure);
  }
  if (asks_for_hosts(options)) {
    return start_hosts(options, environment);
  }
  if (const auto alone = hosts_option_alone(options)) {
    accept_early_signals();
    return complain(alone->sentence(), kExitFailure);
  }
  if (const auto odd = odd_scheduler_number(options, environment)) {
    accept_early_signals();
    return complain(odd->sentence(), kExitUsage);
  }
  Result<Launch> launch = resolve(options, environment, this_host(environment));
  const Result<void> read =
      launch ? read_credentials(options, environment, launch->job) : launch.error();
  if (!read) {
    accept_early_signals();
    const char* const path = environment(env::kErrorFile);
    leave_error_file(path != nullptr ? path : "", agent_error_json(read.error(), now_in_us()));
    return complain(read.error().sentence(), kExitFailure);
  }
  // Workers need no secret of the agents, and many write their whole environment into logs.
  ::unsetenv(kJobTokenVariable);
  ::unsetenv(kEtcdUserVariable);
  // Here, since this process is the one that a service manager has started.
  launch->job.service_manager = take_service_manager();
  // Before the fork: agent and guardian share one table of descriptors, which grows slowly then.
  reserve_descriptors(kDescriptorsOfAgent +
                      kDescriptorsOfNode * static_cast<std::uint64_t>(launch->job.max_nodes));
  return run_guarded([&] { return agent_main(*launch); });
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  return run_or_complain([&] { return run(argc, argv); });
}
