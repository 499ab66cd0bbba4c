// Memory of the simulation's programs: small blocks are kept in lists by their size and never given
// back. A story takes and gives back thousands; malloc and free were a quarter of its time. For
// programs of one thread, and without sanitizers, which have an allocator of their own.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

/// Before each block: of which list it is. What follows is aligned as malloc would have it.
using Header = std::uint64_t;
constexpr std::size_t kUnit = 16;
constexpr std::size_t kLists = 513;  ///< blocks of up to 512 units; the first list is of malloc's
constexpr std::size_t kChunk = std::size_t{1} << 18U;

struct Free {
  Free* next;
};

std::array<Free*, kLists> lists{};
std::byte* chunk = nullptr;
std::size_t left = 0;

/// Memory for `bytes` after a header.
std::byte* fresh(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(std::malloc(bytes + kUnit));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory + kUnit - sizeof(Header);
}

void* mark(std::byte* block, Header list) {
  *reinterpret_cast<Header*>(block) = list;
  return block + sizeof(Header);
}

/// A block of so many units.
void* take(std::size_t units) {
  if (Free* first = lists[units]) {
    lists[units] = first->next;
    return first;
  }
  const std::size_t bytes = units * kUnit;
  if (left < bytes) {
    chunk = fresh(kChunk);
    left = kChunk;
  }
  std::byte* block = chunk;
  chunk += bytes;
  left -= bytes;
  return mark(block, units);
}

void give_back(void* memory) {
  std::byte* block = static_cast<std::byte*>(memory) - sizeof(Header);
  const Header list = *reinterpret_cast<Header*>(block);
  if (list == 0) {
    std::free(block - (kUnit - sizeof(Header)));
    return;
  }
  auto* freed = static_cast<Free*>(memory);
  freed->next = lists[list];
  lists[list] = freed;
}

}  // namespace

void* operator new(std::size_t size) {
  const std::size_t units = (size + sizeof(Header) + kUnit - 1) / kUnit;
  return units < kLists ? take(units) : mark(fresh(size), 0);
}
void operator delete(void* memory) noexcept {  // allowed: it is one
  if (memory != nullptr) {
    give_back(memory);
  }
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {  // allowed: it is one
  operator delete(memory);                                           // allowed: it is one
}
