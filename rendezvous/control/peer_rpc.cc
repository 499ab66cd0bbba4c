#include "rendezvous/control/peer_rpc.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class PeerRpc : public std::enable_shared_from_this<PeerRpc> {
 public:
  PeerRpc(asio::io_context& io, std::vector<std::string> addresses, std::uint16_t port,
          std::string question, std::chrono::milliseconds patience,
          std::function<void(const PeerAnswer&)> done)
      : io_(io),
        addresses_(std::move(addresses)),
        port_(port),
        question_(std::move(question)),
        patience_(patience),
        done_(std::move(done)),
        socket_(io),
        timer_(io) {}

  void next() {
    error_code ignored;
    socket_.close(ignored);
    drop_connection();
    if (at_ == addresses_.size()) {
      finish({std::nullopt, refused_ > 0 && refused_ == addresses_.size()});
      return;
    }
    error_code failed;
    const auto address = asio::ip::make_address(addresses_[at_++], failed);
    if (failed) {
      asio::post(io_, [self = shared_from_this()] { self->go_on(); });
      return;
    }
    const std::uint64_t round = ++round_;
    timer_.expires_after(patience_);
    timer_.async_wait([self = shared_from_this(), round](error_code cancelled) {
      if (!cancelled && self->round_ == round) {
        self->go_on();
      }
    });
    socket_.async_connect({address, port_}, [self = shared_from_this(), round](error_code error) {
      if (self->round_ != round || !self->done_) {
        return;
      }
      self->refused_ += error == asio::error::connection_refused ? 1 : 0;
      error ? self->go_on() : self->ask();
    });
  }

  void cancel() {
    done_ = nullptr;
    ++round_;
    timer_.cancel();
    error_code ignored;
    socket_.close(ignored);
    drop_connection();
  }

 private:
  void go_on() {
    if (done_) {
      next();
    }
  }

  void ask() {
    error_code failed;
    const int fd = socket_.release(failed);
    if (failed) {
      go_on();
      return;
    }
    const std::weak_ptr<PeerRpc> weak = weak_from_this();
    const auto with = [weak](auto action) {
      if (const auto self = weak.lock(); self && self->done_) {
        action(*self);
      }
    };
    connection_ = Connection::create(
        io_, Fd(fd), ConnectionOptions{},
        {[with](const message::Message& said) {
           with([&](PeerRpc& self) { self.finish({said, false}); });
         },
         [with](const PreambleCheck&, const std::string&) {
           with([](PeerRpc& self) { self.go_on(); });
         },
         [with](const CloseReason&) { with([](PeerRpc& self) { self.go_on(); }); }});
    connection_->start();
    connection_->send(question_);
  }

  void finish(const PeerAnswer& answer) {
    const auto alive = shared_from_this();
    auto done = std::exchange(done_, nullptr);
    cancel();
    if (done) {
      done(answer);
    }
  }

  void drop_connection() {
    if (connection_) {
      std::exchange(connection_, nullptr)->close();
    }
  }

  asio::io_context& io_;
  std::vector<std::string> addresses_;
  std::uint16_t port_;
  std::string question_;
  std::chrono::milliseconds patience_;
  std::function<void(const PeerAnswer&)> done_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  std::shared_ptr<Connection> connection_;
  std::size_t at_ = 0;
  std::size_t refused_ = 0;  ///< of the addresses
  std::uint64_t round_ = 0;
};

}  // namespace

std::shared_ptr<void> rpc_to_peer(asio::io_context& io, std::vector<std::string> addresses,
                                  std::uint16_t port, const message::Message& question,
                                  std::chrono::milliseconds patience,
                                  std::function<void(const PeerAnswer&)> done) {
  auto call = std::make_shared<PeerRpc>(io, std::move(addresses), port,
                                        preamble() + encode(question), patience, std::move(done));
  asio::post(io, [call] { call->next(); });
  return {call.get(), [call](void*) { call->cancel(); }};
}

}  // namespace ddprun
