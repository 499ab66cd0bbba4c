// Operation: one collective or message as a value, from the checks at the public edge to a backend.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "ddp/export.h"
#include "ddp/process_group.h"
#include "ddp/tensor.h"
#include "worker_runtime/bootstrap/peer_watch.h"

namespace ddp {

struct Operation {
  enum class Kind : std::uint8_t {
    all_reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    barrier,
    send,
    recv,
  };
  Kind kind = Kind::barrier;
  Tensor input = {};   ///< read by all_gather, reduce_scatter and send
  Tensor output = {};  ///< written; all_reduce and broadcast work in place on it
  ReduceOp op = ReduceOp::sum;
  int peer = 0;  ///< root, destination or source
  int tag = 0;
  std::uint64_t sequence = 0;

  [[nodiscard]] bool is_message() const { return kind == Kind::send || kind == Kind::recv; }
};

/// Two ranks have different ones, all but one time in 65,536, where they issue different operations
/// or give tensors of another size or type: as a part of what their messages are matched by, it
/// leaves such ranks unmatched.
std::uint16_t fingerprint(const Operation& operation);

// Exported for the GPU library, which is a backend too.

/// "all_reduce", ...
DDP_EXPORT const char* name_of(Operation::Kind kind);
/// "all_reduce #12 (f32[1000])": how an error names it.
DDP_EXPORT std::string to_text(const Operation& operation);

/// The exceptions that backends throw for `operation`; the sentences are made here alone.
DDP_EXPORT std::exception_ptr peer_lost(const Operation& operation, const PeerLoss& loss);
DDP_EXPORT std::exception_ptr timed_out(const Operation& operation,
                                        std::chrono::milliseconds timeout);
DDP_EXPORT std::exception_ptr differs(const Operation& operation, const std::string& what);
DDP_EXPORT std::exception_ptr aborted(const Operation& operation, const std::string& reason);

}  // namespace ddp
