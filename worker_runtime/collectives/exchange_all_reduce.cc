#include "worker_runtime/collectives/exchange_all_reduce.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "worker_runtime/collectives/chunk_layout.h"
#include "worker_runtime/collectives/reduction.h"

namespace ddp {
namespace {

/// What is reduced at a time. Smaller ones cost more notices between the ranks, larger ones leave
/// the processor idle while the first comes in, and the connection while the last is reduced.
constexpr std::size_t kPieceBytes = std::size_t{2} << 20;
/// Pieces that may come in while one is reduced.
constexpr std::size_t kPiecesAhead = 2;

/// The other ranks' parts of one piece of this rank's chunk.
struct Place {
  std::byte* memory;
  std::unique_ptr<Transfer> incoming;
};

class Exchange {
 public:
  explicit Exchange(const CollectiveRun& run)
      : run_(run),
        tensor_(run.operation.output),
        layout_(tensor_.size(), size_of(tensor_.dtype()), run.size(), kPieceBytes),
        whole_(run.board, run.context, tensor_.raw(), tensor_.size_bytes()),
        places_(std::min(kPiecesAhead, layout_.pieces())) {
    const std::size_t place_bytes = layout_.piece_bytes() * static_cast<std::size_t>(run.size());
    std::byte* memory = run.scratch.at_least(place_bytes * places_.size());
    for (Place& place : places_) {
      place = {memory, std::make_unique<Transfer>(run.board, run.context, memory, place_bytes)};
      memory += place_bytes;
    }
  }

  void run() {
    // Receives first: a peer's bytes then have their place when they are offered. A reduced piece
    // comes only from a rank that has this rank's part of it, so nothing is overwritten too early.
    for (std::size_t piece = 0; piece < places_.size(); ++piece) {
      receive_parts(piece);
    }
    for (std::size_t piece = 0; piece < layout_.pieces(); ++piece) {
      for_each_peer([&](int peer) { receive(peer, piece); });
    }
    for (std::size_t piece = 0; piece < layout_.pieces(); ++piece) {
      for_each_peer([&](int peer) { send(peer, peer, piece, there(piece)); });
    }
    for (std::size_t piece = 0; piece < layout_.pieces(); ++piece) {
      reduce(piece);
      for_each_peer([&](int peer) { send(peer, run_.rank(), piece, back(piece)); });
      if (piece + places_.size() < layout_.pieces()) {
        receive_parts(piece + places_.size());
      }
    }
    whole_.wait(run_.deadline);
  }

 private:
  [[nodiscard]] std::uint64_t there(std::size_t piece) const { return run_.slot(2 * piece); }
  [[nodiscard]] std::uint64_t back(std::size_t piece) const { return run_.slot(2 * piece + 1); }
  Place& place(std::size_t piece) { return places_[piece % places_.size()]; }

  /// By distance, so that no rank is everybody's first.
  template <class F>
  void for_each_peer(F&& f) {
    for (int distance = 1; distance < run_.size(); ++distance) {
      f(run_.beyond(distance));
    }
  }

  /// A piece of `owner`'s chunk.
  void send(int to, int owner, std::size_t piece, std::uint64_t slot) {
    if (const std::size_t bytes = layout_.bytes(owner, piece); bytes > 0) {
      whole_.send(to, slot, layout_.begin_byte(owner, piece), bytes);
    }
  }
  void receive(int owner, std::size_t piece) {
    if (const std::size_t bytes = layout_.bytes(owner, piece); bytes > 0) {
      whole_.recv(owner, back(piece), layout_.begin_byte(owner, piece), bytes);
    }
  }
  void receive_parts(std::size_t piece) {
    if (const std::size_t bytes = layout_.bytes(run_.rank(), piece); bytes > 0) {
      for_each_peer([&](int peer) {
        place(piece).incoming->recv(peer, there(piece),
                                    static_cast<std::size_t>(peer) * layout_.piece_bytes(), bytes);
      });
    }
  }

  void reduce(std::size_t piece) {
    place(piece).incoming->wait(run_.deadline);
    auto* own = static_cast<std::byte*>(tensor_.raw()) + layout_.begin_byte(run_.rank(), piece);
    parts_.clear();
    for (int rank = 0; rank < run_.size(); ++rank) {
      parts_.push_back(rank == run_.rank() ? own
                                           : place(piece).memory + static_cast<std::size_t>(rank) *
                                                                       layout_.piece_bytes());
    }
    reduce_parts(tensor_.dtype(), run_.operation.op, own, parts_,
                 layout_.count(run_.rank(), piece));
  }

  const CollectiveRun& run_;
  const Tensor& tensor_;
  ChunkLayout layout_;
  Transfer whole_;
  std::vector<Place> places_;
  std::vector<const void*> parts_;  // one piece's, in rank order
};

}  // namespace

void exchange_all_reduce(const CollectiveRun& run) {
  Exchange(run).run();
}

}  // namespace ddp
