#include "worker_runtime/collectives/gloo_collectives.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace ddp {
namespace {

using Reduce = std::function<void(void*, const void*, const void*, std::size_t)>;

/// c[i] = a[i] op b[i]; c may be a or b. avg sums; the division comes last.
template <class T>
Reduce reduction(ReduceOp op) {
  const auto each = [](auto combine) {
    return [combine](void* c, const void* a, const void* b, std::size_t count) {
      auto* out = static_cast<T*>(c);
      const auto* left = static_cast<const T*>(a);
      const auto* right = static_cast<const T*>(b);
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<T>(combine(left[i], right[i]));
      }
    };
  };
  switch (op) {
    case ReduceOp::min:
      return each([](T a, T b) { return std::min(a, b); });
    case ReduceOp::max:
      return each([](T a, T b) { return std::max(a, b); });
    case ReduceOp::product:
      return each([](T a, T b) { return a * b; });
    case ReduceOp::sum:
    case ReduceOp::avg:
      break;
  }
  return each([](T a, T b) { return a + b; });
}

/// Calls f with a null pointer of the C++ type of `dtype`.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(static_cast<float*>(nullptr));
    case DType::f64:
      return f(static_cast<double*>(nullptr));
    case DType::i32:
      return f(static_cast<std::int32_t*>(nullptr));
    case DType::i64:
      return f(static_cast<std::int64_t*>(nullptr));
    case DType::u8:
      break;
  }
  return f(static_cast<std::uint8_t*>(nullptr));
}

Reduce reduction(DType dtype, ReduceOp op) {
  return with_type(
      dtype, [op](auto* type) { return reduction<std::remove_pointer_t<decltype(type)>>(op); });
}

void divide(const Tensor& tensor, int divisor) {
  with_type(tensor.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (T& value : tensor.values<T>()) {
      value = static_cast<T>(value / static_cast<T>(divisor));
    }
  });
}

/// One collective on its way. The algorithms below move bytes in a pattern that depends on ranks
/// and sizes alone, and combine elements in a fixed order: results never depend on who came first.
struct Run {
  const Operation& operation;
  const std::shared_ptr<gloo::Context>& context;
  TransferBoard& board;
  HubChannel& star;
  Transfer::Deadline deadline;

  [[nodiscard]] int rank() const { return context->rank; }
  [[nodiscard]] int size() const { return context->size; }
  [[nodiscard]] int beyond(int distance) const { return (rank() + distance + size()) % size(); }
  /// Unique between two ranks: messages use other prefixes, and every collective its sequence.
  [[nodiscard]] std::uint64_t slot(int step = 0) const {
    // The sequence wraps after 2^32 collectives, when those of the old numbers are long over. 16
    // bits hold the 2 (n - 1) steps of a ring.
    constexpr std::uint64_t kCollectivePrefix = std::uint64_t{0x41} << 56;
    return kCollectivePrefix | (operation.sequence & 0xffffffffU) << 16 |
           static_cast<std::uint16_t>(step);
  }
  [[nodiscard]] Transfer transfer(const Tensor& tensor) const {
    return Transfer(board, context, tensor.raw(), tensor.size_bytes());
  }
};

/// Up to this much for rank 0 to take in, a tensor goes by the star: two messages one after the
/// other instead of a ring's 2 (n - 1), which is what counts for small ones. On one host the star
/// wins well beyond (four ranks, 128 KiB each: 0.11 ms against 2.6); at 10 Gbit/s rank 0's link
/// makes the two about equal here.
constexpr std::size_t kStarBytesMax = 512UL * 1024;

bool fits_star(const Run& run, const Tensor& tensor) {
  return tensor.size_bytes() * static_cast<std::size_t>(run.size()) <= kStarBytesMax;
}

/// Everybody's tensor, in rank order, on every rank. `own` is this rank's.
void exchange_all(const Run& run, const Tensor& own, const Tensor& all) {
  const std::size_t bytes = own.size_bytes();
  Transfer out = run.transfer(own);
  Transfer in = run.transfer(all);
  // Receives first: a peer's bytes then have their place when they are offered.
  for (int distance = 1; distance < run.size(); ++distance) {
    const int peer = run.beyond(-distance);
    in.recv(peer, run.slot(), static_cast<std::size_t>(peer) * bytes, bytes);
  }
  // By distance, so that no rank is everybody's first.
  for (int distance = 1; distance < run.size(); ++distance) {
    out.send(run.beyond(distance), run.slot(), 0, bytes);
  }
  in.wait(run.deadline);
  out.wait(run.deadline);
  all.view(static_cast<std::size_t>(run.rank()) * own.size(), own.size()).copy_from(own);
}

