#include "rendezvous/store/store_server.h"
#include "rendezvous/base/open_files.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "rendezvous/base/socket.h"
#include "rendezvous/store/store_session.h"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// An output buffer that has been sent goes back to the heap beyond this size: an idle connection
/// costs less than 2 KiB.
constexpr std::size_t kKeptBytes = 512;
/// The most connections that are served before the rest of the agent has its turn.
constexpr int kEventsPerTurn = 64;
/// After an accept that failed for want of descriptors: they come back when others close.
constexpr std::chrono::milliseconds kAcceptPause{50};

}  // namespace

struct StoreServer::Impl : std::enable_shared_from_this<Impl> {
  struct Connection {
    Connection(Impl& server, Fd s, ConnectionId number)
        : socket(std::move(s)), id(number), session(server.keys, number) {}
    Fd socket;
    ConnectionId id;
    StoreSession session;
    std::string output;             // empty once the socket has taken all of it
    std::size_t sent = 0;           // of these, so many are gone
    std::uint32_t watched_for = 0;  // as the kernel has been told
    bool ending = false;            // closes as soon as the output is gone
  };

  explicit Impl(asio::io_context& context)
      : io(context), acceptor(context), pause(context), ready(context) {}

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
      self->serve(Fd(socket.release()), {});
      self->accept();
    });
  }

  void serve(Fd socket, std::string_view first_bytes) {
    // Without a word: a client of another job would take any answer for its own store's.
    if (admits && !admits(net::far_end(socket.get()).host())) {
      return;
    }
    // Asio accepts without it. No worker is started between the two: both happen on this thread.
    ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!ready.is_open() && !begin_turns()) {
      return;
    }
    const ConnectionId id{next_id++};
    epoll_event event{EPOLLIN, {.u64 = static_cast<std::uint64_t>(id)}};
    if (::epoll_ctl(ready.native_handle(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
      return;  // not a socket that can be waited for: the descriptor closes here
    }
    Connection& connection =
        *connections.emplace(id, std::make_unique<Connection>(*this, std::move(socket), id))
             .first->second;
    connection.watched_for = EPOLLIN;
    if (!first_bytes.empty()) {
      take(connection, first_bytes);
    }
  }

  // ---- turns --------------------------------------------------------------------------------

  // All connections are in one epoll set, and Asio waits for that set alone. So a turn costs the
  // loop one handler however many clients have asked something, and a request costs the kernel one
  // read and one write.

  bool begin_turns() {
    Fd set(::epoll_create1(EPOLL_CLOEXEC));
    error_code error;
    if (set.get() >= 0) {
      ready.assign(set.get(), error);
    }
    if (set.get() < 0 || error) {
      return false;
    }
    (void)set.release();
    wait_for_turn();
    return true;
  }

  void wait_for_turn() {
    ready.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](error_code error) {
                       if (!error && !self->closed) {
                         self->turn();
                         self->wait_for_turn();
                       }
                     });
  }

  /// Each connection that is ready is served once; then the rest of the agent has its turn.
  void turn() {
    std::array<epoll_event, kEventsPerTurn> events;
    const int count = ::epoll_wait(ready.native_handle(), events.data(), kEventsPerTurn, 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      // By number: an earlier one of this turn may have ended it.
      const auto found = connections.find(ConnectionId{event.data.u64});
      if (found != connections.end()) {
        on_event(*found->second, event.events);
      }
    }
  }

  void on_event(Connection& connection, std::uint32_t events) {
    if ((connection.watched_for & EPOLLIN) != 0) {
      if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
        // Also when the peer is gone: what it said before comes first.
        read(connection);
      } else {
        write(connection);
      }
    } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
      close(connection);
    } else if (connection.output.empty() && connection.session.paused()) {
      woken.clear();
      answer(connection, connection.session.resume(connection.output, woken));
    } else {
      write(connection);
    }
  }

  /// What the connection waits for now. It is not read from while it has much to take.
  void watch(Connection& connection) {
    const bool paused = connection.session.paused();
    const bool reads = !connection.ending && !paused;
    const bool writes = paused || !connection.output.empty();
    const std::uint32_t wanted = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
    if (wanted != connection.watched_for) {
      epoll_event event{wanted, {.u64 = static_cast<std::uint64_t>(connection.id)}};
      ::epoll_ctl(ready.native_handle(), EPOLL_CTL_MOD, connection.socket.get(), &event);
      connection.watched_for = wanted;
    }
  }

  // ---- one connection: each of these may be the end of it -----------------------------------

  void read(Connection& connection) {
    const ssize_t size =
        ::recv(connection.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size > 0) {
      take(connection, std::string_view(buffer.data(), static_cast<std::size_t>(size)));
    } else if (size == 0) {
      finish(connection);
    } else if (errno != EAGAIN && errno != EINTR) {
      close(connection);
    }
  }

  void take(Connection& connection, std::string_view bytes) {
    woken.clear();
    answer(connection, connection.session.receive(bytes, connection.output, woken));
  }

  /// Sends what a turn of the session has brought, to its own peer and to those it woke.
  void answer(Connection& connection, bool fine) {
    connection.ending = !fine;
    write(connection);
    for (const ConnectionId id : woken) {
      if (const auto found = connections.find(id); found != connections.end()) {
        found->second->output.push_back(store_protocol::kStopWaiting);
        write(*found->second);
      }
    }
  }

  /// The peer sends no more, but may still read what it asked for. Its wait ends here.
  void finish(Connection& connection) {
    keys.cancel_wait(connection.id);
    connection.ending = true;
    write(connection);
  }

  /// Sends what the socket takes now; the rest when it is ready again.
  void write(Connection& connection) {
    std::string& output = connection.output;
    while (connection.sent < output.size()) {
      const ssize_t size = ::send(connection.socket.get(), output.data() + connection.sent,
                                  output.size() - connection.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size >= 0) {
        connection.sent += static_cast<std::size_t>(size);
      } else if (errno == EAGAIN) {
        watch(connection);
        return;
      } else if (errno != EINTR) {
        close(connection);
        return;
      }
    }
    connection.sent = 0;
    output.clear();
    if (output.capacity() > kKeptBytes) {
      std::string().swap(output);
    }
    if (connection.ending) {
      close(connection);
    } else {
      watch(connection);  // one that is paused goes on next turn: the others have theirs first
    }
  }

  void close(Connection& connection) {
    // Not left to the closing: a worker that is being started may hold a copy for a moment.
    ::epoll_ctl(ready.native_handle(), EPOLL_CTL_DEL, connection.socket.get(), nullptr);
    const ConnectionId id = connection.id;
    connections.erase(id);  // its session cancels its wait
  }

  void close_all() {
    closed = true;
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    ready.close(ignored);
    connections.clear();
  }

  asio::io_context& io;
  std::function<bool(const std::string&)> admits;  ///< null: all are
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  asio::posix::stream_descriptor ready;  // the epoll set; open from the first connection on
  KeySpace keys;                         // before the connections: their sessions point to it
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections;
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
                 open_files_todo(error.value(), "name a free port, or 0 for any")};
  }
  impl->port = impl->acceptor.local_endpoint().port();
  impl->accept();
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

std::unique_ptr<StoreServer> StoreServer::without_port(asio::io_context& io) {
  return std::unique_ptr<StoreServer>(new StoreServer(std::make_shared<Impl>(io)));
}

void StoreServer::admit_only(std::function<bool(const std::string& address)> admits) {
  impl_->admits = std::move(admits);
}

std::uint16_t StoreServer::port() const {
  return impl_->port;
}

void StoreServer::adopt(Fd connection, std::string_view first_bytes) {
  impl_->serve(std::move(connection), first_bytes);
}

}  // namespace ddprun
