#include "worker_runtime/cuda/nccl_process_group.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/error.h"
#include "worker_runtime/collectives/collective_progress.h"
#include "worker_runtime/collectives/operation.h"
#include "worker_runtime/cuda/cuda_check.h"
#include "worker_runtime/cuda/nccl_library.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Long enough for a peer's last operation, short enough for a restart.
constexpr milliseconds kFinalizePatience{5'000};
/// How long a broken communicator waits for the watch to say whose death it was.
constexpr milliseconds kNamePatience{250};
/// A wait looks this often without a pause: small operations end within microseconds.
constexpr int kEagerLooks = 2'000;

nccl::DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return nccl::DataType::float32;
    case DType::f64:
      return nccl::DataType::float64;
    case DType::i32:
      return nccl::DataType::int32;
    case DType::i64:
      return nccl::DataType::int64;
    case DType::bf16:
      return nccl::DataType::bfloat16;
    case DType::u8:
      break;
  }
  return nccl::DataType::uint8;
}

nccl::RedOp reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return nccl::RedOp::min;
    case ReduceOp::max:
      return nccl::RedOp::max;
    case ReduceOp::product:
      return nccl::RedOp::prod;
    case ReduceOp::avg:
      return nccl::RedOp::avg;
    case ReduceOp::sum:
      break;
  }
  return nccl::RedOp::sum;
}

class CudaEvent {
 public:
  CudaEvent() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~CudaEvent() { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Backs off from spinning to short pauses.
class Patience {
 public:
  explicit Patience(milliseconds limit) : deadline_(steady_clock::now() + limit) {}
  /// False when the time is over.
  bool pause() {
    if (++looks_ > kEagerLooks) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // allowed: CUDA has no event fd
    }
    return steady_clock::now() < deadline_;
  }

 private:
  steady_clock::time_point deadline_;
  int looks_ = 0;
};

class NcclProcessGroup : public ProcessGroup {
 public:
  explicit NcclProcessGroup(NcclSetup setup)
      : ProcessGroup(setup.host->rank(), setup.host->size()),
        device_(setup.device),
        timeout_(setup.timeout),
        host_(std::move(setup.host)),
        watch_(setup.watch),
        library_(nccl::nccl_library()) {
    check_cuda(cudaSetDevice(device_));
    // A stream of its own: communication overlaps with the default stream's kernels.
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (watch_ != nullptr) {
      watch_->subscribe([this] { lost_ = true; });
    }
    try {
      connect();
    } catch (...) {
      let_go();
      throw;
    }
  }

  ~NcclProcessGroup() override {
    // Finalize waits for what is queued. With a lost rank that never ends: only an abort returns.
    if (comm_ != nullptr && !lost_ && !ending_ &&
        library_.comm_finalize(comm_) <= nccl::Result::in_progress && settled(kFinalizePatience)) {
      library_.comm_destroy(comm_);
      comm_ = nullptr;
    }
    let_go();
    kept_.insert(kept_.end(), messages_.begin(), messages_.end());
    for (const auto& pending : kept_) {
      pending->drop();
    }
  }

  std::string_view backend() const override { return "nccl"; }

  void abort(std::string_view reason) override {
    end(std::string(reason));
    host_->abort(reason);
  }

 private:
  void let_go() {
    abort_communicator();
    if (watch_ != nullptr) {
      watch_->unsubscribe();
    }
    cudaStreamDestroy(stream_);
  }

  /// An operation on the device. Kept by the group, so that its tensors stay until it is done.
  class Pending : public Work::State {
   public:
    Pending(NcclProcessGroup& group, Operation operation)
        : operation_(std::move(operation)), group_(&group) {}
    bool done() const override {
      return finished_ || broken_ || (launched_ && cudaEventQuery(end_.get()) == cudaSuccess);
    }
    /// The group has ended, and a handle that is still held fails with it.
    void drop() {
      if (!finished_ && !done()) {
        error_ = aborted(operation_, "its group ended before it was waited for");
      }
      finished_ = true;
    }
    void wait() override {
      if (!finished_) {
        finished_ = true;
        try {
          group_->await(*this);
        } catch (...) {
          error_ = std::current_exception();
        }
        operation_.input = {};
        operation_.output = {};
      }
      if (error_) {
        std::rethrow_exception(error_);
      }
    }
    Operation operation_;
    CudaEvent end_;
    bool launched_ = false;
    bool broken_ = false;  ///< NCCL did not take it: its event says nothing
    bool finished_ = false;
    std::exception_ptr error_;
    NcclProcessGroup* group_;
  };

