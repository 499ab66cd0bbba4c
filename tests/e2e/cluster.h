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

#include "tests/e2e/lone_agent.h"
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
  /// Seen as /etc/hosts by every node; needs root; empty: ours.
  std::string hosts_file = {};
  /// Nodes in namespaces (host names node0, node1, ...): ask NetNamespaces::unavailable() first.
  bool namespaces = false;
  NetNamespaces::Family family = NetNamespaces::Family::ipv4;
};

/// What one node has apart from the others: added to the request's, or in place of it where named.
struct NodeOwn {
  std::vector<std::string> options = {};
  std::vector<std::string> program = {};
  std::map<std::string, std::string> environment = {};
  std::string endpoint = {};
};

class Cluster {
 public:
  /// Makes the nodes; starts nothing.
  explicit Cluster(ClusterRequest request);
  ~Cluster();
  Cluster(Cluster&&) = delete;
  Cluster& operator=(Cluster&&) = delete;

  /// Starts ddprun on one node; what ran there before is killed.
  ChildProcess& start(int node, const NodeOwn& own = {});
  void start_all();
  /// The first `nodes` of them (0: all), the others once the first hosts the endpoint: so node 0
  /// has the coordinator and the first ranks. False when it does not come to listen.
  [[nodiscard]] bool start_in_order(int nodes = 0);

  /// The ddprun of a node that was started: what a shell sees (the guardian).
  ChildProcess& node(int node);
  /// The agent: the guardian's child. 0 when there is none.
  [[nodiscard]] pid_t agent(int node) const;
  /// The worker with this global rank, on whatever node; waits until there is one. 0: in vain.
  [[nodiscard]] pid_t worker(int rank, std::chrono::milliseconds timeout = kPatience) const;
  /// Waits for it as worker() does, and throws in vain: a signal to 0 would reach the test itself.
  void signal_worker(int rank, int number) const;
  /// The workers of one node.
  [[nodiscard]] std::vector<pid_t> workers_of(int node) const;
  /// Namespaces only.
  NetNamespaces& network() { return *network_; }

  /// Exit codes of all nodes, in order, as ChildProcess::exit_code() has them.
  std::vector<int> exit_codes(std::chrono::milliseconds timeout = kPatience);
  /// Processes of this job that run, in whatever session and under whatever parent.
  [[nodiscard]] std::vector<pid_t> left_behind() const;
  /// host:port that the nodes meet at.
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  /// What all nodes wrote to stdout.
  [[nodiscard]] std::string out() const;
  /// Every one of these nodes writes this to stdout, before it ends.
  [[nodiscard]] bool all_say(const std::vector<int>& nodes, const std::string& text);
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
