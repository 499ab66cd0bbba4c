// A Gpu whose devices are this machine's memory, for tests alone: a stream is a thread that works
// its queue off in order; the default stream has done each thing before it returns. Like CUDA it
// makes whoever frees memory, and the end of the process, wait for all that is queued: so a worker
// that hangs on a GPU hangs here, too.
//   DDPRUN_STANDIN_GPU_FAULT=mark-fails:N   the N-th mark of this process tells of a device error
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ddp/error.h"
#include "tests/standin/stream.h"
#include "worker_runtime/cuda/nccl_library.h"
#include "worker_runtime/cuda/nccl_process_group.h"
#include "worker_runtime/gpu.h"

namespace ddp {
namespace {

std::atomic<bool> given_up{false};

/// Lives until its thread has worked off what was queued.
class Queue {
 public:
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  void await_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return works_.empty(); });
  }
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closed_ || !works_.empty(); });
      if (works_.empty()) {
        return;
      }
      const auto work = works_.front();
      lock.unlock();
      work();
      lock.lock();
      works_.pop_front();
      changed_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  bool closed_ = false;
};

/// Every queue of the process. Its end is that of the driver.
class Driver {
 public:
  ~Driver() { await_idle(); }
  std::shared_ptr<Queue> open() {
    auto queue = std::make_shared<Queue>();
    std::thread([queue] { queue->run(); }).detach();
    const std::lock_guard lock(mutex_);
    queues_.push_back(queue);
    return queue;
  }
  void await_idle() {
    std::vector<std::shared_ptr<Queue>> all;
    {
      const std::lock_guard lock(mutex_);
      all = queues_;
    }
    for (const auto& queue : all) {
      queue->await_idle();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Queue>> queues_;
};

Driver& driver() {
  static Driver one;
  return one;
}

int failing_mark() {
  const char* fault = std::getenv("DDPRUN_STANDIN_GPU_FAULT");
  const std::string name = "mark-fails:";
  return fault != nullptr && std::string(fault).rfind(name, 0) == 0 ? std::atoi(fault + name.size())
                                                                    : 0;
}

class StandinMark : public GpuMark {
 public:
  explicit StandinMark(std::shared_ptr<std::atomic<bool>> done) : done_(std::move(done)) {
    static std::atomic<int> marks{0};
    fails_ = ++marks == failing_mark();
  }
  bool reached() override {
    if (fails_) {
      throw DeviceError("CUDA: an illegal memory access was encountered");
    }
    return *done_;
  }

 private:
  std::shared_ptr<std::atomic<bool>> done_;
  bool fails_ = false;
};

class StandinStream : public GpuStream, CUstream_st {
 public:
  ~StandinStream() override { queue_->close(); }
  CUstream_st* handle() override { return this; }
  void queue(std::function<void()> work) override { queue_->push(std::move(work)); }
  void follow_default_stream() override {}  // its work is always done
  std::unique_ptr<GpuMark> mark() override {
    auto done = std::make_shared<std::atomic<bool>>(false);
    queue_->push([done] { *done = true; });
    return std::make_unique<StandinMark>(std::move(done));
  }

 private:
  std::shared_ptr<Queue> queue_ = driver().open();
};

template <class T>
void fill_with(void* data, std::size_t count, double value) {
  std::fill_n(static_cast<T*>(data), count, static_cast<T>(value));
}

template <class T>
void divide_by(void* values, std::size_t count, double divisor) {
  for (T* value = static_cast<T*>(values); count-- > 0; ++value) {
    *value = static_cast<T>(static_cast<double>(*value) / divisor);
  }
}

class StandinGpu : public Gpu {
 public:
  int device_count() override { return 8; }
  void select(int) override {}
  std::shared_ptr<void> allocate(int, std::size_t bytes) override {
    return {std::malloc(bytes == 0 ? 1 : bytes), [](void* memory) {
              if (!given_up) {
                driver().await_idle();
                std::free(memory);
              }
            }};
  }
  void copy(void* to, Device, const void* from, Device, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void zero(void* data, std::size_t bytes, int) override { std::memset(data, 0, bytes); }
  void fill(void* data, std::size_t count, DType dtype, double value, int) override {
    switch (dtype) {
      case DType::f32:
        return fill_with<float>(data, count, value);
      case DType::f64:
        return fill_with<double>(data, count, value);
      case DType::i32:
        return fill_with<std::int32_t>(data, count, value);
      case DType::i64:
        return fill_with<std::int64_t>(data, count, value);
      case DType::bf16:
        return (void)std::fill_n(static_cast<BFloat16*>(data), count,
                                 BFloat16(static_cast<float>(value)));
      case DType::u8:
        return fill_with<std::uint8_t>(data, count, value);
    }
  }
  void divide(void* values, std::size_t count, DType dtype, double divisor, int) override {
    if (dtype == DType::f64) {
      divide_by<double>(values, count, divisor);
    } else {
      divide_by<float>(values, count, divisor);
    }
  }
  void narrow(void* to, const void* from, std::size_t count, int) override {
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<BFloat16*>(to)[i] = BFloat16(static_cast<const float*>(from)[i]);
    }
  }
  void widen(void* to, const void* from, std::size_t count, int) override {
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<float*>(to)[i] = static_cast<float>(static_cast<const BFloat16*>(from)[i]);
    }
  }
  std::unique_ptr<GpuStream> make_stream(int) override { return std::make_unique<StandinStream>(); }
  void synchronize(int) override {}
  void give_up() override { given_up = true; }
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

extern "C" DDP_EXPORT Gpu* ddprun_make_gpu(std::string*) {
  driver();  // before any tensor: so it ends after them
  static StandinGpu gpu;
  return &gpu;
}

}  // namespace ddp
