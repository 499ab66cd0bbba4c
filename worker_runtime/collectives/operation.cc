#include "worker_runtime/collectives/operation.h"

#include <fmt/core.h>

#include "ddp/error.h"
#include "rendezvous/base/text.h"

namespace ddp {

const char* name_of(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::all_reduce:
      return "all_reduce";
    case Operation::Kind::broadcast:
      return "broadcast";
    case Operation::Kind::all_gather:
      return "all_gather";
    case Operation::Kind::reduce_scatter:
      return "reduce_scatter";
    case Operation::Kind::barrier:
      return "barrier";
    case Operation::Kind::send:
      return "send";
    case Operation::Kind::recv:
      return "recv";
  }
  return "operation";
}

std::uint16_t fingerprint(const Operation& operation) {
  // The two ends of a message give one tensor each; who sends and who receives is in its direction.
  const bool reduces = operation.kind == Operation::Kind::all_reduce ||
                       operation.kind == Operation::Kind::reduce_scatter;
  const Tensor& tensor = operation.output.defined() ? operation.output : operation.input;
  const std::uint64_t parts[] = {
      operation.is_message() ? 0U : static_cast<std::uint64_t>(operation.kind) + 1,
      static_cast<std::uint64_t>(tensor.dtype()),
      reduces ? static_cast<std::uint64_t>(operation.op) + 1 : 0U,
      operation.kind == Operation::Kind::broadcast ? static_cast<std::uint64_t>(operation.peer) + 1
                                                   : 0U,
      tensor.size()};
  // FNV-1a of 64 bits, a word at a time, and its upper bits, which depend on all others.
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::uint64_t part : parts) {
    hash = (hash ^ part) * 0x100000001b3U;
    hash ^= hash >> 29U;
  }
  return static_cast<std::uint16_t>((hash * 0x9e3779b97f4a7c15U) >> 48U);
}

std::string to_text(const Operation& operation) {
  std::string text = fmt::format("{} #{}", name_of(operation.kind), operation.sequence);
  // A send has an input and no output.
  const Tensor& tensor = operation.output.defined() ? operation.output : operation.input;
  if (tensor.defined()) {
    text += " (" + std::string(name_of(tensor.dtype())) + to_text(tensor.shape());
    if (operation.kind == Operation::Kind::send) {
      text += " to rank " + std::to_string(operation.peer);
    } else if (operation.kind == Operation::Kind::recv) {
      text += " from rank " + std::to_string(operation.peer);
    }
    text += ")";
  }
  return text;
}

std::exception_ptr peer_lost(const Operation& operation, const PeerLoss& loss) {
  // -1: the world is broken, and no rank can be named.
  const std::optional<int> peer = loss.rank >= 0 ? std::optional(loss.rank) : std::nullopt;
  const std::string why =
      peer ? fmt::format("rank {} is gone", *peer) : std::string("the group is broken");
  return std::make_exception_ptr(
      PeerLost(to_text(operation) + " failed: " + why + " (" + loss.reason + ")",
               name_of(operation.kind), operation.sequence, peer));
}

std::exception_ptr timed_out(const Operation& operation, std::chrono::milliseconds timeout) {
  // A collective waits for all, so only the source or destination of a message can be named.
  const std::optional<int> peer =
      operation.is_message() ? std::optional(operation.peer) : std::nullopt;
  return std::make_exception_ptr(
      Timeout(to_text(operation) + " did not finish within " + ddprun::exact_seconds_text(timeout) +
                  "; a rank hangs, is stopped, or did not issue the same operation",
              name_of(operation.kind), operation.sequence, peer));
}

std::exception_ptr differs(const Operation& operation, const std::string& what) {
  return std::make_exception_ptr(OperationError(to_text(operation) + " failed: " + what,
                                                name_of(operation.kind), operation.sequence,
                                                std::nullopt));
}

std::exception_ptr aborted(const Operation& operation, const std::string& reason) {
  return std::make_exception_ptr(Aborted(to_text(operation) + " was aborted: " + reason,
                                         name_of(operation.kind), operation.sequence,
                                         std::nullopt));
}

}  // namespace ddp
