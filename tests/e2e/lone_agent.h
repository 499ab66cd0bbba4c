// LoneAgent: one ddprun with a place, words and variables of its own, where Cluster's equal nodes
// do not do: other endpoints for one job, a network of its own, an /etc/hosts of its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace ddprun::test {

struct LoneAgent {
  std::string endpoint = {};
  std::vector<std::string> options = {};
  std::vector<std::string> program = {"true"};
  std::map<std::string, std::string> environment = {};
  std::string network_namespace = {};  ///< a name of NetNamespaces; empty: ours
  std::string host_name = {};          ///< needs root; empty: ours
  std::string hosts_file = {};         ///< seen as /etc/hosts; needs root; empty: ours
};

/// Starts it.
std::unique_ptr<ChildProcess> start(const LoneAgent& agent);

/// True, and said (WARN), where there can be no network namespaces: the test returns then.
bool no_namespaces();

/// A worker that runs this shell text.
std::vector<std::string> shell(const std::string& text);

/// True once something at this address and port (of the given network namespace) accepts.
bool listens(const std::string& address, int port, const std::string& network_namespace = {});

/// The last line of this text that begins with `prefix`, without it; empty when there is none.
std::string line_after(const std::string& text, const std::string& prefix);

}  // namespace ddprun::test
