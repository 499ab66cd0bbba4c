// PeerServer: where other agents reach this one while it is not the coordinator. It listens at this
// host's own endpoint if --rdzv-endpoint names one, else at an ephemeral port. It also listens at
// the first endpoint when the coordinator runs on another host, so that restarted agents are
// redirected. Internal to control.
#pragma once

#include <spdlog/logger.h>

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/control/peer_listener.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

class PeerServer : public std::enable_shared_from_this<PeerServer> {
 public:
  /// `answer` is not asked by who has come to the wrong job (admission.h, stray).
  static std::shared_ptr<PeerServer> create(boost::asio::io_context& io,
                                            std::vector<Endpoint> endpoints,
                                            PeerListener::Answer answer,
                                            std::shared_ptr<spdlog::logger> log);

  /// Opens the gate; what it calls may come after a look at a name service.
  void open(std::function<void(const Result<void>&)> opened);
  /// Of the gate, or of the coordinator that is in its place.
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Whether that port is an endpoint's; otherwise the system chose it.
  [[nodiscard]] bool at_endpoint() const { return place_.has_value(); }
  /// The endpoints at which this agent does not listen.
  [[nodiscard]] std::vector<Endpoint> other_endpoints() const;

  /// A coordinator in this agent takes the place of the gate, at its socket.
  Fd release_listener();
  /// The same, at the endpoint that the coordinator has bound.
  void give_way_to(std::uint16_t endpoint_port);
  /// It has resigned, and hands its socket back.
  void reopen(Fd listener);
  /// The job goes on elsewhere, but people were told of the first endpoint too.
  void listen_at_first_endpoint();

 private:
  PeerServer(boost::asio::io_context& io, std::vector<Endpoint> endpoints,
             PeerListener::Answer answer, std::shared_ptr<spdlog::logger> log);
  Result<void> open_gate();
  [[nodiscard]] std::shared_ptr<PeerListener> answer_at(Fd listener, bool at_endpoint);

  boost::asio::io_context& io_;
  std::vector<Endpoint> endpoints_;
  PeerListener::Answer answer_;
  std::shared_ptr<spdlog::logger> log_;
  std::vector<bool> own_;  ///< which of the endpoints are this machine's
  std::shared_ptr<PeerListener> gate_;
  std::shared_ptr<PeerListener> door_;
  std::uint16_t port_ = 0;
  std::optional<std::size_t> place_;  ///< of that port, among the endpoints
};

}  // namespace ddprun
