// NetNamespaces: several "nodes" on one machine, each a network namespace with an address of its
// own, joined by a bridge in a further namespace. Nothing of the machine's own network is touched.
// Needs root; a test asks unavailable() first, by NEEDS_NAMESPACES() of needs.h, and is skipped.
#pragma once

#include <string>
#include <vector>

namespace ddprun::test {

class NetNamespaces {
 public:
  /// Why there can be none here ("network namespaces need root"); empty when they work.
  static std::string unavailable();

  /// Which addresses the nodes have: of one kind alone.
  enum class Family { ipv4, ipv6 };

  /// Makes `nodes` of them (1..200), numbered from 0. Throws when it cannot. Also removes those
  /// that a killed test program left behind.
  explicit NetNamespaces(int nodes, Family family = Family::ipv4);
  ~NetNamespaces();
  NetNamespaces(const NetNamespaces&) = delete;
  NetNamespaces& operator=(const NetNamespaces&) = delete;

  /// For ChildRequest::network_namespace.
  [[nodiscard]] std::string name(int node) const;
  /// 10.77.0.<node + 1>, or fd77::<node + 1>. Every instance has the same addresses: they cannot
  /// reach each other.
  [[nodiscard]] std::string address(int node) const;
  /// The address and this port, as in "[fd77::1]:29400".
  [[nodiscard]] std::string endpoint(int node, int port) const;

  /// Takes the node off the bridge: its packets are lost in both directions, while its own link
  /// looks well. Connections stay silent; none is reset.
  void cut(int node);
  /// The nodes have a network of their own from here on: they and the others do not reach each
  /// other.
  void split(const std::vector<int>& nodes);
  /// Undoes cut() and split().
  void heal(int node);
  /// The node asks anew who has an address, as it does when a host says that it has taken one over.
  void forget_neighbours(int node);

  /// Ends the connections that `node` has with `other`: to `node` they look reset. The other side
  /// is told by packets, so after cut() it is told nothing. False: this kernel cannot do that.
  [[nodiscard]] bool abort_connections(int node, int other);

  /// Gives two nodes a second network of their own, with addresses second_address().
  void connect_directly(int one, int other);
  /// 10.78.0.<node + 1>.
  [[nodiscard]] std::string second_address(int node) const;
  /// One more address (with its prefix length) on an interface ("eth0") of a node.
  void add_address(int node, const std::string& address, const std::string& interface);
  /// A bridge of the node's own with this address (and prefix length), to which nothing is joined.
  void add_bridge(int node, const std::string& name, const std::string& address);
  /// From now on every packet that `node` sends to `address` is dropped on the way, in silence, as
  /// by a firewall: nobody has the link address that it is sent to.
  void drop_packets(int node, const std::string& address);

 private:
  [[nodiscard]] std::string hub() const { return prefix_ + "hub"; }
  void add_node(int node);
  void remove_all();

  std::string prefix_;
  int nodes_ = 0;
  Family family_;
};

}  // namespace ddprun::test
