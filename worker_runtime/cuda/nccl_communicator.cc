#include "worker_runtime/cuda/nccl_communicator.h"

#include <utility>

#include "worker_runtime/cuda/bounded_call.h"

namespace ddp {
namespace {

/// An abort waits for kernels that have seen its flag: far less than this, unless the device hangs.
constexpr std::chrono::seconds kAbortPatience{5};

}  // namespace

NcclCommunicator::State NcclCommunicator::connect(const nccl::UniqueId& id, int size, int rank,
                                                  Patience::Deadline deadline) {
  nccl::Config config;
  // So that a lost peer can end the start: a blocking init waits for all ranks for ever.
  config.blocking = 0;
  if (!fine(library_.comm_init_rank_config(&comm_, size, id, rank, &config))) {
    return State::failed;
  }
  return settle(deadline);
}

void NcclCommunicator::begin() {
  took(library_.group_start());
}

void NcclCommunicator::took(nccl::Result result) {
  (void)fine(result);
}

NcclCommunicator::State NcclCommunicator::end(Patience::Deadline deadline) {
  // A group that was begun is ended, whatever became of its calls: the next one would be inside it.
  took(library_.group_end());
  return settle(deadline);
}

NcclCommunicator::State NcclCommunicator::look() {
  if (!problem_.empty() || comm_ == nullptr) {
    return State::failed;
  }
  nccl::Result error = nccl::Result::success;
  // The answer is about the question; what the communicator has is in `error`.
  if (!fine(library_.comm_get_async_error(comm_, &error)) || !fine(error)) {
    return State::failed;
  }
  return error == nccl::Result::in_progress ? State::busy : State::ready;
}

NcclCommunicator::State NcclCommunicator::settle(Patience::Deadline deadline) {
  for (Patience patience(deadline);;) {
    const State state = look();
    if (state != State::busy) {
      return state;
    }
    if (lost_) {
      return State::lost;
    }
    if (!patience.pause()) {
      return State::late;
    }
  }
}

bool NcclCommunicator::finish(std::chrono::milliseconds patience) {
  if (comm_ == nullptr) {
    return true;
  }
  // With a lost rank a finalize never ends: only an abort returns.
  if (lost_ || !problem_.empty() || !fine(library_.comm_finalize(comm_)) ||
      settle(std::chrono::steady_clock::now() + patience) != State::ready) {
    return false;
  }
  library_.comm_destroy(std::exchange(comm_, nullptr));
  return true;
}

bool NcclCommunicator::abort() {
  if (comm_ == nullptr) {
    return true;
  }
  // By value: the thread may outlive this object.
  return returns_within(kAbortPatience, [call = library_.comm_abort,
                                         comm = std::exchange(comm_, nullptr)] { call(comm); });
}

bool NcclCommunicator::fine(nccl::Result result) {
  // A non-blocking communicator answers "in progress", too.
  if (result == nccl::Result::success || result == nccl::Result::in_progress) {
    return true;
  }
  // What follows the first is its consequence.
  if (problem_.empty()) {
    const char* text = library_.get_error_string(result);
    problem_ = text != nullptr ? text : "NCCL error " + std::to_string(static_cast<int>(result));
    if (const char* more = library_.get_last_error(comm_); more != nullptr && *more != '\0') {
      problem_ += std::string(" (") + more + ")";
    }
  }
  return false;
}

}  // namespace ddp
