// ProcessGroup: operations between the ranks of a world. CPU tensors travel by Gloo; CUDA tensors
// by NCCL where the group has a GPU. Obtained from ddp::init(), never made by hand.
//
// Every rank issues the same collectives in the same order, with tensors of the same sizes and
// types. One that does not is found out, on CPU all but one time in 65,536: an OperationError where
// it is seen at once, else a Timeout; never a tensor that is filled half. Results do not depend on
// timing: the same world size and the same inputs give the same bits on every rank and in every
// run.
//
// Errors: a wrong argument throws InvalidArgument and changes nothing. When a peer is gone every
// rank's pending and later operations throw PeerLost, naming operation, sequence number and, where
// known, the peer; on CPU within a second. A peer that hangs surfaces as Timeout on the first rank
// that notices, and as PeerLost on the others. After either the group is dead. Nothing here waits
// for ever.
//
// One thread at a time issues collectives: their order is what ranks match them by. Messages may be
// issued on another one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/export.h"
#include "ddp/tensor.h"

namespace ddp {

/// avg divides the sum by the world size (integers: rounded towards zero). Sums and products of
/// integers wrap round where the type is too small for them, before avg divides, too. With a NaN on
/// some rank, sum, product and avg are NaN, and min and max may be.
enum class ReduceOp : std::uint8_t { sum, min, max, product, avg };

/// A collective or message as one value; what the backends are handed. Not for callers.
struct Operation;

/// Where a group tells the agent which collective it is in. Not for callers.
class CollectiveProgress;

/// Handle of an operation that goes on. Copies share it. Dropping it neither waits nor cancels: the
/// operation keeps its tensors alive until it is done.
class DDP_EXPORT Work {
 public:
  struct State {
    virtual ~State();
    virtual bool done() const = 0;
    virtual void wait() = 0;
  };

  /// A finished one.
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// True once it has finished, well or badly. Never throws.
  [[nodiscard]] bool done() const;
  /// Blocks until the result is in the tensors, or throws what went wrong; again and again on
  /// repeat. At most the group's timeout and a second after the operation was started.
  void wait();

 private:
  std::shared_ptr<State> state_;
};

class DDP_EXPORT ProcessGroup {
 public:
  virtual ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// "gloo", "nccl" (Gloo for CPU tensors all the same) or "alone" (a world of one).
  [[nodiscard]] virtual std::string_view backend() const = 0;

  // Collectives. Tensors of any dtype, contiguous by nature, on the CPU or on this rank's GPU.
  // _async forms return at once; the tensors must not be touched until wait(). Operations run in
  // the order in which they were issued; those on CPU tensors that nobody waits for at once on a
  // thread of the group's own.

  void all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum);
  [[nodiscard]] Work all_reduce_async(const Tensor& tensor, ReduceOp op = ReduceOp::sum);
  /// Overwrites `tensor` on every rank with that of `root`.
  void broadcast(const Tensor& tensor, int root);
  [[nodiscard]] Work broadcast_async(const Tensor& tensor, int root);
  /// `output` holds size() times as many elements as `input`: the inputs in rank order. `input` may
  /// be this rank's own part of it, and shares no other memory with it.
  void all_gather(const Tensor& input, const Tensor& output);
  /// `input` holds size() times as many elements as `output`: rank r receives the reduction of
  /// every rank's r-th part. `input` is left as it was.
  void reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op = ReduceOp::sum);
  /// Returns when every rank has called it.
  void barrier();

  // Messages between two ranks. Matched by (from, to, tag) in the order of issue. A send waits for
  // its recv. They do not wait for collectives on CPU tensors that were issued before, so two ranks
  // may swap tensors with _async forms. Sending to oneself is an InvalidArgument.

  void send(const Tensor& tensor, int to, int tag = 0);
  void recv(const Tensor& tensor, int from, int tag = 0);
  [[nodiscard]] Work send_async(const Tensor& tensor, int to, int tag = 0);
  [[nodiscard]] Work recv_async(const Tensor& tensor, int from, int tag = 0);

  // Small byte strings of any length, over the CPU transport. Collectives like the others.

  /// Returns root's bytes on every rank; what others pass is ignored.
  [[nodiscard]] std::string broadcast_bytes(std::string_view bytes, int root);
  /// Every rank's bytes, in rank order.
  [[nodiscard]] std::vector<std::string> all_gather_bytes(std::string_view bytes);

  /// Kills the group: pending and later operations throw Aborted here, PeerLost on the others.
  virtual void abort(std::string_view reason) = 0;

 protected:
  ProcessGroup(int rank, int size);
  [[nodiscard]] const CollectiveProgress& marks() const { return *marks_; }

 private:
  friend void tell_collectives(ProcessGroup& group, const CollectiveProgress& marks);
  /// The one thing that a backend does. The arguments have been checked.
  virtual Work issue(Operation operation) = 0;
  /// As issue(...).wait(), for a backend that has a shorter way.
  virtual void issue_and_wait(Operation operation);
  // The checked and numbered operations.
  Operation numbered(Operation operation);
  Operation all_reduce_of(const Tensor& tensor, ReduceOp op);
  Operation broadcast_of(const Tensor& tensor, int root);
  Work message(Operation operation);
  /// Throws InvalidArgument unless this group can reach the tensor's memory.
  virtual void check_device(const Tensor& tensor) const = 0;
  void check_rank(int rank, const char* operation, const char* role) const;

  int rank_;
  int size_;
  std::uint64_t collectives_ = 0;
  std::uint64_t messages_ = 0;
  std::unique_ptr<CollectiveProgress> marks_;  ///< never null
};

}  // namespace ddp
