// HubChannel: one TCP connection from every rank to rank 0 for small tensors, used by whoever
// calls, with no thread in between. Gloo takes a notice, an answer and a wake-up of its own thread
// for each message, which for some hundred bytes is nearly all of the time. Moves bytes; what they
// mean is the business of gloo_operations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "rendezvous/base/fd.h"

namespace ddp {

/// Another rank is in another operation than this one.
class OtherOperation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One thread at a time sends and receives; any thread may abort. Throws std::runtime_error when a
/// connection is gone, when the deadline passes ("Timed out ..."), and OtherOperation when the
/// other end gives another call or size.
class HubChannel {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  /// What is called, as both ends have to give it.
  struct Call {
    std::uint64_t sequence = 0;
    std::uint16_t fingerprint = 0;
    friend bool operator==(const Call&, const Call&) = default;
  };

  /// `links` are indexed by rank, as PeerMonitor hands them out.
  explicit HubChannel(std::vector<ddprun::Fd> links) : links_(std::move(links)) {}

  /// Both ends give the same call and size.
  void send(int to, Call call, const void* data, std::size_t bytes, Deadline deadline);
  void recv(int from, Call call, void* data, std::size_t bytes, Deadline deadline);

  // For two streams that go both ways at once. Bytes follow each other as they were given.

  /// As many of the bytes as can be moved without waiting; 0 when none can.
  std::size_t try_send(int to, const void* data, std::size_t bytes);
  std::size_t try_recv(int from, void* data, std::size_t bytes);
  /// Waits until something comes in, or, where `send` is true, can be sent.
  void wait(int peer, bool send, Deadline deadline);

  /// Ends every call, now and later, here and at the other ends. Any number of times.
  void abort() noexcept;

 private:
  [[nodiscard]] int link(int peer) const { return links_[static_cast<std::size_t>(peer)].get(); }

  std::vector<ddprun::Fd> links_;  // never changed, so that abort() needs no lock
};

}  // namespace ddp
