#include "worker_runtime/cuda/nccl_process_group.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "ddp/error.h"
#include "rendezvous/base/text.h"
#include "worker_runtime/collectives/collective_progress.h"
#include "worker_runtime/collectives/operation.h"
#include "worker_runtime/cuda/bounded_call.h"
#include "worker_runtime/cuda/nccl_call.h"
#include "worker_runtime/cuda/nccl_communicator.h"
#include "worker_runtime/cuda/nccl_library.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using State = NcclCommunicator::State;

/// Long enough for a peer's last operation, short enough for a restart.
constexpr milliseconds kFinalizePatience{5'000};
/// How long a broken communicator waits for the watch to say whose death it was.
constexpr milliseconds kNamePatience{250};
/// What other ranks read before CUDA's words.
constexpr char kDeviceFailed[] = "its device failed: ";

/// Why the group has ended; every later operation fails alike.
struct Ending {
  /// Set when it was a peer's end.
  std::optional<PeerLoss> loss;
  std::string why = {};
};

class NcclProcessGroup : public ProcessGroup {
 public:
  NcclProcessGroup(Gpu& gpu, NcclSetup setup)
      : ProcessGroup(setup.host->rank(), setup.host->size()),
        gpu_(gpu),
        device_(setup.device),
        timeout_(setup.timeout),
        host_(std::move(setup.host)),
        watch_(setup.watch),
        library_(nccl::nccl_library()),
        // A stream of its own: communication overlaps with the default stream's kernels.
        stream_(gpu.make_stream(device_)),
        communicator_(library_, lost_) {
    if (watch_ != nullptr) {
      watch_->subscribe([this] { lost_ = true; });
    }
    try {
      connect(setup.connect_timeout);
    } catch (...) {
      let_go();
      throw;
    }
  }

  ~NcclProcessGroup() override {
    if (!ending_) {
      (void)communicator_.finish(kFinalizePatience);
    }
    let_go();
    // Those that were never launched, too.
    kept_.insert(kept_.end(), messages_.begin(), messages_.end());
    for (const auto& pending : kept_) {
      pending->drop();
    }
  }

  std::string_view backend() const override { return "nccl"; }

  void abort(std::string_view reason) override {
    end({.loss = std::nullopt, .why = std::string(reason)}, "it aborted its group: ");
  }

 private:
  /// An operation on the device. Kept by the group, so that its tensors stay until it is done.
  class Pending : public Work::State {
   public:
    Pending(NcclProcessGroup& group, Operation operation)
        : operation_(std::move(operation)), group_(&group) {}
    bool done() const override { return finished_ || broken_ || done_ || reached(true); }
    /// Just before an abort, which ends the operations that go on: after it, the marks of those are
    /// reached like those of others.
    void note_done() { done_ = done_ || reached(false); }
    /// The group has ended, and a handle that is still held fails with it.
    void drop() {
      if (!finished_ && !done_) {
        error_ = aborted(operation_, "its group ended before it was waited for");
      }
      finished_ = true;
      let_go();
    }
    /// True once it is done: its end is known from here on, and a handle that is still held needs
    /// neither the group nor the tensors.
    bool settled() {
      if (!done()) {
        return false;
      }
      try {
        wait();
      } catch (...) {  // kept for whoever waits
      }
      return true;
    }
    void wait() override {
      if (!finished_) {
        finished_ = true;
        try {
          group_->await(*this);
        } catch (...) {
          error_ = std::current_exception();
        }
        let_go();
      }
      if (error_) {
        std::rethrow_exception(error_);
      }
    }
    /// Whether its mark is; false before the launch.
    [[nodiscard]] bool reached(bool on_failed_device) const {
      try {
        return end_ && end_->reached();
      } catch (const DeviceError&) {
        return on_failed_device;
      }
    }
    /// The caller may want the memory back.
    void let_go() {
      operation_.input = {};
      operation_.output = {};
    }
    Operation operation_;
    std::unique_ptr<GpuMark> end_;  ///< null before the launch
    steady_clock::time_point deadline_;
    bool done_ = false;    ///< well, before the communicator was aborted
    bool late_ = false;    ///< NCCL had not taken it at the deadline
    bool broken_ = false;  ///< NCCL did not take it: there is no mark
    bool finished_ = false;
    std::exception_ptr error_;
    NcclProcessGroup* group_;
  };

  /// Leaves the host group before the watch: that group forgets all of the watch's subscribers when
  /// it has finished, which needs to be told of a loss until then.
  void let_go() {
    abort_communicator();
    host_.reset();
    if (watch_ != nullptr) {
      watch_->unsubscribe();
    }
  }

  void connect(milliseconds timeout) {
    nccl::UniqueId id{};
    std::string problem;
    if (rank() == 0) {
      const nccl::Result result = library_.get_unique_id(&id);
      if (result != nccl::Result::success) {
        problem = library_.get_error_string(result);
      }
    }
    // An empty text tells the others that there is no id.
    const std::string bytes = host_->broadcast_bytes(
        problem.empty() ? std::string_view(id.bytes, sizeof id.bytes) : std::string_view(), 0);
    if (bytes.size() != sizeof id.bytes) {
      throw StartError("NCCL cannot start on rank 0" + (problem.empty() ? "" : ": " + problem));
    }
    std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
    const State state = communicator_.connect(id, size(), rank(), steady_clock::now() + timeout);
    if (state == State::ready) {
      return;
    }
    // A loss explains an error of NCCL's better than NCCL's own text.
    const auto loss = watch_ != nullptr ? watch_->loss(kNamePatience) : std::optional<PeerLoss>();
    abort_communicator();
    if (loss) {
      throw_lost_at_start(*loss);
    }
    const std::string why =
        state == State::late
            ? "NCCL did not connect the ranks within " + ddprun::exact_seconds_text(timeout)
            : "NCCL cannot connect the ranks: " + communicator_.problem();
    if (watch_ != nullptr) {
      watch_->report({rank(), "init #0 failed there: " + why});
    }
    throw StartError("init #0 failed on rank " + std::to_string(rank()) + ": " + why +
                     "; NCCL_DEBUG=INFO shows its steps, NCCL_SOCKET_IFNAME names the interface");
  }

  [[noreturn]] static void throw_lost_at_start(const PeerLoss& loss) {
    const auto peer = loss.rank >= 0 ? std::optional(loss.rank) : std::nullopt;
    throw PeerLost("init #0 failed: " +
                       (peer ? "rank " + std::to_string(*peer) + " is gone"
                             : std::string("the group is broken")) +
                       " (" + loss.reason + ")",
                   "init", 0, peer);
  }

  Work issue(Operation operation) override {
    if (ending_) {
      std::rethrow_exception(failure(operation));
    }
    if (operation.kind == Operation::Kind::barrier) {
      marks().begun(operation);
      // The device's part first: behind a barrier all earlier work is done.
      try {
        gpu_.synchronize(device_);
      } catch (const DeviceError& error) {
        end({.loss = std::nullopt, .why = error.what()}, kDeviceFailed);
        std::rethrow_exception(failure(operation));
      }
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
    if (lost_) {
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
    kept_.remove_if([](const auto& other) { return other->settled(); });
    const auto deadline = steady_clock::now() + timeout_;
    for (const auto& pending : operations) {
      pending->deadline_ = deadline;
      pending->broken_ = true;  // until NCCL has taken it
      kept_.push_back(pending);
    }
    if (ending_) {
      return;
    }
    try {
      start(operations, deadline);
    } catch (const DeviceError& error) {
      end({.loss = std::nullopt, .why = error.what()}, kDeviceFailed);
    }
  }

  void start(const std::vector<std::shared_ptr<Pending>>& operations,
             steady_clock::time_point deadline) {
    stream_->follow_default_stream();
    communicator_.begin();
    for (const auto& pending : operations) {
      communicator_.took(
          nccl::call(library_, pending->operation_, communicator_.get(), stream_->handle()));
    }
    const State state = communicator_.end(deadline);
    for (const auto& pending : operations) {
      pending->late_ = state == State::late;
      if (state == State::ready) {
        pending->end_ = stream_->mark();
        pending->broken_ = false;
      }
    }
  }

  void await(Pending& pending) {
    // A stream works in order: a rank that is late for an earlier operation holds this one up, too.
    marks().begun(pending.operation_);
    launch_messages();
    if (pending.done_) {
      marks().finished(pending.operation_);
      return;
    }
    if (ending_) {
      std::rethrow_exception(failure(pending.operation_));
    }
    if (pending.late_) {
      std::rethrow_exception(late(pending.operation_));
    }
    if (pending.broken_) {
      std::rethrow_exception(failure(pending.operation_));
    }
    for (Patience patience(pending.deadline_);;) {
      try {
        if (pending.end_->reached()) {
          marks().finished(pending.operation_);
          return;
        }
      } catch (const DeviceError& error) {
        end({.loss = std::nullopt, .why = error.what()}, kDeviceFailed);
      }
      if (ending_ || lost_ || communicator_.look() == State::failed) {
        std::rethrow_exception(failure(pending.operation_));
      }
      if (!patience.pause()) {
        std::rethrow_exception(late(pending.operation_));
      }
    }
  }

  std::exception_ptr late(const Operation& operation) {
    end({.loss = std::nullopt, .why = to_text(operation) + " timed out"}, "");
    return timed_out(operation, timeout_);
  }

  /// Turns what broke the communicator into the exception to throw; aborts it here, and tells the
  /// others to do the same.
  std::exception_ptr failure(const Operation& operation) {
    if (!ending_) {
      // A loss explains an error of NCCL's better than NCCL's own text.
      auto loss = watch_ != nullptr ? watch_->loss(kNamePatience) : std::nullopt;
      end({.loss = std::move(loss), .why = communicator_.problem()}, "NCCL failed there: ");
    }
    return ending_->loss ? peer_lost(operation, *ending_->loss) : aborted(operation, ending_->why);
  }

  /// Once. `prefix` introduces the reason where other ranks read it.
  void end(Ending ending, const std::string& prefix) {
    if (ending_) {
      return;
    }
    ending_ = std::move(ending);
    // Before the others are told: they end a moment after that, and the agent takes the first end
    // for the cause.
    abort_communicator();
    if (!ending_->loss) {
      if (watch_ != nullptr) {
        watch_->report({rank(), prefix + ending_->why});
      }
      host_->abort(ending_->why);
    }
  }

  void abort_communicator() {
    if (communicator_.get() == nullptr) {
      return;
    }
    for (const auto& pending : kept_) {
      pending->note_done();
    }
    if (!communicator_.abort()) {
      std::fprintf(stderr,
                   "ddprun worker of rank %d: NCCL's abort does not return: the GPU's memory stays "
                   "as it is until this process ends\n",
                   rank());
      gpu_.give_up();
      end_without_exit_handlers();
    }
  }

  Gpu& gpu_;
  int device_;
  milliseconds timeout_;
  std::unique_ptr<ProcessGroup> host_;
  PeerWatch* watch_;
  const nccl::NcclLibrary& library_;
  std::atomic<bool> lost_{false};  // set by the watch's thread
  std::unique_ptr<GpuStream> stream_;
  NcclCommunicator communicator_;
  std::optional<Ending> ending_;
  std::vector<std::shared_ptr<Pending>> messages_;  // not launched yet
  std::list<std::shared_ptr<Pending>> kept_;        // launched, maybe not done
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_process_group(Gpu& gpu, NcclSetup setup) {
  return std::make_unique<NcclProcessGroup>(gpu, std::move(setup));
}

}  // namespace ddp
