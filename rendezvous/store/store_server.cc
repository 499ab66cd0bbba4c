#include "rendezvous/store/store_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "rendezvous/store/store_session.h"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// An output buffer that has been sent goes back to the heap beyond this size: an idle connection
/// costs less than 2 KiB.
constexpr std::size_t kKeptBytes = 512;
/// After an accept that failed for want of descriptors: they come back when others close.
constexpr std::chrono::milliseconds kAcceptPause{50};

}  // namespace

struct StoreServer::Impl : std::enable_shared_from_this<Impl> {
  struct Connection {
    Connection(Impl& server, tcp::socket s, ConnectionId number)
        : socket(std::move(s)), id(number), session(server.keys, number) {}
    tcp::socket socket;
    ConnectionId id;
    StoreSession session;
    std::string output;                 // empty once the socket has taken all of it
    std::size_t sent = 0;               // of these, so many are gone
    std::array<char, 256> first_bytes;  // where a read begins
    bool reading = false;               // one is under way
    bool writing = false;
    bool ending = false;  // closes as soon as the output is gone
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  explicit Impl(asio::io_context& context) : io(context), acceptor(context), pause(context) {}

  // ---- accepting ----------------------------------------------------------------------------

  void accept() {
    acceptor.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
      if (self->closed || error == asio::error::operation_aborted) {
        return;
      }
      if (error) {
        self->pause.expires_after(kAcceptPause);
        self->pause.async_wait([self](error_code aborted) {
          if (!aborted && !self->closed) {
            self->accept();
          }
        });
        return;
      }
      self->serve(std::move(socket), {});
      self->accept();
    });
  }

  void serve(tcp::socket socket, std::string_view first_bytes) {
    error_code ignored;
    // Asio accepts without it. No worker is started between the two: both happen on this thread.
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    socket.non_blocking(true, ignored);
    socket.set_option(tcp::no_delay(true), ignored);
    const ConnectionId id{next_id++};
    auto connection = std::make_shared<Connection>(*this, std::move(socket), id);
    connections.emplace(id, connection);
    if (!first_bytes.empty()) {
      take(connection, first_bytes);
    }
    read(connection);
  }

  // ---- one connection -----------------------------------------------------------------------

  /// Reads into a small buffer of the connection's own: usual requests fit, an idle connection
  /// costs little, and Asio needs no call to the kernel to wait again (as it does to wait for
  /// readiness alone). What is longer goes on in a large buffer that all share.
  void read(const ConnectionPtr& connection) {
    if (connection->reading || connection->ending || !connection->socket.is_open() ||
        connection->session.paused()) {
      return;
    }
    connection->reading = true;
    connection->socket.async_receive(
        asio::buffer(connection->first_bytes),
        [self = shared_from_this(), connection](error_code error, std::size_t size) {
          connection->reading = false;
          if (self->closed || !connection->socket.is_open()) {
            return;
          }
          if (error == asio::error::eof) {
            self->finish(connection);
          } else if (error) {
            self->close(connection);
          } else {
            self->on_received(connection, size);
          }
        });
  }

  void on_received(const ConnectionPtr& connection, std::size_t size) {
    take(connection, std::string_view(connection->first_bytes.data(), size));
    if (size == connection->first_bytes.size() && !connection->ending &&
        connection->socket.is_open() && !connection->session.paused()) {
      read_more(connection);
    }
    read(connection);
  }

  void read_more(const ConnectionPtr& connection) {
    const ssize_t size =
        ::recv(connection->socket.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size == 0) {
      finish(connection);
    } else if (size > 0) {
      take(connection, std::string_view(buffer.data(), static_cast<std::size_t>(size)));
    } else if (errno != EAGAIN && errno != EINTR) {
      close(connection);
    }
  }

  void take(const ConnectionPtr& connection, std::string_view bytes) {
    woken.clear();
    answer(connection, connection->session.receive(bytes, connection->output, woken));
  }

  /// Sends what a turn of the session has brought, to its own peer and to those it woke.
  void answer(const ConnectionPtr& connection, bool fine) {
    connection->ending = !fine;
    // A copy: closing a connection below may not change what is walked over.
    const KeySpace::Woken others = woken;
    write(connection);
    for (const ConnectionId id : others) {
      if (const auto found = connections.find(id); found != connections.end()) {
        const ConnectionPtr other = found->second;
        other->output.push_back(store_protocol::kStopWaiting);
        write(other);
      }
    }
  }

  /// The peer sends no more, but may still read what it asked for. Its wait ends here.
  void finish(const ConnectionPtr& connection) {
    keys.cancel_wait(connection->id);
    connection->ending = true;
    if (connection->output.empty()) {
      close(connection);
    }
  }

  /// Sends what the socket takes now; the rest when it is ready again.
  void write(const ConnectionPtr& connection) {
    std::string& output = connection->output;
    if (connection->writing || !connection->socket.is_open()) {
      return;
    }
    while (connection->sent < output.size()) {
      const ssize_t size =
          ::send(connection->socket.native_handle(), output.data() + connection->sent,
                 output.size() - connection->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size >= 0) {
        connection->sent += static_cast<std::size_t>(size);
      } else if (errno == EAGAIN) {
        write_later(connection);
        return;
      } else if (errno != EINTR) {
        close(connection);
        return;
      }
    }
    connection->sent = 0;
    output.clear();
    if (output.capacity() > kKeptBytes) {
      std::string().swap(output);
    }
    if (connection->ending) {
      close(connection);
    } else if (connection->session.paused()) {
      write_later(connection);  // on with its requests, but the others have their turn first
    }
  }

  void on_writable(const ConnectionPtr& connection) {
    if (connection->output.empty() && connection->session.paused()) {
      woken.clear();
      answer(connection, connection->session.resume(connection->output, woken));
    } else {
      write(connection);
    }
    read(connection);
  }

  void write_later(const ConnectionPtr& connection) {
    connection->writing = true;
    connection->socket.async_wait(tcp::socket::wait_write,
                                  [self = shared_from_this(), connection](error_code error) {
                                    connection->writing = false;
                                    if (!error && !self->closed) {
                                      self->on_writable(connection);
                                    }
                                  });
  }

  void close(const ConnectionPtr& connection) {
    error_code ignored;
    connection->socket.close(ignored);
    keys.cancel_wait(connection->id);
    connections.erase(connection->id);
  }

  void close_all() {
    closed = true;
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    for (auto& [id, connection] : connections) {
      connection->socket.close(ignored);
    }
    connections.clear();
  }

  asio::io_context& io;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  KeySpace keys;  // before the connections: their sessions point to it
  std::unordered_map<ConnectionId, ConnectionPtr> connections;
  std::uint64_t next_id = 1;
  std::uint16_t port = 0;
  bool closed = false;
  std::array<char, 64 * 1024> buffer{};
  KeySpace::Woken woken;
};

