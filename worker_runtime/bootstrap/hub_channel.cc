#include "worker_runtime/bootstrap/hub_channel.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>

#include "worker_runtime/bootstrap/peer_monitor_socket.h"

namespace ddp {
namespace {

/// Precedes the bytes. Both ends are the same program on like machines: no byte order.
struct Header {
  std::uint64_t sequence;
  std::uint64_t bytes;
  std::uint64_t fingerprint;
};

/// What is left of header and bytes after the first `done`, for one system call.
class Rest {
 public:
  Rest(Header& header, void* data, std::size_t bytes, std::size_t done) {
    // A call moves any number of bytes: what is left may begin inside the header.
    const std::size_t of_header = std::min(done, sizeof(header));
    const std::size_t of_data = done - of_header;
    parts_[0] = {reinterpret_cast<char*>(&header) + of_header, sizeof(header) - of_header};
    parts_[1] = {static_cast<char*>(data) + of_data, bytes - of_data};
    message_.msg_iov = parts_;
    // A part may be empty: the kernel skips it.
    message_.msg_iovlen = 2;
  }
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;
  [[nodiscard]] msghdr* message() { return &message_; }

 private:
  iovec parts_[2];
  msghdr message_{};
};

/// How much the system call moved; 0 when nothing could be, without waiting.
std::size_t moved(ssize_t result, int peer) {
  if (result > 0) {
    return static_cast<std::size_t>(result);
  }
  if (result == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    throw std::runtime_error(fmt::format("the connection with rank {} is closed", peer));
  }
  return 0;
}

void wait_for(int fd, short events, int peer, HubChannel::Deadline deadline) {
  if (!ddprun::net::wait_ready(fd, events, deadline)) {
    // is_gloo_timeout() looks for this text.
    throw std::runtime_error("Timed out waiting for rank " + std::to_string(peer));
  }
}

}  // namespace

void HubChannel::send(int to, Call call, const void* data, std::size_t bytes, Deadline deadline) {
  Header header{call.sequence, bytes, call.fingerprint};
  for (std::size_t done = 0; done < sizeof(header) + bytes;) {
    // iovec has no const; sendmsg(2) only reads.
    Rest rest(header, const_cast<void*>(data), bytes, done);
    // Header and bytes in one call: with TCP_NODELAY two would be two packets.
    const ssize_t sent = ::sendmsg(link(to), rest.message(), MSG_NOSIGNAL | MSG_DONTWAIT);
    const std::size_t count = moved(sent, to);
    done += count;
    // Tried before it is waited for: a small tensor mostly finds its room.
    if (count == 0) {
      wait_for(link(to), POLLOUT, to, deadline);
    }
  }
}

/// Bytes go straight into the tensor; a call that throws leaves it undefined, and the group ends.
void HubChannel::recv(int from, Call call, void* data, std::size_t bytes, Deadline deadline) {
  Header header{};
  for (std::size_t done = 0; done < sizeof(header) + bytes;) {
    Rest rest(header, data, bytes, done);
    const ssize_t got = ::recvmsg(link(from), rest.message(), MSG_DONTWAIT);
    const std::size_t count = moved(got, from);
    done += count;
    if (count == 0) {
      wait_for(link(from), POLLIN, from, deadline);
    }
    // A rank that runs another operation is found out by the header, not by wrong numbers.
    if (done < sizeof(header)) {
      continue;
    }
    if (header.sequence != call.sequence) {
      throw OtherOperation(fmt::format("rank {} runs operation #{}, this rank #{}", from,
                                       header.sequence, call.sequence));
    }
    if (header.fingerprint != call.fingerprint || header.bytes != bytes) {
      throw OtherOperation(fmt::format(
          "rank {} runs another operation #{}, or the same with a tensor of another size or type",
          from, header.sequence));
    }
  }
}

std::size_t HubChannel::try_send(int to, const void* data, std::size_t bytes) {
  return bytes == 0 ? 0 : moved(::send(link(to), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT), to);
}

std::size_t HubChannel::try_recv(int from, void* data, std::size_t bytes) {
  return bytes == 0 ? 0 : moved(::recv(link(from), data, bytes, MSG_DONTWAIT), from);
}

void HubChannel::wait(int peer, bool send, Deadline deadline) {
  wait_for(link(peer), static_cast<short>(send ? POLLIN | POLLOUT : POLLIN), peer, deadline);
}

void HubChannel::abort() noexcept {
  // On any thread and without a lock: the list never changes.
  for (const ddprun::Fd& link : links_) {
    // Rank 0 has no link to itself, and the others have one to rank 0 only.
    if (link) {
      ::shutdown(link.get(), SHUT_RDWR);  // keeps the number taken; a waiting poll() returns
    }
  }
}

}  // namespace ddp
