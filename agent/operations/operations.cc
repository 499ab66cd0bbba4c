#include "agent/operations/operations.h"

#include <spdlog/logger.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/host/host.h"
#include "agent/operations/agent_socket.h"
#include "agent/operations/http_server.h"
#include "agent/operations/kubeflow_reporter.h"
#include "agent/operations/log_tail_text.h"
#include "agent/operations/prometheus_text.h"
#include "agent/operations/status_json.h"
#include "agent/operations/status_page.h"
#include "agent/process/worker_environment.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Answer = std::function<void(HttpAnswer)>;

/// Connections that wait to be taken.
constexpr int kBacklog = 128;
constexpr const char* kPlainText = "text/plain; charset=utf-8";

/// Plain text: Kubernetes shows the beginning of a body beside the probe that failed.
HttpAnswer health_answer(const JobSnapshot& snapshot) {
  const bool healthy = snapshot.unhealthy.empty();
  return {healthy ? 200 : 503, (healthy ? "ok" : snapshot.unhealthy) + "\n", kPlainText};
}

/// 409: the request is right, but the workers are not in a state for it.
HttpAnswer stacks_answer(const Result<std::vector<WorkerStack>>& taken) {
  if (!taken) {
    return http_error(409, taken.error().sentence());
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const WorkerStack& stack : *taken) {
    nlohmann::ordered_json row = {
        {"rank", stack.rank}, {"pid", stack.pid}, {"frames", stack.frames}};
    row["file"] = nullptr;
    if (!stack.file.empty()) {
      row["file"] = stack.file;
    }
    row["file_from"] = stack.from;
    rows.push_back(std::move(row));
  }
  const nlohmann::ordered_json body = {{"stacks", rows}};
  return {200, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

HttpAnswer wrong_method(const std::string& sentence, const char* allowed) {
  HttpAnswer answer = http_error(405, sentence);
  answer.allow = allowed;
  return answer;
}

/// What is asked of the job, by the name that ddpctl has for it; none: nothing is.
std::optional<int> signal_for(std::string_view path) {
  return path == "/drain"  ? std::optional(SIGUSR2)
         : path == "/save" ? std::optional(SIGUSR1)
         : path == "/stop" ? std::optional(SIGTERM)
                           : std::nullopt;
}

/// For the log: a person of this host, or of which other.
std::string whence(const HttpRequest& request) {
  return request.from.empty() ? "" : " at " + request.from;
}

}  // namespace

struct Operations::Impl {
  Impl(asio::io_context& the_io, OperationsHooks the_hooks, std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        hooks(std::move(the_hooks)),
        log(std::move(the_log)),
        remote(io, Fd(), nullptr, [this](const HttpRequest& request, const Answer& answer) {
          on_trusted(request, answer);
        }) {}

  // ---- what can be asked --------------------------------------------------------------------

  /// What may be looked at over both; none: it is nothing of that.
  [[nodiscard]] std::optional<HttpAnswer> page(const std::string& path) const {
    if (path == "/") {
      return HttpAnswer{200, std::string(status_page()), "text/html; charset=utf-8"};
    }
    if (path == "/status.json") {
      return HttpAnswer{200, status_json(hooks.snapshot())};
    }
    if (path == "/log.txt") {
      return HttpAnswer{200, log_tail_text(hooks.output(), kLogTailLinesMax), kPlainText};
    }
    if (path == "/metrics") {
      return HttpAnswer{200, prometheus_text(hooks.snapshot()), kPrometheusType};
    }
    return path == "/healthz" ? std::optional(health_answer(hooks.snapshot())) : std::nullopt;
  }

  /// True: it was one of these.
  bool look(const HttpRequest& request, const Answer& answer) const {
    auto found = page(request.path);
    if (found) {
      const bool reads = request.method == "GET" || request.method == "HEAD";
      answer(reads ? std::move(*found)
                   : wrong_method(request.path + " is read by GET", "GET, HEAD"));
    }
    return found.has_value();
  }

  /// Whoever reaches the port may look. That is why nothing here changes or delays a worker.
  void on_tcp(const HttpRequest& request, const Answer& answer) {
    if (!look(request, answer)) {
      answer(http_error(404, "there are /, /log.txt, /metrics, /healthz and /status.json"));
    }
  }

  /// Neither gets more power by it: the agent's own user and root may send the signals, and a
  /// holder of the job's token may join the job and end it.
  void on_trusted(const HttpRequest& request, const Answer& answer) {
    if (look(request, answer)) {
      return;
    }
    if (request.path == "/stacks") {
      take_stacks(request, answer);
    } else if (request.path == "/drain" && names_other_node(request)) {
      drain(request, answer);
    } else if (const auto signal = signal_for(request.path)) {
      ask(*signal, request, answer);
    } else {
      answer(http_error(
          404, "this agent knows no " + request.path + "; use the ddpctl of its own version"));
    }
  }

  /// It changes the job, so no GET does it: what only looks must never be able to.
  void ask(int signal, const HttpRequest& request, const Answer& answer) {
    if (request.method != "POST") {
      answer(wrong_method(request.path + " is asked for by POST", "POST"));
      return;
    }
    log->info("ddpctl{} asks for what {} asks for", whence(request), signal_name(signal));
    // First: the agent may end by it, and at once.
    answer({202, R"({"asked":")" + request.path.substr(1) + "\"}\n"});
    hooks.ask(signal);
  }

  /// The name of this node is there to confirm which one is meant. From another machine nothing is
  /// meant by itself, and the coordinator may know several nodes of this name.
  [[nodiscard]] static bool names_other_node(const HttpRequest& request) {
    return !request.from.empty() || (!request.body.empty() && request.body != host_name());
  }

  /// The coordinator knows the nodes, and passes it on to the one that is meant.
  void drain(const HttpRequest& request, const Answer& answer) {
    if (request.method != "POST") {
      answer(wrong_method(request.path + " is asked for by POST", "POST"));
    } else if (request.body.empty()) {
      answer(http_error(400, "say which node is to leave: ddpctl drain NODE"));
    } else {
      log->info("ddpctl{} asks that node {} leaves", whence(request), printable(request.body));
      drains.push_back(answer);
      hooks.drain(request.body);
    }
  }

  /// A look that takes a moment of each worker's time.
  void take_stacks(const HttpRequest& request, const Answer& answer) {
    std::optional<int> rank;
    if (const auto text = query_value(request.query, "rank")) {
      rank = parse_number<int>(*text);
      if (!rank) {
        answer(http_error(400, "rank is a number"));
        return;
      }
    }
    hooks.stacks(rank, [answer](const Result<std::vector<WorkerStack>>& taken) {
      answer(stacks_answer(taken));
    });
  }

  // ---- where it is asked --------------------------------------------------------------------

  /// A job must not end because a directory is full or belongs to somebody else.
  void open_local(const std::string& job_id) {
    auto opened =
        AgentSocket::open(agent_socket_dirs(::geteuid(), std::getenv("XDG_RUNTIME_DIR")), job_id);
    if (!opened) {
      log->warn("ddpctl will not find this agent: {}", opened.error().sentence());
      return;
    }
    socket.emplace(std::move(*opened));
    local = std::make_unique<HttpServer>(
        io, socket->take_listener(), peer_is_own_user,
        [this](const HttpRequest& request, const Answer& answer) { on_trusted(request, answer); });
  }

  /// The user has asked for it: a job whose probe would fail from the beginning does not start.
  Result<void> open_tcp(const MetricsPlace& place) {
    Fd listener;
    int failed = net::bind_at(place.address, place.port, listener);
    if (failed == 0 && ::listen(listener.get(), kBacklog) != 0) {
      failed = errno;
    }
    if (failed != 0) {
      return errno_error(failed, "cannot listen there",
                         "--metrics-port " + to_text(Endpoint{place.address, place.port}),
                         "give a free port (0: any) and a numeric address of this host");
    }
    // Before the server takes the descriptor: which port the system has chosen.
    const auto own = net::local_end(listener.get());
    tcp = std::make_unique<HttpServer>(
        io, std::move(listener), nullptr,
        [this](const HttpRequest& request, const Answer& answer) { on_tcp(request, answer); });
    if (place.port == 0) {
      // At any LOGLEVEL: nobody can find out the port otherwise.
      log->critical("metrics are at http://{}/metrics", own.text());
    }
    return {};
  }

  asio::io_context& io;
  OperationsHooks hooks;
  std::shared_ptr<spdlog::logger> log;
  std::optional<AgentSocket> socket;
  std::unique_ptr<HttpServer> local;
  std::unique_ptr<HttpServer> tcp;
  std::deque<Answer> drains;  ///< those that wait for the coordinator's answer, the oldest first
  std::unique_ptr<KubeflowReporter> kubeflow;  ///< null: it is not there
  HttpServer remote;                           ///< of connections that the control port hands over
};

Operations::Operations(asio::io_context& io, OperationsHooks hooks,
                       std::shared_ptr<spdlog::logger> log)
    : impl_(std::make_unique<Impl>(io, std::move(hooks), std::move(log))) {}

Operations::~Operations() = default;

/// The coordinator answers in the order of the questions, so no answer needs a number. A person who
/// has gone meanwhile leaves an Answer that does nothing, and keeps its place.
void Operations::drain_answered(const std::string& why_not) {
  if (!impl_->drains.empty()) {
    const Answer answer = std::move(impl_->drains.front());
    impl_->drains.pop_front();
    answer(why_not.empty() ? HttpAnswer{202, "{\"asked\":\"drain\"}\n"} : http_error(409, why_not));
  }
}

void Operations::adopt(Channel connection, const std::string& said) {
  impl_->remote.adopt(std::move(connection), said);
}

Result<void> Operations::open(const std::string& job_id,
                              const std::optional<MetricsPlace>& metrics) {
  impl_->open_local(job_id);
  impl_->kubeflow =
      KubeflowReporter::open(impl_->io, own_environment(), impl_->hooks.snapshot, impl_->log);
  return metrics ? impl_->open_tcp(*metrics) : Result<void>();
}

}  // namespace ddprun
