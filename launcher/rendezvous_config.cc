#include "launcher/rendezvous_config.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "launcher/kubernetes_config.h"
#include "launcher/list_options.h"
#include "launcher/python_numbers.h"
#include "launcher/rdzv_conf.h"
#include "launcher/rendezvous_timeouts.h"
#include "launcher/scheduler/scheduler_rank.h"
#include "launcher/service_options.h"
#include "rendezvous/base/text.h"
#include "rendezvous/base/utf8.h"

namespace ddprun {
namespace {

/// Only digits and dots: no host has such a name (RFC 1123, section 2.1).
bool looks_like_ipv4(std::string_view text) {
  return text.find('.') != std::string_view::npos &&
         text.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_ipv4(const std::string& text) {
  in_addr ignored{};
  return ::inet_pton(AF_INET, text.c_str(), &ignored) == 1;
}

constexpr int kDefaultPort = 29400;        // torchrun's, for c10d
constexpr int kDefaultMasterPort = 29500;  // torchrun's, for static
constexpr int kDefaultEtcdPort = 2379;     // etcd's, for its clients
constexpr int kDefaultApiPort = 443;       // the API server's, as seen from a pod
constexpr int kDefaultProxyPort = 8001;    // kubectl proxy's

/// Where and how the nodes meet, which torchrun decides in several places. The table in
/// docs/command-line.md ("Where the nodes meet") has the first in short.
class RendezvousResolver {
 public:
  RendezvousResolver(const Options& options, const Environment& environment,
                     const std::function<std::string()>& new_job_id, JobSpec& job)
      : options_(options), environment_(environment), new_job_id_(new_job_id), job_(job) {}

  Result<std::optional<Notice>> run() {
    if (const auto met = place(); !met) {
      return met.error();
    }
    if (const auto timed = resolve_timeouts(options_, conf_, job_); !timed) {
      return timed.error();
    }
    return notice_;
  }

 private:
  [[nodiscard]] std::string at(std::string_view name) const { return origin(options_, name); }
  [[nodiscard]] std::optional<SchedulerRank> scheduled_rank() const {
    return options_.no_scheduler ? std::nullopt : scheduler_rank(environment_);
  }

  /// With the option or the variable that had it.
  [[nodiscard]] Error bad_endpoint(const Error& bad) const {
    return {bad.what, at("rdzv-endpoint") + ", " + bad.where, bad.todo};
  }

  Result<Endpoint> read_endpoint(const std::string& text, int default_port) const {
    const auto endpoint = parse_endpoint(text, default_port);
    // torchrun's etcd takes none either. What stands before it may be a password: it is not shown.
    if (text.find('@') != std::string::npos) {
      return Error{"an endpoint has a user in it", at("rdzv-endpoint"),
                   fmt::format("write HOST:PORT, and give etcd's user in the environment, as "
                               "{}=NAME:PASSWORD",
                               kEtcdUserVariable)};
    }
    if (!endpoint) {
      return bad_endpoint(endpoint.error());
    }
    if (endpoint->host.size() > kHostBytesMax) {
      return Error{fmt::format("no host has a name of {} characters", endpoint->host.size()),
                   at("rdzv-endpoint"), "give a name or an address as HOST:PORT"};
    }
    return *endpoint;
  }

  /// Backend, endpoint, job id, and who hosts.
  Result<void> place() {
    const auto conf = parse_rdzv_conf(options_.rdzv_conf, at("rdzv-conf"));
    if (!conf) {
      return conf.error();
    }
    conf_ = *conf;
    job_.is_host = conf_.is_host;
    job_.local_addr = options_.local_addr;
    if (!job_.local_addr.empty() && !is_host(job_.local_addr)) {
      return Error{
          in_quotes(job_.local_addr) + " is not a host name or address", at("local-addr"),
          "give the name or address by which the other nodes reach this one, without a port"};
    }
    if (looks_like_ipv4(job_.local_addr) && !is_ipv4(job_.local_addr)) {
      return Error{in_quotes(job_.local_addr) + " is not an IPv4 address", at("local-addr"),
                   "give four numbers from 0 to 255"};
    }
    const std::string backend = options_.rdzv_backend.value_or("");
    // --standalone replaces backend, endpoint and id, as in torchrun: what they say is not checked.
    if (const auto known = check_backend(backend); !known && !options_.standalone) {
      return known.error();
    }
    if (options_.node_rank && *options_.node_rank < 0) {
      return Error{"the rank of a node cannot be " + std::to_string(*options_.node_rank),
                   at("node-rank"), "give 0 or more"};
    }
    job_.node_rank = options_.node_rank;
    job_.job_id = options_.rdzv_id;
    const bool endpoint = !options_.rdzv_endpoint.empty();
    // As in the newest torchrun, one node without an endpoint needs no place to meet. So it is
    // under c10d, too: at its default port two jobs of one machine would meet (complaint I-5).
    const bool by_service = backend.starts_with("etcd") || backend == "kubernetes";
    const bool alone = !endpoint && !by_service && job_.max_nodes == 1 &&
                       conf_.is_host.value_or(true) && (backend == "c10d" || !options_.master_port);
    if (options_.witness && (!endpoint || options_.standalone || backend == "static")) {
      return Error{"a witness has no use without other nodes", at("witness"),
                   "give it the --rdzv-endpoint of the job, and not the static backend"};
    }
    if (options_.witness && by_service) {
      return Error{"a witness votes, and with " + backend + " no node does", at("witness"),
                   "leave it out: the loss of all nodes but one is survived without"};
    }
    job_.witness = options_.witness;
    if (options_.standalone || alone) {
      return meet_nobody(alone && !options_.standalone);
    }
    // Unlike torchrun, an endpoint without a backend means c10d. Under static, every node without a
    // --node-rank would have rank 0, and each would wait by itself.
    const bool dynamic = backend == "c10d" || (backend.empty() && endpoint);
    if (const auto checked = check_job_id(); !checked) {
      return checked.error();
    }
    if (by_service) {
      if (const auto read = check_service_options(options_, conf_, at("rdzv-conf")); !read) {
        return read.error();
      }
      return backend == "kubernetes" ? meet_kubernetes() : meet_etcd();
    }
    return dynamic ? meet_c10d() : meet_static();
  }

  Result<void> check_backend(const std::string& backend) const {
    // Given and empty is a mistake in torchrun, too. It calls etcd by two names, for two of its
    // own modules.
    if (options_.rdzv_backend && backend != "c10d" && backend != "static" && backend != "etcd" &&
        backend != "etcd-v2" && backend != "kubernetes") {
      return Error{in_quotes(backend) + " is not a rendezvous backend", at("rdzv-backend"),
                   "give c10d, static, etcd or kubernetes"};
    }
    return {};
  }

  /// The id becomes a part of a directory's name and a field of log lines.
  Result<void> check_job_id() const {
    const std::string& id = options_.rdzv_id;
    if (id.empty() || id.size() > kJobIdBytesMax || id.find('/') != std::string::npos ||
        id.find('\n') != std::string::npos || utf8_prefix_length(id) != id.size()) {
      return Error{
          in_quotes(id) + " cannot name a job", at("rdzv-id"),
          fmt::format("give 1 to {} bytes of UTF-8 without a slash or a new line: it names "
                      "a directory of logs",
                      kJobIdBytesMax)};
    }
    return {};
  }

  /// `unasked`: no --standalone was given, so a job id that was is kept.
  Result<void> meet_nobody(bool unasked) {
    if (job_.min_nodes > 1) {
      return Error{fmt::format("a job of one node alone cannot have the {} nodes of {}",
                               job_.min_nodes, at("nnodes")),
                   at("standalone"), "leave one of the two out"};
    }
    job_.max_nodes = 1;  // nobody else can know the port: there is no last call to wait for
    job_.backend = RendezvousBackend::c10d;
    job_.endpoint = Endpoint{"localhost", 0};
    job_.is_host = true;
    if (unasked && (options_.rdzv_id != Options{}.rdzv_id || options_.rdzv_backend == "c10d")) {
      return check_job_id();
    }
    job_.job_id = new_job_id_();
    if (!unasked) {
      notice_ = Notice{
          LogLevel::info,
          "standalone: --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id " + job_.job_id};
    }
    return {};
  }

  /// The first endpoint is where a new job begins. At the others agents of the job listen, so a
  /// port there must be known to all nodes.
  Result<void> meet_c10d() {
    // A wish for the order of the nodes, not a claim: a launcher may give every agent rank 0.
    job_.backend = RendezvousBackend::c10d;
    if (const auto read = read_endpoints(kDefaultPort); !read) {
      return read.error();
    }
    return check_port_0(at("rdzv-endpoint"));
  }

  /// The endpoints are members of etcd, and every node joins by itself.
  Result<void> meet_etcd() {
    job_.backend = RendezvousBackend::etcd;
    if (options_.rdzv_endpoint.empty()) {
      return Error{"the etcd backend needs to know where etcd is", at("rdzv-backend"),
                   "give its members as --rdzv-endpoint HOST:2379,..."};
    }
    if (const auto named = check_named("etcd"); !named) {
      return named.error();
    }
    if (const char* const user = environment_(kEtcdUserVariable); user != nullptr) {
      const std::string_view text = user;
      if (utf8_prefix_length(text) < text.size()) {
        return Error{
            std::string(kEtcdUserVariable) + " is no UTF-8, as etcd's names and passwords are",
            "the environment", "write it as NAME:PASSWORD in UTF-8"};
      }
      const std::size_t colon = text.find(':');
      if (colon == std::string_view::npos || colon == 0) {
        return Error{std::string(kEtcdUserVariable) + " is no name with a password",
                     "the environment", "write it as NAME:PASSWORD"};
      }
      job_.etcd_user = text.substr(0, colon);
      job_.etcd_password = text.substr(colon + 1);
    }
    if (conf_.https == true) {
      job_.service_certificates = conf_.certificates;
    } else if (!conf_.https && conf_.certificates != TlsFiles{}) {
      return Error{"files of certificates are given, but without a protocol it is plain text",
                   at("rdzv-conf"), "add protocol=https, or leave the files out"};
    }
    if (const auto read = read_endpoints(kDefaultEtcdPort); !read) {
      return read.error();
    }
    if (job_.endpoint.port == 0) {
      return Error{"port 0 is no port of etcd", at("rdzv-endpoint"),
                   "give its client port, 2379 by default"};
    }
    return {};
  }

  /// A service serves many jobs.
  Result<void> check_named(const std::string& service) {
    if (job_.job_id == Options{}.rdzv_id) {
      return Error{"many jobs may use one " + service + ", and this one has no name",
                   at("rdzv-backend"),
                   "give each job an --rdzv-id of its own, the same on all of its nodes"};
    }
    job_.is_host.reset();  // for the node that hosts an endpoint; here the service does
    return {};
  }

  /// The endpoint is the API server, which a pod knows.
  Result<void> meet_kubernetes() {
    job_.backend = RendezvousBackend::kubernetes;
    if (const auto named = check_named("namespace of Kubernetes"); !named) {
      return named.error();
    }
    if (const auto spoken = speak_to_kubernetes(conf_, at("rdzv-conf"), job_); !spoken) {
      return spoken.error();
    }
    if (options_.rdzv_endpoint.empty()) {
      if (!job_.service_certificates) {
        return Error{"in plain text only kubectl proxy answers", at("rdzv-conf"),
                     "give its address as --rdzv-endpoint 127.0.0.1:8001, or leave out "
                     "protocol=http"};
      }
      const auto server = kubernetes_server(environment_, at("rdzv-backend"));
      if (!server) {
        return server.error();
      }
      job_.endpoint = *server;
      take_order_hint();
      return {};
    }
    const int port = job_.service_certificates ? kDefaultApiPort : kDefaultProxyPort;
    if (const auto read = read_endpoints(port); !read) {
      return read.error();
    }
    if (job_.endpoint.port == 0 || !job_.more_endpoints.empty()) {
      return Error{in_quotes(options_.rdzv_endpoint) + " is not one address of an API server",
                   at("rdzv-endpoint"), "give HOST:PORT, or leave it out in a pod"};
    }
    return {};
  }

  void take_order_hint() {
    if (const auto scheduled = scheduled_rank()) {
      job_.order_hint = scheduled->rank;
    }
  }

  /// At least one, into the job.
  Result<void> read_endpoints(int default_port) {
    take_order_hint();
    std::vector<Endpoint> endpoints;
    const std::vector<std::string> texts = split_commas(options_.rdzv_endpoint);
    // Most often a variable of a job script that is not set: a node that it stands for is missing.
    if (!texts.empty() && texts.size() != parts_of(options_.rdzv_endpoint, ',').size()) {
      return Error{"an endpoint of " + in_quotes(options_.rdzv_endpoint) + " is empty",
                   at("rdzv-endpoint"), "write HOST:PORT between the commas"};
    }
    for (const std::string& text : texts) {
      const auto endpoint = read_endpoint(text, default_port);
      if (!endpoint) {
        return endpoint.error();
      }
      if (std::find(endpoints.begin(), endpoints.end(), *endpoint) != endpoints.end()) {
        return Error{in_quotes(text) + " is named twice", at("rdzv-endpoint"),
                     "name each endpoint once"};
      }
      endpoints.push_back(*endpoint);
    }
    // Commas and blanks: with the default each node would host a job of its own.
    if (endpoints.empty() && !options_.rdzv_endpoint.empty()) {
      return Error{in_quotes(options_.rdzv_endpoint) + " names no host", at("rdzv-endpoint"),
                   "write HOST:PORT, or leave it out"};
    }
    if (endpoints.empty()) {
      endpoints.push_back(*parse_endpoint("", default_port));
    }
    job_.endpoint = endpoints.front();
    job_.more_endpoints.assign(endpoints.begin() + 1, endpoints.end());
    for (const Endpoint& one : job_.more_endpoints) {
      if (one.port == 0) {
        return Error{"port 0 means any free port, which the other nodes could not know",
                     at("rdzv-endpoint"), "give a port from 1 to 65535"};
      }
    }
    return {};
  }

  /// 0 as in torchrun, unless a scheduler has started one agent for each node of the job: with rank
  /// 0 each of them would host the endpoint and wait by itself.
  int scheduled_static_rank() {
    const auto scheduled = scheduled_rank();
    if (options_.node_rank || !scheduled || job_.max_nodes == 1 ||
        scheduled->size != job_.max_nodes) {
      return 0;
    }
    notice_ = Notice{LogLevel::info,
                     fmt::format("node rank {}, as {} says", scheduled->rank, scheduled->variable)};
    return scheduled->rank;
  }

  /// torchrun's static backend: the ranks are given, the node with rank 0 hosts, and nobody joins
  /// later. The endpoint must name its port, since torchrun has no default for it there.
  Result<void> meet_static() {
    job_.backend = RendezvousBackend::static_ranks;
    job_.min_nodes = job_.max_nodes;  // static waits for the maximum, as in torchrun
    const int rank = options_.node_rank.value_or(scheduled_static_rank());
    if (rank >= job_.max_nodes) {
      return Error{fmt::format("rank {} is not one of {} nodes, which are counted from 0", rank,
                               job_.max_nodes),
                   at("node-rank"), "give 0 to " + std::to_string(job_.max_nodes - 1)};
    }
    job_.node_rank = rank;
    job_.is_host = rank == 0;
    if (!options_.rdzv_endpoint.empty()) {
      const auto endpoint = read_endpoint(options_.rdzv_endpoint, -1);
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
    if (!endpoint || !is_host(options_.master_addr)) {
      return Error{in_quotes(options_.master_addr) + " is not a host name or address",
                   at("master-addr"), "give only a host, and its port as --master-port"};
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

  const Options& options_;
  const Environment& environment_;
  const std::function<std::string()>& new_job_id_;
  JobSpec& job_;
  RdzvConf conf_;
  std::optional<Notice> notice_;
};

}  // namespace

Result<std::optional<Notice>> resolve_rendezvous(const Options& options,
                                                 const Environment& environment,
                                                 const std::function<std::string()>& new_job_id,
                                                 JobSpec& job) {
  return RendezvousResolver(options, environment, new_job_id, job).run();
}

}  // namespace ddprun
