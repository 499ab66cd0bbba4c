// Options: the command line, read as torchrun reads it (Python's argparse), and nothing decided
// yet: what the values mean together is resolve's business.
//
// One table (option_table.h) holds every option: its spellings, its PET_ variable, its type, its
// help.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"

namespace ddprun {

/// The value of an environment variable, or nullptr; getenv, or a test's map.
using Environment = std::function<const char*(const char* name)>;

/// The default values stand here, and only here. An optional tells "not given" from any value: a
/// time that is an empty text comes from a shell variable that is not set, and is a mistake.
struct Options {
  // The job.
  std::string nnodes = "1:1";
  std::string nproc_per_node = "1";
  int max_restarts = 0;
  std::optional<std::string> restart_window;
  std::string on;
  int no_progress_limit = 3;
  std::string scale_up = "at-snapshot";
  bool standalone = false;
  std::string role = "default";

  // Rendezvous.
  std::string rdzv_endpoint;
  std::optional<std::string> rdzv_backend;
  std::string rdzv_id = "none";
  std::string rdzv_conf;
  std::optional<int> node_rank;
  std::string master_addr = "127.0.0.1";
  std::optional<int> master_port;
  std::string local_addr;
  std::optional<double> join_timeout_seconds;
  std::optional<double> heartbeat_timeout_seconds;
  bool witness = false;
  std::optional<std::string> job_token_file;
  std::optional<std::string> tls_ca;
  std::optional<std::string> tls_cert;
  std::optional<std::string> tls_key;
  bool require_same_env = false;
  std::string same_env_ignore;
  bool no_scheduler = false;

  // Hosts by ssh.
  std::string hosts;
  std::string hostfile;
  std::string ssh_command = "ssh";
  std::string pass_env;
  int fan_out = 32;

  // What to run.
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool virtual_local_rank = false;
  bool legacy_launch = false;
  bool use_env = false;
  bool warm_workers = false;
  std::string warm_imports;

  // Output.
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string local_ranks_filter;
  std::string duplicate_stdout_filters;
  std::string duplicate_stderr_filters;
  bool no_fold = false;
  bool fold = false;
  std::string event_log;
  std::optional<int> metrics_port;
  std::string metrics_address = "127.0.0.1";

  // Ending.
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  std::optional<int> shutdown_timeout_seconds;
  std::string preempt_grace = "10m";
  std::optional<std::string> deadline;
  std::string preempt_notice;
  std::string on_notice = "save";
  std::optional<std::string> hang_timeout;

  // Accepted for compatibility with torchrun.
  double monitor_interval_seconds = 0.1;
  std::string start_method = "spawn";
  std::string event_log_handler = "null";
  std::string logs_specs;
  std::string numa_binding;

  bool help = false;
  bool version = false;
  /// The shell whose completion is asked for; empty: none is.
  std::string print_completion;

  /// The program as the user wrote it, and what follows it. Never empty unless witness, or
  /// only_shows_text().
  std::vector<std::string> program;

  /// Names ("nnodes") of the options that were given, by word or by PET_ variable.
  std::vector<std::string> given;
  /// Those of them whose value came from their PET_ variable.
  std::vector<std::string> from_environment;
  /// Of the others, those whose value a scheduler gave, and the variables that it came from.
  std::vector<std::pair<std::string, std::string>> from_scheduler;
};

/// Nothing is to be run: --help, --version or --print-completion.
bool only_shows_text(const Options& options);
/// How a message names the place a value came from: "--max-restarts", "PET_MAX_RESTARTS", or the
/// variable of a scheduler.
std::string origin(const Options& options, std::string_view name);
/// By a word, which somebody means; a variable may be there for all jobs of a site or in each pod.
bool is_on_command_line(const Options& options, std::string_view name);
/// Why the command line cannot be read, and the exit code that torchrun has for it: kExitUsage for
/// all that argparse refuses, kExitFailure for a flag's PET_ variable without a whole number in it.
struct UsageError {
  Error error;
  int exit_code;
};

/// `words` are the arguments without the name of the command. Reading stops at the first word that
/// is neither an option nor an option's value: it is the program, and all after it is the
/// program's own, whatever it looks like; one "--" just before the program is dropped. What only
/// shows a text ends the reading where it stands: nothing after it is looked at.
std::variant<Options, UsageError> parse_command_line(std::span<const char* const> words,
                                                     const Environment& environment);

}  // namespace ddprun
