// PeerServer: where other agents reach this one while it is not the coordinator. It listens at this
// host's own endpoint if --rdzv-endpoint names one, else at an ephemeral port. It also listens at
// the first endpoint while no coordinator on this host does, so that restarted agents are
// redirected and leaders find this one. Internal to control.
#pragma once

#include <spdlog/logger.h>

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

namespace boost::asio {
class io_context;
}

namespace ddprun {

class PeerServer : public std::enable_shared_from_this<PeerServer> {
 public:
  /// `from_here`: who asks is a process of this machine, at the first endpoint.
  using Answer =
      std::function<std::optional<message::Message>(const message::Message&, bool from_here)>;

  /// `answer` is not asked by who has come to the wrong job (admission.h, stray), or has not
  /// the `credentials`, where there are any.
  static std::shared_ptr<PeerServer> create(boost::asio::io_context& io,
                                            std::vector<Endpoint> endpoints, Answer answer,
                                            Credentials credentials,
                                            std::shared_ptr<spdlog::logger> log);

  /// Opens the gate; what it calls may come after a look at a name service.
  void open(std::function<void(const Result<void>&)> opened);
  /// Of the gate, or of the coordinator that is in its place.
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Whether that port is an endpoint's; otherwise the system chose it.
  [[nodiscard]] bool at_endpoint() const { return place_.has_value(); }
  /// Whether this agent listens at the first one, be it by that port or besides.
  [[nodiscard]] bool at_first_endpoint() const { return place_ == 0U || door_; }
  /// The endpoints at which this agent does not listen.
  [[nodiscard]] std::vector<Endpoint> other_endpoints() const;

  /// A coordinator in this agent takes the place of the gate, at its socket.
  Fd release_listener();
  /// The same, at the endpoint that the coordinator has bound.
  void give_way_to(std::uint16_t endpoint_port);
  /// It has resigned, and hands its socket back.
  void reopen(Fd listener);
  /// The job goes on elsewhere, but people were told of the first endpoint. Where that is this
  /// machine, tries for a while: the process that had the port may be about to end.
  void listen_at_first_endpoint();
  /// Another process of this machine is to have that port, or the job is over.
  void leave_first_endpoint();

  ~PeerServer();

 private:
  struct Retry;  ///< a timer

  PeerServer(boost::asio::io_context& io, std::vector<Endpoint> endpoints, Answer answer,
             Credentials credentials, std::shared_ptr<spdlog::logger> log);
  Result<void> open_gate();
  void try_first_endpoint();
  [[nodiscard]] std::shared_ptr<PeerListener> answer_at(Fd listener, bool at_endpoint,
                                                        bool at_first = false);

  boost::asio::io_context& io_;
  std::vector<Endpoint> endpoints_;
  Answer answer_;
  Credentials credentials_;
  std::shared_ptr<spdlog::logger> log_;
  std::vector<bool> own_;  ///< which of the endpoints are this machine's
  std::shared_ptr<PeerListener> gate_;
  std::shared_ptr<PeerListener> door_;     ///< at the first endpoint
  std::shared_ptr<PeerListener> leaving_;  ///< the one before: its last answers are on their way
  std::unique_ptr<Retry> retry_;
  int tries_left_ = 0;
  std::uint16_t port_ = 0;
  std::optional<std::size_t> place_;  ///< of that port, among the endpoints
};

}  // namespace ddprun