/// result = parts[0] op parts[1] op ..., in rank order.
void combine(const Run& run, const Tensor& parts, const Tensor& result) {
  const Reduce reduce = reduction(result.dtype(), run.operation.op);
  result.copy_from(parts.view(0, result.size()));
  for (int rank = 1; rank < run.size(); ++rank) {
    const Tensor part = parts.view(static_cast<std::size_t>(rank) * result.size(), result.size());
    reduce(result.raw(), result.raw(), part.raw(), result.size());
  }
}

/// Rank 0 adds up in rank order and hands the result round: every rank has the same bits.
void star_all_reduce(const Run& run) {
  const Tensor& tensor = run.operation.output;
  const std::size_t bytes = tensor.size_bytes();
  const std::uint64_t sequence = run.operation.sequence;
  if (run.rank() != 0) {
    run.star.send(0, sequence, tensor.raw(), bytes, run.deadline);
    run.star.recv(0, sequence, tensor.raw(), bytes, run.deadline);
    return;
  }
  const Reduce reduce = reduction(tensor.dtype(), run.operation.op);
  const Tensor part = Tensor::empty({static_cast<std::int64_t>(tensor.size())}, tensor.dtype());
  for (int rank = 1; rank < run.size(); ++rank) {
    // In the order of ranks, not of arrival: the bits of a floating-point sum depend on it.
    run.star.recv(rank, sequence, part.raw(), bytes, run.deadline);
    reduce(tensor.raw(), tensor.raw(), part.raw(), tensor.size());
  }
  for (int rank = 1; rank < run.size(); ++rank) {
    run.star.send(rank, sequence, tensor.raw(), bytes, run.deadline);
  }
}

/// A ring: reduce-scatter, then all-gather. Each chunk is summed up along a fixed way round, by one
/// rank at a time, and then handed on: every rank has the same bits.
void ring_all_reduce(const Run& run) {
  const Tensor& tensor = run.operation.output;
  const int n = run.size();
  const std::size_t width = size_of(tensor.dtype());
  // Where n does not divide the size the last chunks are short or empty: both ends compute the same
  // counts, and skip the empty ones.
  const std::size_t chunk =
      (tensor.size() + static_cast<std::size_t>(n) - 1) / static_cast<std::size_t>(n);
  const auto begin = [&](int index) {
    return std::min(static_cast<std::size_t>((index + n) % n) * chunk, tensor.size());
  };
  const auto count = [&](int index) { return std::min(chunk, tensor.size() - begin(index)); };
  const Tensor scratch = Tensor::empty({static_cast<std::int64_t>(chunk)}, tensor.dtype());
  const Reduce reduce = reduction(tensor.dtype(), run.operation.op);
  // Chunks leave from the tensor; those to be added come into `scratch`, complete ones into the
  // tensor.
  Transfer whole = run.transfer(tensor);
  Transfer incoming = run.transfer(scratch);
  int step = 0;
  for (int s = 0; s < n - 1; ++s, ++step) {
    const int out = run.rank() - s;
    const int in = run.rank() - s - 1;
    if (count(in) > 0) {
      incoming.recv(run.beyond(-1), run.slot(step), 0, count(in) * width);
    }
    if (count(out) > 0) {
      whole.send(run.beyond(1), run.slot(step), begin(out) * width, count(out) * width);
    }
    incoming.wait(run.deadline);
    auto* target = static_cast<std::uint8_t*>(tensor.raw()) + begin(in) * width;
    reduce(target, target, scratch.raw(), count(in));
    // A later step writes to the chunk that leaves here, so its send ends first.
    whole.wait(run.deadline);
  }
  // Chunk rank + 1 is complete on this rank now; n - 1 more steps take the complete chunks round.
  for (int s = 0; s < n - 1; ++s, ++step) {
    const int out = run.rank() + 1 - s;
    const int in = run.rank() - s;
    if (count(in) > 0) {
      whole.recv(run.beyond(-1), run.slot(step), begin(in) * width, count(in) * width);
    }
    if (count(out) > 0) {
      whole.send(run.beyond(1), run.slot(step), begin(out) * width, count(out) * width);
    }
    whole.wait(run.deadline);
  }
}

