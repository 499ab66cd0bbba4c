#include "tests/support/net_namespaces.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/processes.h"

namespace ddprun::test {
namespace {

constexpr char kPrefix[] = "ddpt";
constexpr char kBridge[] = "bridge0";
constexpr char kOtherBridge[] = "bridge1";

/// Runs `ip` with these words; the text of its failure, empty when it worked.
std::string try_ip(const std::string& words) {
  std::istringstream in("ip " + words);
  std::vector<std::string> argv;
  for (std::string word; in >> word;) {
    argv.push_back(word);
  }
  const Finished ip = run({.argv = argv});
  return ip.exit_code == 0 ? "" : "ip " + words + ": " + ip.err;
}

void ip(const std::string& words) {
  const std::string failure = try_ip(words);
  if (!failure.empty()) {
    throw std::runtime_error(failure);
  }
}

/// Names are ddpt<pid>n<count>...: what belongs to a process that is gone is nobody's.
void remove_stale() {
  std::error_code ignored;
  std::vector<std::string> stale;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix)) {
      const int owner = std::atoi(name.c_str() + sizeof kPrefix - 1);
      if (owner > 0 && !process_runs(owner)) {
        stale.push_back(name);
      }
    }
  }
  for (const std::string& name : stale) {
    static_cast<void>(try_ip("netns del " + name));  // another test may have been faster
  }
}

}  // namespace

std::string NetNamespaces::unavailable() {
  if (::geteuid() != 0) {
    return "network namespaces need root";
  }
  const std::string probe = kPrefix + std::to_string(::getpid()) + "probe";
  std::string failure = try_ip("netns add " + probe);
  if (failure.empty()) {
    failure = try_ip("-n " + probe + " link add " + kBridge + " type bridge");
    static_cast<void>(try_ip("netns del " + probe));
  }
  return failure.empty() ? "" : "no network namespaces here: " + failure;
}

NetNamespaces::NetNamespaces(int nodes, Family family) : nodes_(nodes), family_(family) {
  static std::atomic<int> count{0};
  prefix_ = kPrefix + std::to_string(::getpid()) + "n" + std::to_string(count++) + "x";
  remove_stale();
  try {
    ip("netns add " + hub());
    ip("-n " + hub() + " link add " + kBridge + " type bridge");
    ip("-n " + hub() + " link set " + kBridge + " up");
    for (int node = 0; node < nodes_; ++node) {
      add_node(node);
    }
  } catch (...) {
    remove_all();
    throw;
  }
}

NetNamespaces::~NetNamespaces() {
  remove_all();
}

std::string NetNamespaces::name(int node) const {
  return prefix_ + std::to_string(node);
}

std::string NetNamespaces::address(int node) const {
  return (family_ == Family::ipv6 ? "fd77::" : "10.77.0.") + std::to_string(node + 1);
}

std::string NetNamespaces::endpoint(int node, int port) const {
  const std::string host = family_ == Family::ipv6 ? "[" + address(node) + "]" : address(node);
  return host + ":" + std::to_string(port);
}

void NetNamespaces::cut(int node) {
  ip("-n " + hub() + " link set port" + std::to_string(node) + " nomaster");
}

void NetNamespaces::split(const std::vector<int>& nodes) {
  ip("-n " + hub() + " link add " + kOtherBridge + " type bridge");
  ip("-n " + hub() + " link set " + kOtherBridge + " up");
  for (const int node : nodes) {
    ip("-n " + hub() + " link set port" + std::to_string(node) + " master " + kOtherBridge);
  }
}

void NetNamespaces::forget_neighbours(int node) {
  ip("-n " + name(node) + " neigh flush all");
}

void NetNamespaces::heal(int node) {
  ip("-n " + hub() + " link set port" + std::to_string(node) + " master " + kBridge);
}

void NetNamespaces::connect_directly(int one, int other) {
  ip("-n " + name(one) + " link add eth1 type veth peer name eth1 netns " + name(other));
  for (const int node : {one, other}) {
    ip("-n " + name(node) + " addr add " + second_address(node) + "/24 dev eth1");
    ip("-n " + name(node) + " link set eth1 up");
  }
}

std::string NetNamespaces::second_address(int node) const {
  return "10.78.0." + std::to_string(node + 1);
}

void NetNamespaces::add_address(int node, const std::string& address,
                                const std::string& interface) {
  ip("-n " + name(node) + " addr add " + address + " dev " + interface);
}

bool NetNamespaces::abort_connections(int node, int other) {
  const Finished ended =
      run({.argv = {"ss", "-K", "-tnH", "dst", address(other)}, .network_namespace = name(node)});
  return ended.exit_code == 0 && !ended.out.empty();
}

void NetNamespaces::add_bridge(int node, const std::string& bridge, const std::string& address) {
  ip("-n " + name(node) + " link add " + bridge + " type bridge");
  ip("-n " + name(node) + " link set " + bridge + " up");
  add_address(node, address, bridge);
}

void NetNamespaces::drop_packets(int node, const std::string& address) {
  ip("-n " + name(node) + " neigh replace " + address +
     " lladdr 02:00:00:00:00:99 dev eth0 nud permanent");
}

void NetNamespaces::add_node(int node) {
  const std::string port = "port" + std::to_string(node);
  ip("netns add " + name(node));
  ip("-n " + hub() + " link add " + port + " type veth peer name eth0 netns " + name(node));
  ip("-n " + hub() + " link set " + port + " master " + kBridge + " up");
  // Without the check for duplicates, which keeps an IPv6 address from being used for a second.
  ip("-n " + name(node) + " addr add " + address(node) +
     (family_ == Family::ipv6 ? "/64 dev eth0 nodad" : "/24 dev eth0"));
  ip("-n " + name(node) + " link set eth0 up");
  ip("-n " + name(node) + " link set lo up");
}

void NetNamespaces::remove_all() {
  for (int node = 0; node < nodes_; ++node) {
    static_cast<void>(try_ip("netns del " + name(node)));
  }
  static_cast<void>(try_ip("netns del " + hub()));
}

}  // namespace ddprun::test
