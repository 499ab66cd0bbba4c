#include "worker_runtime/collectives/pair_all_reduce.h"

#include <fmt/core.h>

#include <stdexcept>
#include <string>

#include "rendezvous/base/check.h"
#include "worker_runtime/collectives/chunk_layout.h"
#include "worker_runtime/collectives/reduction.h"

namespace ddp {
namespace {

/// Small enough to be still in the cache when it is added.
constexpr std::size_t kPairPieceBytes = std::size_t{128} << 10;
/// A reduced piece leaves behind so many later parts, about what the sockets hold: on a busy
/// machine the ranks run by turns, and each is to have something to do as long as it runs.
constexpr std::size_t kLag = 32;

/// What follows what in the stream of either rank: part 0, 1, ..., then by turns a part and the
/// result of kLag pieces before. A result waits for parts before it alone, so neither rank can wait
/// for the other for ever.
class Schedule {
 public:
  explicit Schedule(std::size_t pieces) : pieces_(pieces) {}

  [[nodiscard]] bool done() const { return results_ == pieces_; }
  /// The next item is the reduced piece(), else this rank's part of piece() of the other's chunk.
  [[nodiscard]] bool is_result() const { return parts_ == pieces_ || parts_ > results_ + kLag; }
  [[nodiscard]] std::size_t piece() const { return is_result() ? results_ : parts_; }
  void next() {
    DDP_CHECK(!done(), "there is an item to be done with");
    ++(is_result() ? results_ : parts_);
    moved_ = 0;
  }
  /// Of the item's bytes.
  [[nodiscard]] std::size_t moved() const { return moved_; }
  void move(std::size_t bytes) { moved_ += bytes; }

 private:
  std::size_t pieces_;
  std::size_t parts_ = 0;
  std::size_t results_ = 0;
  std::size_t moved_ = 0;
};

class Pair {
 public:
  explicit Pair(const CollectiveRun& run)
      : run_(run),
        tensor_(run.operation.output),
        layout_(tensor_.size(), size_of(tensor_.dtype()), 2, kPairPieceBytes),
        part_(run.scratch.at_least(layout_.piece_bytes())),
        out_(layout_.pieces()),
        in_(layout_.pieces()) {}

  void run() {
    agree();
    while (!out_.done() || !in_.done()) {
      const bool sent = send_some();
      const bool received = receive_some();
      if (!sent && !received) {
        run_.star.wait(peer_, may_send(), run_.deadline);
      }
    }
  }

 private:
  /// A rank that runs another operation is found out here, not by wrong numbers.
  void agree() {
    run_.star.send(peer_, run_.call(), nullptr, 0, run_.deadline);
    run_.star.recv(peer_, run_.call(), nullptr, 0, run_.deadline);
  }

  [[nodiscard]] bool may_send() const {
    return !out_.done() && (!out_.is_result() || out_.piece() < reduced_);
  }
  std::byte* at(int owner, std::size_t piece) {
    return static_cast<std::byte*>(tensor_.raw()) + layout_.begin_byte(owner, piece);
  }

  /// False when nothing could be sent.
  bool send_some() {
    if (!may_send()) {
      return false;
    }
    const int owner = out_.is_result() ? run_.rank() : peer_;
    const std::size_t bytes = layout_.bytes(owner, out_.piece());
    const std::size_t sent =
        run_.star.try_send(peer_, at(owner, out_.piece()) + out_.moved(), bytes - out_.moved());
    out_.move(sent);
    return ended(out_, bytes) || sent > 0;
  }

  bool receive_some() {
    if (in_.done()) {
      return false;
    }
    const std::size_t piece = in_.piece();
    // The other's result of its own chunk, or its part of mine. A result comes only after this
    // rank's part of it has arrived there, so it overwrites nothing that is still to be sent.
    const bool result = in_.is_result();
    const std::size_t bytes = layout_.bytes(result ? peer_ : run_.rank(), piece);
    const std::size_t got = run_.star.try_recv(
        peer_, (result ? at(peer_, piece) : part_) + in_.moved(), bytes - in_.moved());
    in_.move(got);
    if (!ended(in_, bytes)) {
      return got > 0;
    }
    if (!result) {
      reduce(piece);
    }
    return true;
  }

  static bool ended(Schedule& stream, std::size_t bytes) {
    if (stream.moved() < bytes) {
      return false;
    }
    stream.next();
    return true;
  }

  void reduce(std::size_t piece) {
    DDP_CHECK(piece == reduced_, "pieces come in order");
    std::byte* own = at(run_.rank(), piece);
    const void* parts[] = {run_.rank() == 0 ? own : part_, run_.rank() == 0 ? part_ : own};
    reduce_parts(tensor_.dtype(), run_.operation.op, own, parts, layout_.count(run_.rank(), piece));
    ++reduced_;
  }

  const CollectiveRun& run_;
  const Tensor& tensor_;
  const int peer_ = 1 - run_.rank();
  ChunkLayout layout_;
  std::byte* part_;  // the other rank's part of the piece that comes in
  Schedule out_;
  Schedule in_;
  std::size_t reduced_ = 0;  // pieces of this rank's chunk
};

}  // namespace

void pair_all_reduce(const CollectiveRun& run) {
  DDP_CHECK(run.size() == 2, "a pair has two ranks");
  Pair(run).run();
}

}  // namespace ddp
