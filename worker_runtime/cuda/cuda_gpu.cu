// The Gpu that the runtime knows, over the CUDA runtime. All work is queued on the default stream.
#include <cuda_bf16.h>

#include <memory>
#include <new>

#include "ddp/error.h"
#include "ddp/export.h"
#include "worker_runtime/cuda/cuda_check.h"
#include "worker_runtime/cuda/cuda_stream.h"
#include "worker_runtime/cuda/nccl_library.h"
#include "worker_runtime/cuda/nccl_process_group.h"
#include "worker_runtime/gpu.h"

namespace ddp {
namespace {

/// Per block: eight warps, enough to hide the latency of kernels that are bound by memory.
constexpr unsigned kThreads = 256;

/// CUDA Programming Guide: a grid has up to 2^31 - 1 blocks in x, so 2^39 elements.
unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <class T>
__global__ void fill_kernel(T* data, std::size_t count, T value) {
  // In 64 bits: the product of two unsigned numbers wraps at 4 Gi elements.
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    data[i] = value;
  }
}

/// Elements of a thread.
constexpr unsigned kAtOnce = 4;

/// The same arithmetic as on the CPU: a quotient of two T, rounded once.
template <class T>
__global__ void divide_kernel(T* values, std::size_t count, T divisor) {
  const std::size_t first =
      static_cast<std::size_t>(blockIdx.x) * blockDim.x * kAtOnce + threadIdx.x;
  // All are on their way before the first is waited for.
  T read[kAtOnce];
#pragma unroll
  for (unsigned k = 0; k < kAtOnce; ++k) {
    const std::size_t i = first + k * blockDim.x;
    read[k] = i < count ? values[i] : T{};
  }
#pragma unroll
  for (unsigned k = 0; k < kAtOnce; ++k) {
    const std::size_t i = first + k * blockDim.x;
    if (i < count) {
      values[i] = read[k] / divisor;
    }
  }
}

/// In the card's own conversion: to the nearest, ties to even, as BFloat16's.
__global__ void narrow_kernel(__nv_bfloat16* to, const float* from, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    to[i] = __float2bfloat16_rn(from[i]);
  }
}

__global__ void widen_kernel(float* to, const __nv_bfloat16* from, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    to[i] = __bfloat162float(from[i]);
  }
}

template <class T>
void fill_with(void* data, std::size_t count, double value) {
  fill_kernel<<<blocks_for(count), kThreads>>>(static_cast<T*>(data), count, static_cast<T>(value));
  // A launch returns nothing: a refused one shows here, a fault in the kernel in a later call.
  check_cuda(cudaGetLastError());
}

template <class T>
void divide_by(void* values, std::size_t count, double divisor) {
  divide_kernel<<<blocks_for((count + kAtOnce - 1) / kAtOnce), kThreads>>>(
      static_cast<T*>(values), count, static_cast<T>(divisor));
  check_cuda(cudaGetLastError());
}

class CudaGpu : public Gpu {
 public:
  int device_count() override {
    int count = 0;
    check_cuda(cudaGetDeviceCount(&count));
    return count;
  }
  /// The current device belongs to the calling thread, and any thread may call: each function
  /// selects its own.
  void select(int device) override { check_cuda(cudaSetDevice(device)); }

