// Board: memory that the ranks of one stand-in communicator share, and the moves that its
// operations are made of. On one machine, of little speed: it is there to test error paths.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ddp_standin {

inline constexpr int kRanksMax = 8;
inline constexpr std::size_t kPieceMax = 1 << 18;

struct Board {
  struct Part {
    std::atomic<std::uint64_t> written;  ///< the newest round whose bytes are in `bytes`
    std::atomic<std::uint64_t> read;     ///< the newest round that this rank has read from all
    std::byte bytes[kPieceMax];
  };
  struct Mail {
    std::atomic<std::uint64_t> posted;
    std::atomic<std::uint64_t> taken;
    std::byte bytes[kPieceMax];
  };
  std::atomic<int> joined;
  Part parts[kRanksMax];
  Mail mail[kRanksMax][kRanksMax];  ///< [from][to]
};

/// Makes one that other processes can open by the path; empty when that fails.
struct BoardPath {
  char text[64];
};
bool make_board(BoardPath& path);
/// Null when it cannot be opened.
Board* open_board(const BoardPath& path);

/// One rank's place at a board. Its moves return false when `stopped` became true under them.
class Seat {
 public:
  Seat(Board& board, int rank, int size, const std::atomic<bool>& stopped)
      : board_(board), rank_(rank), size_(size), stopped_(stopped) {}

  /// Shows `mine` to all (at most kPieceMax bytes), and `look` every rank's bytes, in rank order.
  bool exchange(const void* mine, std::size_t bytes,
                const std::function<void(int rank, const std::byte* theirs)>& look);
  /// At most kPieceMax bytes, as are those of take(). Waits while there is one not yet taken.
  bool post(const void* bytes, std::size_t size, int to);
  bool take(void* bytes, std::size_t size, int from);

 private:
  bool await(const std::function<bool()>& condition) const;

  Board& board_;
  int rank_;
  int size_;
  const std::atomic<bool>& stopped_;
  std::uint64_t round_ = 0;
};

}  // namespace ddp_standin
