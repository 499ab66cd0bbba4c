#include "worker_runtime/cuda/cuda_stream.h"

#include <cuda_runtime_api.h>

#include "worker_runtime/cuda/cuda_check.h"

namespace ddp {

std::atomic<bool> devices_given_up{false};

namespace {

class CudaMark : public GpuMark {
 public:
  CudaMark() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~CudaMark() override {
    if (!devices_given_up) {
      cudaEventDestroy(event_);
    }
  }
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;

  bool reached() override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state != cudaErrorNotReady) {
      check_cuda(state);
    }
    return state == cudaSuccess;
  }
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream : public GpuStream {
 public:
  explicit CudaStream(int device) : device_(device) {
    check_cuda(cudaSetDevice(device_));
    // Without the default stream's implicit order: its kernels and this stream's overlap.
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaStream() override {
    if (!devices_given_up) {
      cudaStreamDestroy(stream_);
    }
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CUstream_st* handle() override { return stream_; }

  void follow_default_stream() override {
    // The current device belongs to the calling thread.
    check_cuda(cudaSetDevice(device_));
    const CudaMark ready;
    check_cuda(cudaEventRecord(ready.get(), nullptr));
    check_cuda(cudaStreamWaitEvent(stream_, ready.get(), 0));
  }

  std::unique_ptr<GpuMark> mark() override {
    auto mark = std::make_unique<CudaMark>();
    check_cuda(cudaEventRecord(mark->get(), stream_));
    return mark;
  }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<GpuStream> make_cuda_stream(int device) {
  return std::make_unique<CudaStream>(device);
}

}  // namespace ddp