namespace {

/// IPv6 with IPv4 mapped into it where the machine has IPv6, else IPv4.
error_code bind_any(tcp::acceptor& acceptor, const tcp& protocol, std::uint16_t port) {
  error_code error;
  acceptor.open(protocol, error);
  if (!error) {
    ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);  // which Asio does not do
  }
  if (!error && protocol == tcp::v6()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) {
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  }
  if (!error) {
    acceptor.bind(tcp::endpoint(protocol, port), error);
  }
  if (!error) {
    // The kernel cuts it to net.core.somaxconn: thousands of workers connect at once.
    acceptor.listen(65535, error);
  }
  if (error) {
    error_code ignored;
    acceptor.close(ignored);
  }
  return error;
}

}  // namespace

StoreServer::StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() {
  impl_->close_all();
}

Result<std::unique_ptr<StoreServer>> StoreServer::listen(asio::io_context& io, std::uint16_t port) {
  auto impl = std::make_shared<Impl>(io);
  error_code error = bind_any(impl->acceptor, tcp::v6(), port);
  if (error) {
    error = bind_any(impl->acceptor, tcp::v4(), port);
  }
  if (error) {
    return Error{"the store cannot listen: " + error.message(), "port " + std::to_string(port),
                 "name a free port, or 0 for any"};
  }
  impl->port = impl->acceptor.local_endpoint().port();
  impl->accept();
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

std::unique_ptr<StoreServer> StoreServer::without_port(asio::io_context& io) {
  return std::unique_ptr<StoreServer>(new StoreServer(std::make_shared<Impl>(io)));
}

std::uint16_t StoreServer::port() const {
  return impl_->port;
}

void StoreServer::adopt(Fd connection, std::string_view first_bytes) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const bool v6 =
      ::getsockname(connection.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
      address.ss_family == AF_INET6;
  tcp::socket socket(impl_->io);
  error_code error;
  socket.assign(v6 ? tcp::v6() : tcp::v4(), connection.get(), error);
  if (error) {
    return;  // not a socket that can be waited for: the descriptor closes here
  }
  (void)connection.release();
  impl_->serve(std::move(socket), first_bytes);
}

}  // namespace ddprun
