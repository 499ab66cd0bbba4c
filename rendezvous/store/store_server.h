// StoreServer: many connections around one key space. Speaks PyTorch's TCPStore protocol, both
// dialects (docs/store-protocol.md). One server is one attempt's key space: it starts empty and
// dies with the attempt. Single-threaded: lives on its owner's io_context.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class StoreServer {
 public:
  /// Listens on `port` (0: any free port) of all addresses, IPv6 and IPv4.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io,
                                                     std::uint16_t port);
  /// A key space without a port of its own: connections come by adopt() only (static backend,
  /// where MASTER_PORT is the rendezvous endpoint).
  static std::unique_ptr<StoreServer> without_port(boost::asio::io_context& io);
  /// Closes the port and every connection.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// From now on a connection from an address for which this says no is closed; see net::Address.
  void admit_only(std::function<bool(const std::string& address)> admits);
  [[nodiscard]] std::uint16_t port() const;
  /// Serves a connected socket from which `first_bytes` have been read already.
  void adopt(Fd connection, std::string_view first_bytes);

 private:
  struct Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