  void connect() {
    nccl::UniqueId id{};
    std::string problem;
    if (rank() == 0 && library_.get_unique_id(&id) != nccl::Result::success) {
      problem = last_error(nccl::Result::system_error);
    }
    // An empty text tells the others that there is no id.
    const std::string bytes = host_->broadcast_bytes(
        problem.empty() ? std::string_view(id.bytes, sizeof id.bytes) : std::string_view(), 0);
    if (bytes.size() != sizeof id.bytes) {
      throw StartError("NCCL cannot start on rank 0" + (problem.empty() ? "" : ": " + problem));
    }
    std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
    nccl::Config config;
    // So that a lost peer can end the start: a blocking init waits for all ranks for ever.
    config.blocking = 0;
    const nccl::Result result = library_.comm_init_rank_config(&comm_, size(), id, rank(), &config);
    const bool begun = result == nccl::Result::success || result == nccl::Result::in_progress;
    if (!begun || !settled(timeout_)) {
      const std::string why = last_error(begun ? async_error_ : result);
      abort_communicator();
      if (watch_ != nullptr) {
        watch_->report({rank(), "NCCL could not connect it: " + why});
      }
      throw StartError("NCCL cannot connect the ranks: " + why);
    }
  }

  /// Waits until the communicator has no call in progress. False: an error, a lost peer, no time.
  bool settled(milliseconds limit) {
    for (Patience patience(limit); !lost_;) {
      async_error_ = nccl::Result::in_progress;
      const nccl::Result asked = library_.comm_get_async_error(comm_, &async_error_);
      if (asked != nccl::Result::success) {
        async_error_ = asked;
      }
      if (async_error_ != nccl::Result::in_progress) {
        return async_error_ == nccl::Result::success;
      }
      if (!patience.pause()) {
        return false;
      }
    }
    return false;
  }

  Work issue(Operation operation) override {
    if (operation.kind == Operation::Kind::barrier) {
      marks().begun(operation);
      // The device's part first: behind a barrier all earlier work is done.
      check_cuda(cudaStreamSynchronize(nullptr));
      host_->barrier();
      marks().finished(operation);
      return {};
    }
    const Tensor& tensor = operation.output.defined() ? operation.output : operation.input;
    if (tensor.device().is_cpu()) {
      return issue_on_host(operation);
    }
    if (operation.is_message() && operation.tag != 0) {
      throw InvalidArgument("NCCL matches messages by their order alone: a CUDA tensor has no tag");
    }
    if (ending_ || lost_) {
      std::rethrow_exception(failure(operation));
    }
    auto pending = std::make_shared<Pending>(*this, std::move(operation));
    if (pending->operation_.is_message()) {
      messages_.push_back(pending);  // launched together, so that two ranks may swap
    } else {
      launch_messages();
      launch({pending});
    }
    return Work(pending);
  }

  Work issue_on_host(const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::all_reduce:
        return host_->all_reduce_async(operation.output, operation.op);
      case Operation::Kind::broadcast:
        return host_->broadcast_async(operation.output, operation.peer);
      case Operation::Kind::all_gather:
        host_->all_gather(operation.input, operation.output);
        return {};
      case Operation::Kind::reduce_scatter:
        host_->reduce_scatter(operation.input, operation.output, operation.op);
        return {};
      case Operation::Kind::send:
        return host_->send_async(operation.input, operation.peer, operation.tag);
      case Operation::Kind::recv:
        return host_->recv_async(operation.output, operation.peer, operation.tag);
      case Operation::Kind::barrier:
        break;
    }
    host_->barrier();
    return {};
  }

  void check_device(const Tensor& tensor) const override {
    if (tensor.device().is_cuda() && tensor.device().index != device_) {
      throw InvalidArgument("a tensor on " + to_text(tensor.device()) +
                            " cannot be sent by a rank whose GPU is " +
                            to_text(Device::cuda(device_)));
    }
  }

  void launch_messages() {
    if (!messages_.empty()) {
      launch(std::exchange(messages_, {}));
    }
  }

  /// Queues operations behind what the default stream has been given so far, as one group.
  void launch(const std::vector<std::shared_ptr<Pending>>& operations) {
    check_cuda(cudaSetDevice(device_));
    CudaEvent ready;
    check_cuda(cudaEventRecord(ready.get(), nullptr));
    check_cuda(cudaStreamWaitEvent(stream_, ready.get(), 0));
    bool taken = comm_ != nullptr && took(library_.group_start());
    for (const auto& pending : operations) {
      taken = taken && took(enqueue(pending->operation_));
    }
    if (comm_ != nullptr) {
      taken = took(library_.group_end()) && settled(timeout_) && taken;
    }
    // Those that are done let go of their tensors.
    kept_.remove_if([](const auto& other) { return other->done(); });
    for (const auto& pending : operations) {
      pending->broken_ = !taken;
      if (taken) {
        check_cuda(cudaEventRecord(pending->end_.get(), stream_));
      }
      pending->launched_ = taken;
      kept_.push_back(pending);
    }
  }

