#include "trainer/layers/cuda/workspace.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "worker_runtime/cuda/cuda_check.h"

namespace ddp {
namespace {

/// What the layers of a GPT-2 ask for at most sizes: it then never grows.
constexpr std::size_t kFirstBytes = std::size_t{32} << 20;

struct Piece {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

}  // namespace

void* workspace(int device, std::size_t bytes) {
  // One of each device for the whole process, like the default stream whose work it serves. Never
  // freed: at the end of the process there may be no driver any more.
  static std::mutex mutex;
  static auto& pieces = *std::make_unique<std::map<int, Piece>>().release();
  const std::lock_guard lock(mutex);
  Piece& piece = pieces[device];
  if (piece.bytes < bytes) {
    check_cuda(cudaSetDevice(device));
    // Waits for the kernels that still use it.
    check_cuda(cudaFree(piece.memory));
    piece = {};
    const std::size_t wanted = std::max(bytes, kFirstBytes);
    check_cuda(cudaMalloc(&piece.memory, wanted));
    piece.bytes = wanted;
  }
  return piece.memory;
}

}  // namespace ddp
