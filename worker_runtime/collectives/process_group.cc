#include "ddp/process_group.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstring>
#include <functional>

#include "ddp/error.h"
#include "worker_runtime/collectives/collective_progress.h"
#include "worker_runtime/collectives/operation.h"

namespace ddp {
namespace {

void require_defined(const Tensor& tensor, const char* operation) {
  if (!tensor.defined()) {
    throw InvalidArgument(std::string(operation) + ": the tensor has no memory");
  }
}

/// For all_gather and reduce_scatter: `whole` is `ranks` times `part`, of one type, on one device.
void require_parts(const Tensor& whole, const Tensor& part, int ranks, const char* operation) {
  require_defined(whole, operation);
  require_defined(part, operation);
  if (whole.dtype() != part.dtype() || whole.device() != part.device()) {
    throw InvalidArgument(std::string(operation) + ": input and output differ in type or device");
  }
  // Before anything is sent: a rank with a wrong size throws, and the group is still whole.
  if (whole.size() != part.size() * static_cast<std::size_t>(ranks)) {
    throw InvalidArgument(fmt::format("{}: {} elements are not {} times {}", operation,
                                      whole.size(), ranks, part.size()));
  }
}

/// A part that another rank's elements come into would be sent before or after that.
void require_own_part(const Tensor& input, const Tensor& output, int rank) {
  const auto* const part = static_cast<const std::byte*>(input.raw());
  const auto* const whole = static_cast<const std::byte*>(output.raw());
  const std::less_equal<> is_before;
  const bool apart =
      is_before(part + input.size_bytes(), whole) || is_before(whole + output.size_bytes(), part);
  if (!apart && part != whole + static_cast<std::size_t>(rank) * input.size_bytes()) {
    throw InvalidArgument(
        "all_gather: the input lies in the output, and not in this rank's own part of it");
  }
}

}  // namespace

Work::State::~State() = default;
bool Work::done() const {
  return !state_ || state_->done();
}
void Work::wait() {
  if (state_) {
    state_->wait();
  }
}

ProcessGroup::ProcessGroup(int rank, int size)
    : rank_(rank), size_(size), marks_(std::make_unique<CollectiveProgress>()) {}
ProcessGroup::~ProcessGroup() = default;

void tell_collectives(ProcessGroup& group, const CollectiveProgress& marks) {
  *group.marks_ = marks;
}

Operation ProcessGroup::numbered(Operation operation) {
  // Every rank numbers in the order of its calls. The number is the tag on the wire, and what the
  // hang diagnosis compares.
  operation.sequence = ++collectives_;
  marks_->entered(operation);
  return operation;
}

void ProcessGroup::issue_and_wait(Operation operation) {
  issue(std::move(operation)).wait();
}

Work ProcessGroup::message(Operation operation) {
  // Counted apart: two ranks exchange messages without the others, whose numbers would then differ.
  operation.sequence = ++messages_;
  return issue(std::move(operation));
}

void ProcessGroup::check_rank(int rank, const char* operation, const char* role) const {
  if (rank < 0 || rank >= size_) {
    throw InvalidArgument(
        fmt::format("{}: {} {} is not in a world of {}", operation, role, rank, size_));
  }
}

void ProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op) {
  issue_and_wait(all_reduce_of(tensor, op));
}

Work ProcessGroup::all_reduce_async(const Tensor& tensor, ReduceOp op) {
  return issue(all_reduce_of(tensor, op));
}

Operation ProcessGroup::all_reduce_of(const Tensor& tensor, ReduceOp op) {
  // Here and below, checks come before the number: a refused operation takes no number, or the
  // ranks' numbers would differ.
  require_defined(tensor, "all_reduce");
  check_device(tensor);
  return numbered({.kind = Operation::Kind::all_reduce, .output = tensor, .op = op});
}

void ProcessGroup::broadcast(const Tensor& tensor, int root) {
  issue_and_wait(broadcast_of(tensor, root));
}

