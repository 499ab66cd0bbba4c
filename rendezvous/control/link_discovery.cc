#include "rendezvous/control/link_discovery.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "rendezvous/base/network_interfaces.h"
#include "rendezvous/control/job_token.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::udp;
using boost::system::error_code;

/// What is alike on both sides: a socket that is read for as long as the object lives. A datagram
/// that cannot be sent or read is lost, as any datagram may be.
template <class Base>
class LinkSocket : public Base, public std::enable_shared_from_this<LinkSocket<Base>> {
 public:
  LinkSocket(asio::io_context& io, LinkSecret the_secret)
      : secret_(std::move(the_secret)), socket_(io) {}

  /// `port` 0: any. IPv4 has broadcasts, IPv6 has none.
  bool open(std::uint16_t port) {
    error_code failed;
    socket_.open(udp::v4(), failed);
    socket_.set_option(udp::socket::broadcast(true), failed);
    if (!failed) {
      socket_.bind(udp::endpoint(asio::ip::address_v4::any(), port), failed);
    }
    socket_.non_blocking(true, failed ? failed : ignored_);
    return !failed;
  }

  void read() {
    const auto read_one = [weak = this->weak_from_this()](error_code failed, std::size_t size) {
      const auto self = weak.lock();
      // An answer to nobody comes back as an error of the next read (ip(7), ECONNREFUSED).
      if (self && failed != asio::error::operation_aborted &&
          failed != asio::error::bad_descriptor) {
        self->take({self->bytes_.data(), failed ? 0 : size}, self->from_);
        self->read();
      }
    };
    socket_.async_receive_from(asio::buffer(bytes_), from_, read_one);
  }

 protected:
  virtual void take(std::string_view said, const udp::endpoint& from) = 0;

  /// Without waiting: where the socket has no room the datagram is lost, and it is asked again.
  void send(const std::string& bytes, const udp::endpoint& to) {
    socket_.send_to(asio::buffer(bytes), to, 0, ignored_);
  }

  LinkSecret secret_;

 private:
  udp::socket socket_;
  udp::endpoint from_;
  std::array<char, kLinkDatagramBytesMax> bytes_{};
  error_code ignored_;
};

class Answerer final : public LinkSocket<LinkAnswerer> {
 public:
  using LinkSocket::LinkSocket;

 private:
  /// The kernel answers by the address that it has on the network of who asked.
  void take(std::string_view said, const udp::endpoint& from) override {
    if (const auto answer = link_answer(secret_, said)) {
      send(*answer, from);
    }
  }
};

class Asker final : public LinkSocket<LinkAsker> {
 public:
  Asker(asio::io_context& io, LinkSecret secret, LinkAskerOwner& owner)
      : LinkSocket(io, std::move(secret)), owner_(owner) {}

  /// One socket for all networks: the kernel sends each datagram by the interface whose broadcast
  /// address it has, from that interface's own address, to which the answer goes.
  void ask() {
    const std::string question = link_question(secret_, nonce_);
    for (const InterfaceAddress& one : interface_addresses()) {
      error_code no_address;
      const auto network = asio::ip::make_address_v4(one.broadcast, no_address);
      if (!no_address && !network.is_unspecified()) {
        send(question, {network, secret_.endpoint.port});
      }
    }
  }

 private:
  /// Two networks may lead to one host, which then answers from an address on each.
  void take(std::string_view said, const udp::endpoint& from) override {
    const std::string address = from.address().to_string();
    if (is_link_answer(secret_, nonce_, said) && told_.insert(address).second) {
      owner_.on_link(address);
    }
  }

  LinkAskerOwner& owner_;
  /// Of this question alone, so an old answer that somebody has kept proves nothing.
  const std::string nonce_ = random_nonce();
  std::set<std::string> told_;
};

}  // namespace

// The port is the endpoint's own, as for TCP: people open one port in their firewalls. Another
// program may have it for UDP; then this host is found by its names alone.
std::shared_ptr<LinkAnswerer> LinkAnswerer::open(asio::io_context& io, LinkSecret secret) {
  const std::uint16_t port = secret.endpoint.port;
  auto answerer = std::make_shared<Answerer>(io, std::move(secret));
  if (!answerer->open(port)) {
    return nullptr;
  }
  answerer->read();
  return answerer;
}

std::shared_ptr<LinkAsker> LinkAsker::ask(asio::io_context& io, LinkSecret secret,
                                          LinkAskerOwner& owner) {
  auto asker = std::make_shared<Asker>(io, std::move(secret), owner);
  if (asker->open(0)) {
    asker->read();
    asker->ask();
  }
  return asker;
}

}  // namespace ddprun
