// JobSpec: what this node was asked to do. The launcher makes it from the command line; all of it
// is checked by then, so nobody behind it needs to look for nonsense.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/hang/hang_detector.h"
#include "agent/notice/notice_source.h"
#include "agent/process/service_status.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/control/credentials.h"
#include "rendezvous/membership/expected_hosts.h"
#include "rendezvous/membership/restart_policy.h"
#include "rendezvous/membership/scale_up.h"
#include "rendezvous/tls/tls_context.h"

namespace ddprun {

enum class RendezvousBackend : std::uint8_t {
  c10d,
  static_ranks,
  etcd,        ///< the endpoints are members of an etcd cluster, which decides who coordinates
  kubernetes,  ///< the endpoint is an API server; a Lease there decides
};

/// Which standard streams of a worker an option speaks of; torchrun's Std values 0..3.
enum class Streams : std::uint8_t { none = 0, out = 1, err = 2, all = 3 };
constexpr bool has(Streams set, Streams one) {
  return (static_cast<int>(set) & static_cast<int>(one)) != 0;
}

/// `-r` and `-t`: one value for all local ranks, or a map in which unnamed ranks have none.
struct StreamMap {
  std::variant<Streams, std::map<int, Streams>> value = Streams::none;
  [[nodiscard]] Streams of(int local_rank) const {
    if (const auto* all = std::get_if<Streams>(&value)) {
      return *all;
    }
    const auto& map = std::get<std::map<int, Streams>>(value);
    const auto found = map.find(local_rank);
    return found == map.end() ? Streams::none : found->second;
  }
};

/// Where a line that several local ranks write at about the same time is shown once, with the
/// ranks.
enum class Folding : std::uint8_t { never, on_terminals, always };

struct LogSpec {
  /// --log-dir. Empty: a new directory under the temporary directory. "/dev/null": no files.
  std::string dir;
  StreamMap redirects;
  StreamMap tee;
  /// Local ranks shown on the console; empty means all.
  std::vector<int> local_ranks_filter;
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  /// TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE; none means "[<role><local_rank>]:".
  std::optional<std::string> line_prefix_template;
  /// Not where a template is given: programs read those prefixes.
  Folding fold = Folding::on_terminals;
};

/// What to execute: an absolute path, and the arguments after it. ${local_rank} and $local_rank in
/// an argument are replaced for each worker (Python's safe string.Template rules).
struct Program {
  std::string path;
  std::vector<std::string> arguments;
  std::string display_name;  ///< as the user wrote it; title of the failure report
  std::string argv0 = {};    ///< the program's own name for itself; empty: its path
};

/// --metrics-address and --metrics-port.
struct MetricsPlace {
  std::string address = "127.0.0.1";  ///< numeric
  std::uint16_t port = 0;             ///< 0: any free one
};

struct JobSpec {
  // The job: equal on every node.
  std::string job_id = {};
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  RestartRules restarts = {};
  ScaleUp scale_up = ScaleUp::at_snapshot;
  bool require_same_env = false;                  ///< differences between the nodes are an error
  std::vector<std::string> same_env_ignore = {};  ///< facts that are not compared (names_a_fact)

  // Rendezvous.
  RendezvousBackend backend = RendezvousBackend::c10d;
  /// Port 0: any free port (standalone).
  Endpoint endpoint = {};
  /// Others where agents of the job listen, so that a new one finds the coordinator.
  std::vector<Endpoint> more_endpoints = {};
  std::string etcd_user = {};  ///< empty: etcd asks for none
  std::string etcd_password = {};
  std::string kubernetes_namespace = {};
  std::string kubernetes_token_file = {};              ///< empty: no token is sent
  std::optional<TlsFiles> service_certificates = {};   ///< none: it is spoken to in plain text
  std::shared_ptr<const TlsContext> service_tls = {};  ///< of these files
  bool witness = false;               ///< no workers: a vote, and a coordinator where one is needed
  std::optional<bool> is_host = {};   ///< rdzv-conf is_host
  std::optional<int> node_rank = {};  ///< --node-rank where given
  /// A scheduler's place for this node (launcher/scheduler.h): a wish, --node-rank goes before it.
  std::optional<int> order_hint = {};
  std::string local_addr = {};  ///< --local-addr, may be empty
  ExpectedHosts expected = {};  ///< by a scheduler's list; may be empty
  /// --job-token-file and --tls-ca; without any whoever reaches the endpoint may join.
  Credentials credentials = {};
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};
  std::chrono::milliseconds heartbeat_timeout{3'000};

  // Workers of this node.
  int local_world_size = 1;
  Program program = {};
  std::string role = "default";
  bool virtual_local_rank = false;
  /// --warm-workers; the program is run by Python then.
  bool warm_workers = false;
  /// Packages to import ahead beside PyTorch's.
  std::vector<std::string> warm_imports = {};
  /// From the first signal to SIGKILL.
  std::chrono::milliseconds shutdown_timeout{30'000};
  /// From the order to save to the first signal, when the job is preempted.
  std::chrono::milliseconds preempt_grace{600'000};
  /// From the start of this agent; then it has the job preempted.
  std::optional<std::chrono::milliseconds> deadline = {};
  /// Who may announce that this machine goes.
  std::vector<NoticeSource> notice_sources = {};
  /// What an announcement leads to.
  NoticeResponse on_notice = NoticeResponse::save;
  /// --hang-timeout
  HangTimeouts hang_timeouts = {};
  /// Signals that end the job in order; numbers.
  std::vector<int> signals_to_handle = {};
  /// The names as given, for TORCHELASTIC_SIGNALS_TO_HANDLE.
  std::string signals_to_handle_text = {};

  /// Path of the file timers' FIFO (TORCHELASTIC_ENABLE_FILE_TIMER); empty: any new name. None: no
  /// file timers.
  std::optional<std::string> timer_file = {};

  /// --event-log: where the coordinator on this node writes what happens; empty: nowhere.
  std::string event_log = {};

  /// Where this agent serves metrics; none: nowhere.
  std::optional<MetricsPlace> metrics = {};

  LogSpec logs = {};
  /// The agent's own TORCHELASTIC_ERROR_FILE; empty when not set.
  std::string error_file = {};
  /// Who started this agent as a service, if anybody did.
  ServiceManager service_manager = {};
  /// Soft limit of descriptors that this process was started with, which workers get; 0: as is.
  std::uint64_t descriptor_limit = 0;
};

}  // namespace ddprun
