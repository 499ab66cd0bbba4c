#include "tests/standin/board.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

namespace ddp_standin {

bool make_board(BoardPath& path) {
  // Reached through this process's descriptors: nothing stays behind, however it ends.
  const int fd = ::memfd_create("standin-nccl", MFD_CLOEXEC);
  std::snprintf(path.text, sizeof path.text, "/proc/%d/fd/%d", static_cast<int>(::getpid()), fd);
  return fd >= 0 && ::ftruncate(fd, sizeof(Board)) == 0;
}

Board* open_board(const BoardPath& path) {
  const int fd = ::open(path.text, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory);
}

bool Seat::await(const std::function<bool()>& condition) const {
  for (int looks = 0; !condition(); ++looks) {
    if (stopped_) {
      return false;
    }
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      ::poll(nullptr, 0, 1);
    }
  }
  return true;
}

bool Seat::exchange(const void* mine, std::size_t bytes,
                    const std::function<void(int rank, const std::byte* theirs)>& look) {
  const auto all = [this](std::atomic<std::uint64_t> Board::Part::*counter, std::uint64_t least) {
    return await([=, this] {
      for (int rank = 0; rank < size_; ++rank) {
        if ((board_.parts[rank].*counter).load() < least) {
          return false;
        }
      }
      return true;
    });
  };
  const std::uint64_t round = ++round_;
  Board::Part& own = board_.parts[rank_];
  if (!all(&Board::Part::read, round - 1)) {
    return false;
  }
  std::memcpy(own.bytes, mine, bytes);
  own.written = round;
  if (!all(&Board::Part::written, round)) {
    return false;
  }
  for (int rank = 0; rank < size_; ++rank) {
    look(rank, board_.parts[rank].bytes);
  }
  own.read = round;
  return true;
}

bool Seat::post(const void* bytes, std::size_t size, int to) {
  Board::Mail& mail = board_.mail[rank_][to];
  if (!await([&] { return mail.taken == mail.posted; })) {
    return false;
  }
  std::memcpy(mail.bytes, bytes, size);
  ++mail.posted;
  return true;
}

bool Seat::take(void* bytes, std::size_t size, int from) {
  Board::Mail& mail = board_.mail[from][rank_];
  if (!await([&] { return mail.taken != mail.posted; })) {
    return false;
  }
  std::memcpy(bytes, mail.bytes, size);
  ++mail.taken;
  return true;
}

}  // namespace ddp_standin
