// Transfer: sends and receives of one piece of memory over Gloo's connections, which an abort
// reaches. Gloo's own algorithms keep their buffers to themselves, and one of them can be forgotten
// when its connection breaks in the middle of a write: whoever waits for it then waits for the
// whole timeout. So the collectives are ours (gloo_operations), on top of these.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace ddp {

/// All transfers of a group that somebody may be waiting for. Any thread.
class TransferBoard {
 public:
  /// Ends every wait, now and later, with an exception. Any number of times.
  void abort();

 private:
  friend class Transfer;
  void add(gloo::transport::UnboundBuffer* buffer);
  void remove(gloo::transport::UnboundBuffer* buffer);

  std::mutex mutex_;
  std::set<gloo::transport::UnboundBuffer*> buffers_;
  bool aborted_ = false;
};

/// One thread at a time. Throws what Gloo throws; gloo::IoException after an abort. The memory must
/// stay until everything posted has been waited for, or the group is dead.
class Transfer {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// `board` outlives the transfer.
  Transfer(TransferBoard& board, const std::shared_ptr<gloo::Context>& context, void* data,
           std::size_t bytes);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Both ends use the same `slot`; a slot is used once between two ranks.
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes);
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes);
  /// Everything posted so far.
  void wait(Deadline deadline);

 private:
  TransferBoard& board_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  int sends_ = 0;
  int recvs_ = 0;
};

}  // namespace ddp
