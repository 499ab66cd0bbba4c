#include "trainer/product_kernels.h"

#include <dnnl.h>
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <new>

// As in threads.cc.
extern "C" int omp_get_max_threads();

namespace ddp {
namespace {

/// Measured with oneDNN 2.7: 6 MiB of code, and up to 16 MiB more with a second thread, most of it
/// the thread's own stack and heap.
constexpr std::size_t kRoomBytes = std::size_t{16} << 20;
constexpr std::size_t kRoomBytesOfThread = std::size_t{8} << 20;

/// Address space alone, since that is what a limit (ulimit -v) is about: no page is touched.
void require_room(std::size_t bytes) {
  void* const room =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    throw std::bad_alloc();
  }
  ::munmap(room, bytes);
}

}  // namespace

void make_product_kernels() {
  require_room(kRoomBytes + kRoomBytesOfThread * static_cast<std::size_t>(omp_get_max_threads()));
  // A vector would not do: those have a kernel of their own.
  constexpr int kSide = 64;
  static std::array<float, std::size_t{3} * kSide * kSide> numbers{};
  float* const a = numbers.data();
  const auto status = dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1, a, kSide, a + kSide * kSide,
                                 kSide, 0, a + 2 * kSide * kSide, kSide);
  if (status != dnnl_success) {
    throw std::bad_alloc();
  }
}

}  // namespace ddp
