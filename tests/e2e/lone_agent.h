// LoneAgent: one ddprun with a place, words and variables of its own. Cluster starts its nodes by
// it; a test uses it by itself where equal nodes of one endpoint do not do.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/net_namespaces.h"

namespace ddprun::test {

struct LoneAgent {
  std::string endpoint = {};
  std::vector<std::string> options = {};
  std::vector<std::string> program = {"true"};
  std::map<std::string, std::string> environment = {};
  std::string network_namespace = {};  ///< a name of NetNamespaces; empty: ours
  std::string host_name = {};          ///< needs root; empty: ours
  std::string hosts_file = {};         ///< seen as /etc/hosts; needs root; empty: ours
  /// What it sees in place of other files, by their paths; needs root.
  std::map<std::string, std::string> files = {};
};

/// Starts it.
std::unique_ptr<ChildProcess> start(const LoneAgent& agent);

/// The agent as one of node `node` of the network, with the host name node<node>.
LoneAgent on_node(const NetNamespaces& network, int node, LoneAgent agent);

/// A loopback endpoint that nobody else uses.
std::string local_endpoint();
int port_of(const std::string& endpoint);

/// A worker that runs this shell text.
std::vector<std::string> shell(const std::string& text);

/// A worker that says its attempt, rank and world, and runs until the file is there.
std::vector<std::string> runs_until(const std::string& file);

/// True once something at this address and port (of the given network namespace) accepts.
bool listens(const std::string& address, int port, const std::string& network_namespace = {});

/// The last line of this text that begins with `prefix`, without it; empty when there is none.
std::string line_after(const std::string& text, const std::string& prefix);

bool contains(const std::string& text, const std::string& what);

/// The fingerprint of the final weights that rank 0 of `train` prints; empty without.
std::string weights_in(const std::string& out);

/// One line on stderr, which begins with ddprun's name.
void check_one_sentence(const std::string& err);

}  // namespace ddprun::test
