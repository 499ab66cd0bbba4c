#include "rendezvous/store/store_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/store/store_protocol.h"

namespace ddprun {

using namespace store_protocol;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

/// One address may swallow what is sent to it while the next would answer.
constexpr milliseconds kPerAddress{5'000};

// A server that is about to listen is found soon, one that is long in coming is not hammered.
constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{500};

}  // namespace

net::Deadline StoreConnection::after(Timeout timeout) {
  using std::chrono::hours;
  return Clock::now() + std::clamp<Timeout>(timeout, Timeout(0), hours(24 * 365));
}

/// At least a moment: with a timeout of 0 ("only what is there now") the answer still has to come.
net::Deadline StoreConnection::answer_by(net::Deadline deadline) {
  return std::max(deadline, Clock::now() + kAnswerGrace);
}

/// Tries until the deadline. Each round resolves anew, for the name of a pod gets its address when
/// the pod runs. All addresses of a name are tried before the next pause.
Result<StoreConnection> StoreConnection::open(const Endpoint& endpoint, Timeout timeout) {
  const auto begin = Clock::now();
  const auto deadline = after(timeout);
  std::string last = "no address";
  std::string address_tried = to_text(endpoint);
  for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    const auto addresses = net::resolve(endpoint.host, endpoint.port);
    if (!addresses) {
      last = addresses.error().what;
    }
    for (const net::Address& address : addresses ? *addresses : std::vector<net::Address>()) {
      Fd socket;
      const int error = net::try_connect(address, std::min(deadline, after(kPerAddress)), socket);
      address_tried = address.text();
      if (error != 0) {
        last = std::strerror(error);
        continue;
      }
      StoreConnection connection(std::move(socket), address_tried);
      if (const auto shaken = connection.handshake(answer_by(deadline))) {
        return connection;
      } else {
        last = shaken.error().what;
      }
    }
    // The agent that hosts the store may start later: a refusal is no reason to give up.
    if (Clock::now() >= deadline) {
      break;
    }
    const int wait = std::min(static_cast<int>(pause.count()), net::milliseconds_left(deadline));
    ::poll(nullptr, 0, wait);
  }
  const std::string named = to_text(endpoint);
  return Error{
      "cannot connect to the store: " + last + ", tried for " + seconds_text(Clock::now() - begin),
      named + (address_tried == named ? "" : " (" + address_tried + ")"),
      "check that the agent or process that hosts it runs and can be reached"};
}

/// The echo of a number shows that a TCPStore server reads what it is sent. That something accepts
/// connections shows only that the port is taken.
Result<void> StoreConnection::handshake(net::Deadline deadline) {
  std::string request;
  put_u8(request, static_cast<std::uint8_t>(Operation::validate));
  put_u32(request, kMagic);
  // A program that echoes its input would send back VALIDATE and the magic first, which are no pid.
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  put_u8(request, static_cast<std::uint8_t>(Operation::ping));
  put_u32(request, nonce);
  if (auto sent = send(request, deadline); !sent) {
    return sent;
  }
  std::uint32_t echo = 0;
  if (auto got = receive(reinterpret_cast<char*>(&echo), sizeof echo, deadline); !got) {
    return got;
  }
  if (echo != nonce) {
    return broken("what answers there is no TCPStore server");
  }
  return {};
}

/// After half a request or half an answer the next bytes have no meaning. So the socket closes
/// here, and no later call can read the rest as its own answer.
Error StoreConnection::broken(const std::string& what) {
  socket_.reset();
  return Error{what, "store " + peer_, {}};
}

Result<void> StoreConnection::send(const std::string& request, net::Deadline deadline) {
  if (!socket_) {
    return broken("the connection is closed");
  }
  // Without MSG_NOSIGNAL a worker would die of SIGPIPE when the store ends with its attempt.
  for (std::size_t at = 0; at < request.size();) {
    const ssize_t sent =
        ::send(socket_.get(), request.data() + at, request.size() - at, MSG_NOSIGNAL);
    if (sent >= 0) {
      at += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      if (!net::wait_ready(socket_.get(), POLLOUT, deadline)) {
        return broken("the store does not read what it is sent");
      }
    } else if (errno != EINTR) {
      return broken(std::string("the connection broke: ") + std::strerror(errno));
    }
  }
  return {};
}

/// The store dies with its attempt. So the end of the stream shows a worker of an old attempt that
/// the job has moved on.
Result<void> StoreConnection::receive(char* bytes, std::size_t size, net::Deadline deadline) {
  if (!socket_) {
    return broken("the connection is closed");
  }
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::recv(socket_.get(), bytes + at, size - at, 0);
    if (got > 0) {
      at += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return broken("the store closed the connection");
    } else if (errno == EAGAIN) {
      if (!net::wait_ready(socket_.get(), POLLIN, deadline)) {
        return broken("no answer from the store in time");
      }
    } else if (errno != EINTR) {
      return broken(std::string("the connection broke: ") + std::strerror(errno));
    }
  }
  return {};
}

/// In the machine's own order: store_protocol.cc asserts that it is the wire's.
Result<std::int64_t> StoreConnection::receive_i64(net::Deadline deadline) {
  std::int64_t value = 0;
  if (auto got = receive(reinterpret_cast<char*>(&value), sizeof value, deadline); !got) {
    return got.error();
  }
  return value;
}

Result<std::string> StoreConnection::receive_bytes(net::Deadline deadline) {
  const auto size = receive_i64(deadline);
  if (!size) {
    return size.error();
  }
  // APPEND can make a value longer than any one request may carry.
  if (*size < 0 || *size > static_cast<std::int64_t>(kRequestBytesMax)) {
    return broken("the store sent a length that no value has");
  }
  std::string bytes(static_cast<std::size_t>(*size), '\0');
  if (auto got = receive(bytes.data(), bytes.size(), deadline); !got) {
    return got.error();
  }
  return bytes;
}

/// Unlike receive() it leaves the connection whole when nothing comes: a wait can still be taken
/// back.
bool StoreConnection::wait_for_bytes(net::Deadline deadline) const {
  DDP_CHECK(is_open(), "an answer is waited for where a request was sent");
  return net::wait_ready(socket_.get(), POLLIN, deadline);
}

}  // namespace ddprun