Work ProcessGroup::broadcast_async(const Tensor& tensor, int root) {
  return issue(broadcast_of(tensor, root));
}

Operation ProcessGroup::broadcast_of(const Tensor& tensor, int root) {
  require_defined(tensor, "broadcast");
  check_device(tensor);
  check_rank(root, "broadcast", "root");
  return numbered({.kind = Operation::Kind::broadcast, .output = tensor, .peer = root});
}

void ProcessGroup::all_gather(const Tensor& input, const Tensor& output) {
  require_parts(output, input, size_, "all_gather");
  check_device(input);
  require_own_part(input, output, rank_);
  issue_and_wait(numbered({.kind = Operation::Kind::all_gather, .input = input, .output = output}));
}

void ProcessGroup::reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  require_parts(input, output, size_, "reduce_scatter");
  check_device(input);
  issue_and_wait(numbered(
      {.kind = Operation::Kind::reduce_scatter, .input = input, .output = output, .op = op}));
}

void ProcessGroup::barrier() {
  issue_and_wait(numbered({.kind = Operation::Kind::barrier}));
}

void ProcessGroup::send(const Tensor& tensor, int to, int tag) {
  send_async(tensor, to, tag).wait();
}

void ProcessGroup::recv(const Tensor& tensor, int from, int tag) {
  recv_async(tensor, from, tag).wait();
}

Work ProcessGroup::send_async(const Tensor& tensor, int to, int tag) {
  require_defined(tensor, "send");
  check_device(tensor);
  check_rank(to, "send", "destination");
  // A rank that sends to itself would wait for its own recv for ever.
  if (to == rank_ || tag < 0) {
    throw InvalidArgument("send: a rank cannot send to itself, and tags start at 0");
  }
  return message({.kind = Operation::Kind::send, .input = tensor, .peer = to, .tag = tag});
}

Work ProcessGroup::recv_async(const Tensor& tensor, int from, int tag) {
  require_defined(tensor, "recv");
  check_device(tensor);
  check_rank(from, "recv", "source");
  if (from == rank_ || tag < 0) {
    throw InvalidArgument("recv: a rank cannot receive from itself, and tags start at 0");
  }
  return message({.kind = Operation::Kind::recv, .output = tensor, .peer = from, .tag = tag});
}

std::string ProcessGroup::broadcast_bytes(std::string_view bytes, int root) {
  Tensor length = Tensor::from({static_cast<std::int64_t>(bytes.size())});
  // The length first: the other ranks have to offer memory for the content.
  broadcast(length, root);
  Tensor content = Tensor::empty({length.item<std::int64_t>()}, DType::u8);
  if (rank_ == root) {
    content.copy_from_host(bytes.data());
  }
  broadcast(content, root);
  return content.size() == 0 ? std::string()
                             : std::string(static_cast<const char*>(content.raw()), content.size());
}

std::vector<std::string> ProcessGroup::all_gather_bytes(std::string_view bytes) {
  const Tensor length = Tensor::from({static_cast<std::int64_t>(bytes.size())});
  const Tensor lengths = Tensor::empty({size_}, DType::i64);
  all_gather(length, lengths);
  const auto sizes = lengths.values<std::int64_t>();
  // Equal parts, so that one collective does: each as long as the longest.
  std::int64_t longest = 0;
  for (const std::int64_t size : sizes) {
    longest = std::max(longest, size);
  }
  const Tensor mine = Tensor::zeros({longest}, DType::u8);
  if (!bytes.empty()) {
    std::memcpy(mine.raw(), bytes.data(), bytes.size());
  }
  const Tensor all = Tensor::empty({size_, longest}, DType::u8);
  all_gather(mine, all);
  std::vector<std::string> result;
  for (int rank = 0; rank < size_; ++rank) {
    const auto size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]);
    const char* part = static_cast<const char*>(all.raw()) + rank * longest;
    // The padding is cut off again.
    result.emplace_back(size == 0 ? std::string() : std::string(part, size));
  }
  return result;
}

}  // namespace ddp
