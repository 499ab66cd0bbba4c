// CoordinatorPeer: who is at the other end of one of a coordinator's connections. Internal to
// control.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/connection.h"

namespace ddprun {

struct CoordinatorPeer {
  std::shared_ptr<Connection> connection = {};
  bool local = false;                ///< the socket pair of the hosting agent
  std::string address = {};          ///< of the peer, numeric
  std::string reached_address = {};  ///< the local address by which it came
  /// As it says itself; in a job with a token alone, which looks at who comes to the store.
  std::vector<std::string> own_addresses = {};

  /// By its socket; without the connection.
  static CoordinatorPeer of(int socket, bool local) {
    CoordinatorPeer peer;
    peer.local = local;
    if (!local) {
      peer.address = net::far_end(socket).host();
      peer.reached_address = net::local_end(socket).host();
    }
    return peer;
  }

  /// Takes its hello. False: it was not answered in time and has gone again, and the end of the
  /// connection is read next. It would take the place that the same node has lost, and lose it,
  /// too.
  [[nodiscard]] bool take(const message::Hello& hello, bool has_credentials) {
    if (net::has_ended(connection->native_handle())) {
      return false;
    }
    if (has_credentials) {
      own_addresses = hello.node.addresses;
    }
    return true;
  }

  /// The coordinator goes and its process lives. Who was not answered yet expects a preamble, and
  /// takes other words for a stranger's: the reset alone tells it to ask again.
  void take_leave(const std::string& farewell, bool was_answered) const {
    if (!was_answered) {
      connection->close_by_reset();
      return;
    }
    connection->send(farewell);
    connection->close();
  }

  /// Those from which its workers may come: by another network than it, too (--local-addr).
  void add_addresses_to(std::vector<std::string>& all) const {
    all.push_back(address);
    all.insert(all.end(), own_addresses.begin(), own_addresses.end());
  }
};

}  // namespace ddprun
