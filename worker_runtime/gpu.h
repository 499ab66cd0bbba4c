// Gpu: the seam between the runtime, which links nothing of CUDA, and the one shared library that
// does (libddprun_cuda.so, folder cuda/). That library is opened only where a driver and a GPU are.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "ddp/process_group.h"
#include "ddp/tensor.h"
#include "worker_runtime/bootstrap/peer_watch.h"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace ddp {

/// A point in the work of a stream.
class GpuMark {
 public:
  virtual ~GpuMark() = default;
  /// Whether all work before it is done. Throws DeviceError when that work failed.
  virtual bool reached() = 0;
};

/// A queue of work on one device, beside its default stream. Ending it does not wait for the work.
class GpuStream {
 public:
  virtual ~GpuStream() = default;
  /// For libraries that queue work of their own.
  virtual CUstream_st* handle() = 0;
  /// What is queued from now on waits for what the default stream has been given so far.
  virtual void follow_default_stream() = 0;
  virtual std::unique_ptr<GpuMark> mark() = 0;
};

/// What an NCCL group is made of.
struct NcclSetup {
  int device = 0;
  std::chrono::milliseconds timeout{};          ///< of one operation
  std::chrono::milliseconds connect_timeout{};  ///< of NCCL's start on all ranks
  /// The CPU group of the same ranks: carries the unique id, CPU tensors and the barrier's end.
  std::unique_ptr<ProcessGroup> host;
  /// Tells of lost peers, and is told. Outlives the group. Null in a world of one.
  PeerWatch* watch = nullptr;
};

/// Every function throws DeviceError. Copies, zero, fill, divide, narrow and widen are queued on
/// the device's default stream; copies to or from the CPU return when they are done.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual int device_count() = 0;
  /// Makes `device` this thread's current one.
  virtual void select(int device) = 0;
  /// Freed when the last holder lets go.
  virtual std::shared_ptr<void> allocate(int device, std::size_t bytes) = 0;
  virtual void copy(void* to, Device to_device, const void* from, Device from_device,
                    std::size_t bytes) = 0;
  virtual void zero(void* data, std::size_t bytes, int device) = 0;
  virtual void fill(void* data, std::size_t count, DType dtype, double value, int device) = 0;
  /// values[i] /= divisor, f32 or f64 on the device. The divisor is a value of that type, not 0.
  virtual void divide(void* values, std::size_t count, DType dtype, double divisor, int device) = 0;
  /// to[i] = from[i], f32 to bf16 and bf16 to f32, on the device.
  virtual void narrow(void* to, const void* from, std::size_t count, int device) = 0;
  virtual void widen(void* to, const void* from, std::size_t count, int device) = 0;
  virtual std::unique_ptr<GpuStream> make_stream(int device) = 0;
  /// Waits for the default stream alone.
  virtual void synchronize(int device) = 0;
  /// The devices of this process hang in work that cannot be ended. From now on nothing here waits
  /// for them: memory, streams and marks stay as they are until the process ends.
  virtual void give_up() = 0;
  /// Whether an NCCL that can be used is on this machine; otherwise `why_not` says what was looked
  /// for. Throws nothing.
  virtual bool has_nccl(std::string& why_not) = 0;
  virtual std::unique_ptr<ProcessGroup> connect_nccl(NcclSetup setup) = 0;
};

/// The library is libddprun_cuda.so, or the file that DDPRUN_GPU_LIBRARY names, which then needs no
/// driver: tests run the GPU's error paths by a library that has none.
/// The machine's GPUs, or null when there is no library, no driver or no device; then `why_not`
/// (may be null) becomes a clause that says what was looked for. Loads once per process.
Gpu* find_gpu(std::string* why_not = nullptr);
/// What find_gpu() says on most machines without a GPU: nobody there needs to be told.
inline constexpr char kNoGpuDriver[] = "there is no NVIDIA driver (libcuda.so.1 was not found)";
/// The same, or DeviceError.
Gpu& require_gpu();

/// The factory's name and type in the shared library. Null, with a reason, when there is no device.
inline constexpr char kGpuFactoryName[] = "ddprun_make_gpu";
using GpuFactory = Gpu*(std::string* why_not);

}  // namespace ddp
