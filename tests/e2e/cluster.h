// Cluster: a whole job as a user runs it: the built ddprun on several "nodes" of this machine, each
// with its own agent, all on the loopback interface or each in a network namespace with a host name
// of its own. Tests start it, hurt it, and look at what is left.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/net_namespaces.h"

namespace ddprun::test {

struct ClusterRequest {
  int nodes = 2;
  int workers_per_node = 2;
  /// Options of ddprun beside --nnodes, --nproc-per-node and --rdzv-endpoint, which the cluster
  /// gives; one that is named here again wins.
  std::vector<std::string> options = {};
  /// What the workers run, with its arguments.
  std::vector<std::string> program = {};
  std::map<std::string, std::string> environment = {};
  /// Nodes in namespaces (host names node0, node1, ...): ask NetNamespaces::unavailable() first.
  bool namespaces = false;
};

class Cluster {
 public:
  /// Makes the nodes; starts nothing.
  explicit Cluster(ClusterRequest request);
  ~Cluster();
  Cluster(Cluster&&) = delete;
  Cluster& operator=(Cluster&&) = delete;

  /// Starts ddprun on one node; what ran there before is killed. `more` options go to this node
  /// only.
  ChildProcess& start(int node, const std::vector<std::string>& more = {});
  void start_all();

  /// The ddprun of a node that was started: what a shell sees (the guardian).
  ChildProcess& node(int node);
  /// The agent: the guardian's child. 0 when there is none.
  [[nodiscard]] pid_t agent(int node) const;
  /// The worker with this global rank, on whatever node; waits until there is one. 0: in vain.
  [[nodiscard]] pid_t worker(int rank, std::chrono::milliseconds timeout = kPatience) const;
  /// The worker that is not `old`: the one of the next attempt.
  [[nodiscard]] pid_t new_worker(int rank, pid_t old,
                                 std::chrono::milliseconds timeout = kPatience) const;
  /// Off the network, and back (namespaces only).
  void cut(int node) { network_->cut(node); }
  void heal(int node) { network_->heal(node); }

  /// Exit codes of all nodes, in order, as ChildProcess::exit_code() has them.
  std::vector<int> exit_codes(std::chrono::milliseconds timeout = kPatience);
  /// Processes of this job that run, in whatever session and under whatever parent.
  [[nodiscard]] std::vector<pid_t> left_behind() const;
  /// host:port that the nodes meet at.
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  /// Whether any node's stdout or stderr holds the text.
  [[nodiscard]] bool said(const std::string& text) const;
  [[nodiscard]] bool wait_for(const std::string& text,
                              std::chrono::milliseconds timeout = kPatience) const;
  /// What all nodes said, for INFO().
  [[nodiscard]] std::string report() const;

 private:
  ClusterRequest request_;
  std::string mark_;
  std::unique_ptr<NetNamespaces> network_;
  std::string endpoint_;
  std::vector<std::unique_ptr<ChildProcess>> nodes_;
};

}  // namespace ddprun::test
