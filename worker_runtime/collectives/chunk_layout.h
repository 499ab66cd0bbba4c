// ChunkLayout: how a tensor is cut up for an all-reduce. Each rank has a chunk of its own to
// reduce, and goes through it piece by piece. Pure: the same on every rank.
#pragma once

#include <algorithm>
#include <cstddef>

#include "rendezvous/base/check.h"

namespace ddp {

class ChunkLayout {
 public:
  /// `width` bytes an element. Pieces are of `piece_bytes`, more where there would be too many.
  ChunkLayout(std::size_t elements, std::size_t width, int ranks, std::size_t piece_bytes)
      : elements_(elements),
        width_(width),
        chunk_((elements + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks)),
        piece_(std::max(piece_bytes / width, (chunk_ + kPiecesMax - 1) / kPiecesMax)) {
    DDP_CHECK(pieces() <= kPiecesMax, "each piece has a number of its own");
  }

  /// Of the longest chunk.
  [[nodiscard]] std::size_t pieces() const { return (chunk_ + piece_ - 1) / piece_; }
  /// The longest.
  [[nodiscard]] std::size_t piece_bytes() const { return piece_ * width_; }
  /// Where a piece of a rank's chunk begins in the tensor.
  [[nodiscard]] std::size_t begin_byte(int rank, std::size_t piece) const {
    return first(rank, piece) * width_;
  }
  /// Its elements: fewer at the end of a chunk, or none. The last chunks are short or empty where
  /// the number of ranks does not divide that of elements.
  [[nodiscard]] std::size_t count(int rank, std::size_t piece) const {
    const std::size_t chunk_first = static_cast<std::size_t>(rank) * chunk_;
    const std::size_t end =
        std::min({elements_, chunk_first + chunk_, chunk_first + (piece + 1) * piece_});
    return end - std::min(end, first(rank, piece));
  }
  [[nodiscard]] std::size_t bytes(int rank, std::size_t piece) const {
    return count(rank, piece) * width_;
  }

  /// A collective has 2^16 tags, two for each piece: there and back.
  static constexpr std::size_t kPiecesMax = std::size_t{1} << 15;

 private:
  [[nodiscard]] std::size_t first(int rank, std::size_t piece) const {
    return std::min(elements_, static_cast<std::size_t>(rank) * chunk_ + piece * piece_);
  }

  std::size_t elements_;
  std::size_t width_;
  std::size_t chunk_;  // elements of each rank but the last ones
  std::size_t piece_;  // elements
};

}  // namespace ddp
