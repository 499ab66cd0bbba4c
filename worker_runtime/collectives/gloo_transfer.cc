#include "worker_runtime/collectives/gloo_transfer.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <string>

namespace ddp {
namespace {

[[noreturn]] void throw_aborted() {
  throw gloo::IoException("the group was ended");
}

/// 0 would mean for ever to Gloo.
std::chrono::milliseconds left_until(Transfer::Deadline deadline) {
  // Rounded up: 0.4 ms that are left are not a deadline that has passed.
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

}  // namespace

void TransferBoard::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (auto* buffer : buffers_) {
    // Gloo remembers this for a wait that has not begun yet.
    buffer->abortWaitSend();
    buffer->abortWaitRecv();
  }
}

void TransferBoard::add(gloo::transport::UnboundBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  if (aborted_) {
    throw_aborted();
  }
  buffers_.insert(buffer);
}

void TransferBoard::remove(gloo::transport::UnboundBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  // Under the lock, so abort() never touches a buffer that is gone.
  buffers_.erase(buffer);
}

Transfer::Transfer(TransferBoard& board, const std::shared_ptr<gloo::Context>& context, void* data,
                   std::size_t bytes)
    : board_(board), buffer_(context->createUnboundBuffer(data, bytes)) {
  // From here on abort() reaches the buffer; after an abort this throws.
  board_.add(buffer_.get());
}

Transfer::~Transfer() {
  board_.remove(buffer_.get());
}

void Transfer::send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  buffer_->send(to, slot, offset, bytes);
  ++sends_;
}

void Transfer::recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  buffer_->recv(from, slot, offset, bytes);
  ++recvs_;
}

void Transfer::wait(Deadline deadline) {
  for (; recvs_ > 0; --recvs_) {
    // Only abort() makes it false; a timeout is an exception of Gloo's.
    if (!buffer_->waitRecv(left_until(deadline))) {
      throw_aborted();
    }
  }
  for (; sends_ > 0; --sends_) {
    if (!buffer_->waitSend(left_until(deadline))) {
      throw_aborted();
    }
  }
}

}  // namespace ddp
