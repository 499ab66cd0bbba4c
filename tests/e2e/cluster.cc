#include "tests/e2e/cluster.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "tests/support/free_port.h"
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
    network_ = std::make_unique<NetNamespaces>(request_.nodes);
    endpoint_ = network_->address(0) + ":29400";  // nobody else is in there
  } else {
    endpoint_ = "127.0.0.1:" + std::to_string(free_port());
  }
}

Cluster::~Cluster() {
  nodes_.clear();
  // Whatever a broken agent left must not disturb the next test.
  for (const pid_t pid : left_behind()) {
    ::kill(pid, SIGKILL);
  }
}

ChildProcess& Cluster::start(int node, const std::vector<std::string>& more) {
  ChildRequest child{.argv = {"ddprun", "--nnodes", std::to_string(request_.nodes),
                              "--nproc-per-node", std::to_string(request_.workers_per_node),
                              "--rdzv-endpoint", endpoint_}};
  append(child.argv, request_.options);
  append(child.argv, more);
  append(child.argv, request_.program);
  child.environment = request_.environment;
  child.environment[kMark] = mark_;
  if (network_) {
    child.network_namespace = network_->name(node);
    child.host_name = "node" + std::to_string(node);
  }
  auto& place = nodes_.at(static_cast<std::size_t>(node));
  place.reset();
  place = std::make_unique<ChildProcess>(child);
  return *place;
}

void Cluster::start_all() {
  for (int node = 0; node < request_.nodes; ++node) {
    start(node);
  }
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

pid_t Cluster::worker(int rank, std::chrono::milliseconds timeout) const {
  return new_worker(rank, 0, timeout);
}

pid_t Cluster::new_worker(int rank, pid_t old, std::chrono::milliseconds timeout) const {
  pid_t found = 0;
  const bool there = wait_until(
      [&] {
        for (const auto& node : nodes_) {
          found = node ? worker_of(node->pid(), rank) : 0;
          if (found != 0 && found != old) {
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
