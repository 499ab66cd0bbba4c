#include "tests/e2e/cluster.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "tests/support/processes.h"

namespace ddprun::test {
namespace {

constexpr char kMark[] = "DDPRUN_TEST_MARK";

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

Cluster::Cluster(ClusterRequest request) : request_(std::move(request)) {
  static std::atomic<int> count{0};
  mark_ = "cluster-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
  nodes_.resize(static_cast<std::size_t>(request_.nodes));
  if (request_.namespaces) {
    network_ = std::make_unique<NetNamespaces>(request_.nodes, request_.family);
    endpoint_ = network_->endpoint(0, 29400);  // nobody else is in there
  } else {
    endpoint_ = local_endpoint();
  }
}

Cluster::~Cluster() {
  nodes_.clear();
  // Whatever a broken agent left must not disturb the next test.
  for (const pid_t pid : left_behind()) {
    ::kill(pid, SIGKILL);
  }
}

ChildProcess& Cluster::start(int node, const NodeOwn& own) {
  LoneAgent agent{.endpoint = own.endpoint.empty() ? endpoint_ : own.endpoint,
                  .options = {"--nnodes", std::to_string(request_.nodes), "--nproc-per-node",
                              std::to_string(request_.workers_per_node)},
                  .program = own.program.empty() ? request_.program : own.program,
                  .environment = own.environment,
                  .hosts_file = request_.hosts_file};
  append(agent.options, request_.options);
  append(agent.options, own.options);
  agent.environment.insert(request_.environment.begin(), request_.environment.end());
  agent.environment[kMark] = mark_;
  auto& place = nodes_.at(static_cast<std::size_t>(node));
  place.reset();
  place = test::start(network_ ? on_node(*network_, node, agent) : agent);
  return *place;
}

void Cluster::start_all() {
  for (int node = 0; node < request_.nodes; ++node) {
    start(node);
  }
}

bool Cluster::start_in_order(int nodes) {
  start(0);
  const std::string host = network_ ? network_->address(0) : "127.0.0.1";
  if (!listens(host, port_of(endpoint_), network_ ? network_->name(0) : "")) {
    return false;
  }
  for (int node = 1; node < (nodes == 0 ? request_.nodes : nodes); ++node) {
    start(node);
  }
  return true;
}

ChildProcess& Cluster::node(int node) {
  auto& started = nodes_.at(static_cast<std::size_t>(node));
  if (!started) {
    throw std::logic_error("node " + std::to_string(node) + " was not started");
  }
  return *started;
}

pid_t Cluster::agent(int node) const {
  for (const pid_t pid : descendants_of(nodes_.at(static_cast<std::size_t>(node))->pid())) {
    if (environment_of(pid, "RANK").empty()) {
      return pid;  // parents come first
    }
  }
  return 0;
}

void Cluster::signal_worker(int rank, int number) const {
  const pid_t pid = worker(rank);
  if (pid == 0) {
    throw std::runtime_error("no worker of rank " + std::to_string(rank) + "\n" + report());
  }
  ::kill(pid, number);
}

pid_t Cluster::worker(int rank, std::chrono::milliseconds timeout) const {
  pid_t found = 0;
  const bool there = wait_until(
      [&] {
        for (const auto& node : nodes_) {
          found = node ? worker_of(node->pid(), rank) : 0;
          if (found != 0) {
            return true;
          }
        }
        return false;
      },
      timeout);
  return there ? found : 0;
}

std::vector<int> Cluster::exit_codes(std::chrono::milliseconds timeout) {
  std::vector<int> codes;
  codes.reserve(nodes_.size());
  for (const auto& node : nodes_) {
    codes.push_back(node ? node->exit_code(timeout) : ChildProcess::kStillRuns);
  }
  return codes;
}

std::vector<pid_t> Cluster::left_behind() const {
  return processes_with(kMark, mark_);
}

std::vector<pid_t> Cluster::workers_of(int node) const {
  std::vector<pid_t> workers;
  for (const pid_t pid : descendants_of(nodes_.at(static_cast<std::size_t>(node))->pid())) {
    if (!environment_of(pid, "RANK").empty()) {
      workers.push_back(pid);
    }
  }
  return workers;
}

std::string Cluster::out() const {
  std::string text;
  for (const auto& node : nodes_) {
    text += node ? node->out() : "";
  }
  return text;
}

bool Cluster::all_say(const std::vector<int>& nodes, const std::string& text) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](int one) { return node(one).wait_for_out(text); });
}

bool Cluster::said(const std::string& text) const {
  for (const auto& node : nodes_) {
    if (node && (node->out().find(text) != std::string::npos ||
                 node->err().find(text) != std::string::npos)) {
      return true;
    }
  }
  return false;
}

bool Cluster::wait_for(const std::string& text, std::chrono::milliseconds timeout) const {
  return wait_until([&] { return said(text); }, timeout);
}

std::string Cluster::report() const {
  std::string text;
  for (const auto& node : nodes_) {
    text += node ? node->report() : "(not started)\n";
  }
  return text;
}

}  // namespace ddprun::test
