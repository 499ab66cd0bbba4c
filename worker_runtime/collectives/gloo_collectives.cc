#include "worker_runtime/collectives/gloo_collectives.h"

#include <string_view>
#include <vector>

#include "worker_runtime/collectives/exchange_all_reduce.h"
#include "worker_runtime/collectives/pair_all_reduce.h"
#include "worker_runtime/collectives/reduction.h"

namespace ddp {
namespace {

using Run = CollectiveRun;

/// Up to this much for rank 0 to take in, a tensor goes by the star: two messages one after the
/// other, without Gloo's notices, which is what counts for small ones. On one host the star
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

/// Rank 0 reduces in rank order and hands the result round: every rank has the same bits.
void star_all_reduce(const Run& run) {
  const Tensor& tensor = run.operation.output;
  const std::size_t bytes = tensor.size_bytes();
  const HubChannel::Call call = run.call();
  if (run.rank() != 0) {
    run.star.send(0, call, tensor.raw(), bytes, run.deadline);
    run.star.recv(0, call, tensor.raw(), bytes, run.deadline);
    return;
  }
  std::byte* memory = run.scratch.at_least(bytes * static_cast<std::size_t>(run.size() - 1));
  std::vector<const void*> parts = {tensor.raw()};
  for (int rank = 1; rank < run.size(); ++rank, memory += bytes) {
    // In the order of ranks, not of arrival: the bits of a floating-point sum depend on it.
    run.star.recv(rank, call, memory, bytes, run.deadline);
    parts.push_back(memory);
  }
  reduce_parts(tensor.dtype(), run.operation.op, tensor.raw(), parts, tensor.size());
  for (int rank = 1; rank < run.size(); ++rank) {
    run.star.send(rank, call, tensor.raw(), bytes, run.deadline);
  }
}

void all_reduce(const Run& run) {
  if (fits_star(run, run.operation.output)) {
    star_all_reduce(run);
  } else if (run.size() == 2) {
    pair_all_reduce(run);
  } else {
    exchange_all_reduce(run);
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

/// Every rank sends each other one its part; then each reduces its own in rank order.
void reduce_scatter(const Run& run) {
  const Tensor& result = run.operation.output;
  const Tensor& input = run.operation.input;
  const std::size_t bytes = result.size_bytes();
  // One place for each rank's part: they are reduced in rank order, whichever came first.
  std::byte* memory = run.scratch.at_least(input.size_bytes());
  Transfer out = run.transfer(input);
  Transfer in(run.board, run.context, memory, input.size_bytes());
  std::vector<const void*> parts(static_cast<std::size_t>(run.size()));
  for (int distance = 1; distance < run.size(); ++distance) {
    const int from = run.beyond(-distance);
    const std::size_t first = static_cast<std::size_t>(from) * bytes;
    in.recv(from, run.slot(), first, bytes);
    parts[static_cast<std::size_t>(from)] = memory + first;
  }
  for (int distance = 1; distance < run.size(); ++distance) {
    const int to = run.beyond(distance);
    out.send(to, run.slot(), static_cast<std::size_t>(to) * bytes, bytes);
  }
  in.wait(run.deadline);
  out.wait(run.deadline);
  const auto own = static_cast<std::size_t>(run.rank());
  parts[own] = static_cast<const std::byte*>(input.raw()) + own * bytes;
  reduce_parts(result.dtype(), run.operation.op, result.raw(), parts, result.size());
}

/// Rank 0 hears from everybody, then everybody from rank 0.
void barrier(const Run& run) {
  const HubChannel::Call call = run.call();
  if (run.rank() != 0) {
    run.star.send(0, call, nullptr, 0, run.deadline);
    run.star.recv(0, call, nullptr, 0, run.deadline);
    return;
  }
  for (int rank = 1; rank < run.size(); ++rank) {
    run.star.recv(rank, call, nullptr, 0, run.deadline);
  }
  for (int rank = 1; rank < run.size(); ++rank) {
    run.star.send(rank, call, nullptr, 0, run.deadline);
  }
}

}  // namespace

void run_on_gloo(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                 TransferBoard& board, HubChannel& star, ScratchMemory& scratch,
                 std::chrono::milliseconds timeout) {
  if (operation.kind != Operation::Kind::barrier && operation.output.size() == 0) {
    return;  // the same on every rank: nothing to send
  }
  const Run run{operation, context, board,
                star,      scratch, std::chrono::steady_clock::now() + timeout};
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