  /// A non-blocking communicator answers "in progress" too. Keeps the first thing that went wrong.
  bool took(nccl::Result result) {
    const bool fine = result == nccl::Result::success || result == nccl::Result::in_progress;
    if (!fine &&
        (async_error_ == nccl::Result::success || async_error_ == nccl::Result::in_progress)) {
      async_error_ = result;
    }
    return fine;
  }

  nccl::Result enqueue(const Operation& operation) {
    const Tensor& out = operation.output;
    const Tensor& in = operation.input;
    const auto type = data_type(out.defined() ? out.dtype() : in.dtype());
    switch (operation.kind) {
      case Operation::Kind::all_reduce:
        return library_.all_reduce(out.raw(), out.raw(), out.size(), type, reduction(operation.op),
                                   comm_, stream_);
      case Operation::Kind::broadcast:
        return library_.broadcast(out.raw(), out.raw(), out.size(), type, operation.peer, comm_,
                                  stream_);
      case Operation::Kind::all_gather:
        return library_.all_gather(in.raw(), out.raw(), in.size(), type, comm_, stream_);
      case Operation::Kind::reduce_scatter:
        return library_.reduce_scatter(in.raw(), out.raw(), out.size(), type,
                                       reduction(operation.op), comm_, stream_);
      case Operation::Kind::send:
        return library_.send(in.raw(), in.size(), type, operation.peer, comm_, stream_);
      case Operation::Kind::recv:
        return library_.recv(out.raw(), out.size(), type, operation.peer, comm_, stream_);
      case Operation::Kind::barrier:
        break;
    }
    return nccl::Result::success;
  }

  void await(Pending& pending) {
    // A stream works in order: a rank that is late for an earlier operation holds this one up, too.
    marks().begun(pending.operation_);
    launch_messages();
    if (pending.broken_) {
      std::rethrow_exception(failure(pending.operation_));
    }
    Patience patience(timeout_);
    for (;;) {
      const cudaError_t state = cudaEventQuery(pending.end_.get());
      if (state == cudaSuccess) {
        marks().finished(pending.operation_);
        return;
      }
      if (state != cudaErrorNotReady) {
        check_cuda(state);
      }
      nccl::Result error = nccl::Result::success;
      if (comm_ == nullptr || lost_ || ending_ ||
          library_.comm_get_async_error(comm_, &error) != nccl::Result::success ||
          (error != nccl::Result::success && error != nccl::Result::in_progress)) {
        async_error_ = error;
        std::rethrow_exception(failure(pending.operation_));
      }
      if (!patience.pause()) {
        end(to_text(pending.operation_) + " timed out on rank " + std::to_string(rank()));
        std::rethrow_exception(timed_out(pending.operation_, timeout_));
      }
    }
  }

  /// Turns what broke the communicator into the exception to throw; aborts it here, and tells the
  /// others to do the same.
  std::exception_ptr failure(const Operation& operation) {
    // A loss explains an error of NCCL's better than NCCL's own text.
    const auto loss = watch_ != nullptr ? watch_->loss(kNamePatience) : std::nullopt;
    if (loss) {
      abort_communicator();
      return peer_lost(operation, *loss);
    }
    if (!ending_) {
      end(last_error(async_error_));
    }
    return aborted(operation, *ending_);
  }

  void end(const std::string& why) {
    if (!ending_) {
      ending_ = why;
      abort_communicator();
      if (watch_ != nullptr) {
        watch_->report({rank(), why});
      }
    }
  }

  void abort_communicator() {
    if (comm_ != nullptr) {
      library_.comm_abort(std::exchange(comm_, nullptr));
    }
  }

  std::string last_error(nccl::Result result) const {
    std::string text = library_.get_error_string(result);
    if (const char* more = library_.get_last_error(comm_); more != nullptr && *more != '\0') {
      text += std::string(" (") + more + ")";
    }
    return text;
  }

  int device_;
  milliseconds timeout_;
  std::unique_ptr<ProcessGroup> host_;
  PeerWatch* watch_;
  const nccl::NcclLibrary& library_;
  nccl::Comm* comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  nccl::Result async_error_ = nccl::Result::success;
  std::atomic<bool> lost_{false};  // set by the watch's thread
  std::optional<std::string> ending_;
  std::vector<std::shared_ptr<Pending>> messages_;  // not launched yet
  std::list<std::shared_ptr<Pending>> kept_;        // launched, maybe not done
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_process_group(NcclSetup setup) {
  return std::make_unique<NcclProcessGroup>(std::move(setup));
}

}  // namespace ddp