void all_reduce(const Run& run) {
  const Tensor& tensor = run.operation.output;
  if (fits_star(run, tensor)) {
    star_all_reduce(run);
  } else {
    ring_all_reduce(run);
  }
  // Every rank divides the same bits by the same number, so the results stay equal.
  if (run.operation.op == ReduceOp::avg) {
    divide(tensor, run.size());
  }
}

/// A binomial tree below the root: log2(n) rounds.
void broadcast(const Run& run) {
  const Tensor& tensor = run.operation.output;
  const int root = run.operation.peer;
  // Places are counted from the root, so any rank can be one.
  const int place = (run.rank() - root + run.size()) % run.size();  // the root's is 0
  Transfer transfer = run.transfer(tensor);
  int reach = 1;  // ranks below this one's place that have it when its turn comes
  while (reach <= place) {
    reach *= 2;
  }
  if (place > 0) {
    const int parent = (place - reach / 2 + root) % run.size();
    transfer.recv(parent, run.slot(), 0, tensor.size_bytes());
    // A rank hands on only what it has in full.
    transfer.wait(run.deadline);
  }
  for (; place + reach < run.size(); reach *= 2) {
    transfer.send((place + reach + root) % run.size(), run.slot(), 0, tensor.size_bytes());
  }
  transfer.wait(run.deadline);
}

/// Every rank sends each other one its part; then each adds up its own in rank order.
void reduce_scatter(const Run& run) {
  const Tensor& result = run.operation.output;
  const Tensor& input = run.operation.input;
  const std::size_t bytes = result.size_bytes();
  // One place for each rank's part: they are added in rank order, whichever came first.
  const Tensor parts = Tensor::empty({static_cast<std::int64_t>(input.size())}, result.dtype());
  Transfer out = run.transfer(input);
  Transfer in = run.transfer(parts);
  for (int distance = 1; distance < run.size(); ++distance) {
    const int from = run.beyond(-distance);
    in.recv(from, run.slot(), static_cast<std::size_t>(from) * bytes, bytes);
  }
  for (int distance = 1; distance < run.size(); ++distance) {
    const int to = run.beyond(distance);
    out.send(to, run.slot(), static_cast<std::size_t>(to) * bytes, bytes);
  }
  in.wait(run.deadline);
  out.wait(run.deadline);
  const std::size_t own = static_cast<std::size_t>(run.rank()) * result.size();
  parts.view(own, result.size()).copy_from(input.view(own, result.size()));
  combine(run, parts, result);
  if (run.operation.op == ReduceOp::avg) {
    divide(result, run.size());
  }
}

/// Rank 0 hears from everybody, then everybody from rank 0.
void barrier(const Run& run) {
  const std::uint64_t sequence = run.operation.sequence;
  if (run.rank() != 0) {
    run.star.send(0, sequence, nullptr, 0, run.deadline);
    run.star.recv(0, sequence, nullptr, 0, run.deadline);
    return;
  }
  for (int rank = 1; rank < run.size(); ++rank) {
    run.star.recv(rank, sequence, nullptr, 0, run.deadline);
  }
  for (int rank = 1; rank < run.size(); ++rank) {
    run.star.send(rank, sequence, nullptr, 0, run.deadline);
  }
}

}  // namespace

void run_on_gloo(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                 TransferBoard& board, HubChannel& star, std::chrono::milliseconds timeout) {
  if (operation.kind != Operation::Kind::barrier && operation.output.size() == 0) {
    return;  // the same on every rank: nothing to send
  }
  const Run run{operation, context, board, star, std::chrono::steady_clock::now() + timeout};
  switch (operation.kind) {
    case Operation::Kind::all_reduce:
      return all_reduce(run);
    case Operation::Kind::broadcast:
      return broadcast(run);
    case Operation::Kind::all_gather:
      return exchange_all(run, operation.input, operation.output);
    case Operation::Kind::reduce_scatter:
      return reduce_scatter(run);
    case Operation::Kind::barrier:
      return barrier(run);
    case Operation::Kind::send:
    case Operation::Kind::recv:
      break;  // messages are posted, not run
  }
}

bool is_gloo_timeout(const std::exception& error) {
  // Gloo has no type for a timeout: these are its texts, and the star's.
  const std::string_view text = error.what();
  return text.find("Timed out") != std::string_view::npos ||
         text.find("timeout") != std::string_view::npos;
}

}  // namespace ddp