  std::shared_ptr<void> allocate(int device, std::size_t bytes) override {
    select(device);
    void* data = nullptr;
    // cudaMalloc of 0 bytes gives a null pointer, and the tensor would count as undefined.
    check_cuda(cudaMalloc(&data, bytes == 0 ? 1 : bytes));
    // cudaFree waits for the device, so no kernel loses its memory. A deleter cannot throw: errors
    // are dropped.
    return {data, [device](void* memory) {
              if (!devices_given_up) {
                cudaSetDevice(device);
                cudaFree(memory);  // at the end of the process there may be no driver any more
              }
            }};
  }

  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t bytes) override {
    // Where both are devices, the target's default stream orders the copy.
    select(to_device.is_cuda() ? to_device.index : from_device.index);
    // cudaMemcpy to or from pageable memory returns when it is done; between devices it does not
    // need to, the default stream keeps the order.
    check_cuda(to_device.is_cuda() && from_device.is_cuda()
                   ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr)
                   : cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  }

  void zero(void* data, std::size_t bytes, int device) override {
    select(device);
    // In order with the kernels of the default stream; the host does not wait.
    check_cuda(cudaMemsetAsync(data, 0, bytes, nullptr));
  }

  void fill(void* data, std::size_t count, DType dtype, double value, int device) override {
    // A grid of 0 blocks is an error (cudaErrorInvalidConfiguration).
    if (count == 0) {
      return;
    }
    select(device);
    // The CPU's conversion of `value` to the type, so both devices hold equal bits.
    switch (dtype) {
      case DType::f32:
        return fill_with<float>(data, count, value);
      case DType::f64:
        return fill_with<double>(data, count, value);
      case DType::i32:
        return fill_with<std::int32_t>(data, count, value);
      case DType::i64:
        return fill_with<std::int64_t>(data, count, value);
      case DType::u8:
        return fill_with<std::uint8_t>(data, count, value);
      case DType::bf16:
        // By its bits: a kernel has no use for the host's class.
        return fill_with<std::uint16_t>(data, count, BFloat16(static_cast<float>(value)).bits);
    }
  }

  void divide(void* values, std::size_t count, DType dtype, double divisor, int device) override {
    if (count == 0) {
      return;
    }
    select(device);
    // f32 or f64: DistributedDataParallel takes no other parameters.
    if (dtype == DType::f64) {
      divide_by<double>(values, count, divisor);
    } else {
      divide_by<float>(values, count, divisor);
    }
  }

  void narrow(void* to, const void* from, std::size_t count, int device) override {
    if (count == 0) {
      return;
    }
    select(device);
    narrow_kernel<<<blocks_for(count), kThreads>>>(static_cast<__nv_bfloat16*>(to),
                                                   static_cast<const float*>(from), count);
    check_cuda(cudaGetLastError());
  }

  void widen(void* to, const void* from, std::size_t count, int device) override {
    if (count == 0) {
      return;
    }
    select(device);
    widen_kernel<<<blocks_for(count), kThreads>>>(static_cast<float*>(to),
                                                  static_cast<const __nv_bfloat16*>(from), count);
    check_cuda(cudaGetLastError());
  }

  std::unique_ptr<GpuStream> make_stream(int device) override { return make_cuda_stream(device); }

  void synchronize(int device) override {
    select(device);
    check_cuda(cudaStreamSynchronize(nullptr));
  }

  void give_up() override { devices_given_up = true; }

  /// A machine without NCCL is no error: its ranks train on the CPU, and the reason is printed.
  bool has_nccl(std::string& why_not) override {
    try {
      nccl::nccl_library();
      return true;
    } catch (const DeviceError& error) {
      why_not = error.what();
      return false;
    }
  }

  std::unique_ptr<ProcessGroup> connect_nccl(NcclSetup setup) override {
    return make_nccl_process_group(*this, std::move(setup));
  }
};

}  // namespace

/// The factory of gpu.h: null, with a reason, when there is no device to use.
extern "C" DDP_EXPORT Gpu* ddprun_make_gpu(std::string* why_not) {
  int driver = 0;
  int count = 0;
  // CUDA Runtime API: the version is 0 without a driver. No device is touched yet.
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    *why_not = "the NVIDIA driver does not answer";
    return nullptr;
  }
  // Without those that CUDA_VISIBLE_DEVICES hides.
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    *why_not = error != cudaSuccess ? std::string(cudaGetErrorString(error)) : "no GPU is visible";
    return nullptr;
  }
  // Without state, and never freed by the caller: deleters of tensors may run up to the end of the
  // process.
  static CudaGpu gpu;
  return &gpu;
}

}  // namespace ddp
