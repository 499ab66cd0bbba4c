// Job: a real coordinator and real clients on loopback, all on one io_context.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/coordinator_client.h"
#include "rendezvous/control/listener.h"
#include "tests/unit/control/loop.h"

namespace ddprun {

struct Agent : CoordinatorOrders {
  std::optional<World> world;
  int assignments = 0;
  std::optional<AttemptNumber> told_to_stop;
  std::string stop_reason;
  std::optional<JobSummary> summary;
  std::optional<Error> refused;
  std::optional<Error> gone;
  std::optional<RendezvousStatus> table;
  std::unique_ptr<CoordinatorClient> client;

 private:
  void assign(const message::Assigned& order) override {
    world = order.world;
    ++assignments;
  }
  void stop(const message::Stop& order) override {
    told_to_stop = order.attempt;
    stop_reason = order.reason;
  }
  void finish(const JobSummary& told) override { summary = told; }
  void waiting(const RendezvousStatus& told) override { table = told; }
  void rejected(const Error& why) override { refused = why; }
  void lost(const CoordinatorLost& how) override { gone = how.why; }
};

inline Fd connect_to(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  Fd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int rc = -1;
  if (v6) {
    sockaddr_in6 a{};
    a.sin6_family = AF_INET6;
    a.sin6_port = htons(port);
    ::inet_pton(AF_INET6, address.c_str(), &a.sin6_addr);
    rc = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a);
  } else {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &a.sin_addr);
    rc = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a);
  }
  REQUIRE(rc == 0);
  return fd;
}

inline void write_all(const Fd& fd, std::string_view bytes) {
  REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

/// True once the other side has closed; drops what it sent before.
inline bool closed_by_peer(const Fd& fd) {
  char bytes[256];
  for (;;) {
    const ssize_t n = ::recv(fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0) {
      return n == 0 || errno == ECONNRESET;
    }
  }
}

class Job {
 public:
  explicit Job(int min_nodes, int max_nodes, int max_restarts = 3) {
    options.job_id = "job";
    options.min_nodes = min_nodes;
    options.max_nodes = max_nodes;
    options.max_restarts = max_restarts;
    options.last_call_timeout = 50ms;
  }
  void open() {
    Listening listening = listen_at("127.0.0.1", 0);
    REQUIRE(listening.socket);
    serve(std::move(listening.socket));
  }
  void serve(Fd listener) {
    port = port_of(listener);
    if (!hooks.open_store) {
      hooks.open_store = [this](AttemptNumber attempt, const std::vector<std::string>&) {
        stores.push_back(attempt);
        return Result<std::uint16_t>(static_cast<std::uint16_t>(1000 + number(attempt)));
      };
    }
    coordinator = Coordinator::create(loop.io, std::move(listener), options, hooks, loop.log);
  }

  NodeDescription describe(const std::string& host) const {
    NodeDescription d;
    d.host_name = host;
    d.role = "default";
    d.job_id = "job";
    d.min_nodes = options.min_nodes;
    d.max_nodes = options.max_nodes;
    d.max_restarts = options.max_restarts;
    d.program = "train";
    return d;
  }
  std::unique_ptr<Agent> start(NodeDescription node, Fd fd) {
    auto agent = std::make_unique<Agent>();
    agent->client = CoordinatorClient::create(loop.io, std::move(fd), std::nullopt, std::move(node),
                                              options.heartbeat_timeout, *agent, loop.log);
    return agent;
  }
  std::unique_ptr<Agent> remote(const std::string& host) {
    return start(describe(host), connect_to("127.0.0.1", port));
  }
  std::unique_ptr<Agent> local(const std::string& host) {
    auto fd = coordinator->connect_local();
    REQUIRE(fd.has_value());
    return start(describe(host), std::move(*fd));
  }

  Loop loop;
  CoordinatorOptions options;
  CoordinatorHooks hooks;
  std::uint16_t port = 0;
  std::vector<AttemptNumber> stores;
  std::unique_ptr<Coordinator> coordinator;
};

}  // namespace ddprun
