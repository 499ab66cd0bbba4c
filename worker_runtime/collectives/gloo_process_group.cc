#include "worker_runtime/collectives/gloo_process_group.h"

#include <fmt/core.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "ddp/error.h"
#include "worker_runtime/collectives/collective_progress.h"
#include "worker_runtime/collectives/gloo_collectives.h"
#include "worker_runtime/collectives/gloo_transfer.h"
#include "worker_runtime/collectives/operation.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How long a broken connection waits for the watch to say whose death it was.
constexpr milliseconds kNamePatience{750};
/// How long bytes of a lost rank may still be on their way.
constexpr milliseconds kLastBytesPatience{200};

/// The state that handles and the group share: a handle may outlive its group.
class Shared {
 public:
  Shared(std::unique_ptr<GlooContext> mesh, std::vector<ddprun::Fd> links, int own_rank,
         PeerWatch& watch, milliseconds op_timeout)
      : timeout(op_timeout),
        rank(own_rank),
        star(std::move(links)),
        mesh_(std::move(mesh)),
        watch_(&watch) {}

  const milliseconds timeout;
  const int rank;
  TransferBoard board;
  HubChannel star;

  /// Empty once the group is gone.
  std::shared_ptr<gloo::Context> context() {
    const std::lock_guard lock(mutex_);
    return mesh_ ? mesh_->context() : nullptr;
  }

  /// Turns what went wrong in `operation` into the exception to throw, and ends the group: the
  /// other ranks are told and this rank's connections closed.
  std::exception_ptr fail(const Operation& operation, const std::exception& error) {
    // Only the first failure is looked into; the others are its consequences.
    std::exception_ptr known = refusal(operation);
    if (known) {
      return known;
    }
    if (dynamic_cast<const OtherOperation*>(&error) != nullptr) {
      end(Ending::Kind::lost,
          {-1, fmt::format("on rank {}: {} failed: {}", rank, to_text(operation), error.what())});
      return differs(operation, error.what());
    }
    // A death before the timeout has been told by then. Soon: Gloo closes all connections at
    // a timeout, and the others wait for the reason.
    const bool is_late = is_gloo_timeout(error);
    std::optional<PeerLoss> loss = watch_->loss(is_late ? kLastBytesPatience : kNamePatience);
    if (is_late && (!loss || loss->rank < 0)) {
      end(Ending::Kind::timeout,
          {-1, fmt::format("{} timed out on rank {}", to_text(operation), rank)});
      return timed_out(operation, timeout);
    }
    if (!loss) {
      // Only Gloo saw it: a rank closed its connections, for a reason unknown here.
      loss = PeerLoss{operation.is_message() ? operation.peer : -1, error.what()};
    }
    end(Ending::Kind::lost, *loss);
    return peer_lost(operation, *loss);
  }

  void abort(const std::string& reason) { end(Ending::Kind::aborted, {-1, reason}); }

  /// Called by the watch: what is pending here fails, and then finds out why in fail(). Not at
  /// once: the lost rank may have done its part of an operation before it ended, and the word of
  /// its end may overtake its bytes. What can still finish does.
  void on_loss() {
    const std::lock_guard lock(end_mutex_);
    if (!ender_.joinable()) {
      ender_ = std::thread([this] {
        std::unique_lock wait_lock(end_mutex_);
        // close() ends the pause: no operation is left then that could still finish.
        closing_changed_.wait_for(wait_lock, kLastBytesPatience, [this] { return closing_; });
        wait_lock.unlock();
        abort_transfers();
      });
    }
  }

  void abort_transfers() {
    const std::lock_guard lock(mesh_mutex_);
    if (mesh_) {
      star.abort();
      board.abort();   // whoever waits here
      mesh_->abort();  // closes the connections: whoever waits for us
    }
  }

  /// The exception for an operation on a group that has ended; null while it lives.
  std::exception_ptr refusal(const Operation& operation) {
    std::unique_lock lock(mutex_);
    if (!ending_) {
      return nullptr;
    }
    switch (ending_->kind) {
      case Ending::Kind::lost:
        return peer_lost(operation, ending_->loss);
      // After a timeout no rank can see which bytes are still on their way: the group is as broken
      // as by a loss.
      case Ending::Kind::timeout:
        return peer_lost(operation, ending_->loss);
      case Ending::Kind::aborted:
        break;
    }
    return aborted(operation, ending_->loss.reason);
  }

  /// Lets go of the connections. Operations must have ended.
  void close() {
    {
      const std::lock_guard lock(end_mutex_);
      closing_ = true;
      closing_changed_.notify_all();
    }
    if (ender_.joinable()) {
      ender_.join();  // the watch has been told to forget us: no other can begin
    }
    const std::scoped_lock lock(mesh_mutex_, mutex_);
    mesh_.reset();
  }

 private:
  struct Ending {
    enum class Kind : std::uint8_t { lost, timeout, aborted };
    Kind kind;
    PeerLoss loss;
  };

  void end(Ending::Kind kind, PeerLoss loss) {
    {
      const std::lock_guard lock(mutex_);
      if (ending_) {
        return;
      }
      ending_ = Ending{kind, loss};
    }
    if (kind == Ending::Kind::aborted) {
      loss = {rank, "it aborted its group: " + loss.reason};
    }
    // Outside the lock: the watch calls on_loss() from within.
    watch_->report(loss);
    abort_transfers();
  }

  std::mutex mutex_;       // guards ending_ and the pointer mesh_
  std::mutex mesh_mutex_;  // held while the mesh is aborted, so that it stays
  std::unique_ptr<GlooContext> mesh_;
  PeerWatch* watch_;
  std::optional<Ending> ending_;
  std::mutex end_mutex_;  // guards what follows
  std::condition_variable closing_changed_;
  bool closing_ = false;
  std::thread ender_;  // aborts after a loss
};

/// A collective in the queue, on the thread, or done.
class Collective : public Work::State {
 public:
  explicit Collective(Operation operation) : operation_(std::move(operation)) {}

  const Operation& operation() const { return operation_; }

  bool done() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return done_; });
    if (error_) {
      std::rethrow_exception(error_);
    }
  }
  void finish(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    error_ = std::move(error);
    operation_.input = {};  // the caller may want the memory back while it keeps the handle
    operation_.output = {};
    finished_.notify_all();
  }

 private:
  Operation operation_;
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::exception_ptr error_;
};

/// A send or recv, posted to Gloo. Gloo tells of its end only to somebody who waits, so done() is
/// false until then.
class Message : public Work::State {
 public:
  Message(Operation operation, std::shared_ptr<Shared> shared, const CollectiveProgress& marks)
      : operation_(std::move(operation)),
        shared_(std::move(shared)),
        marks_(marks),
        deadline_(steady_clock::now() + shared_->timeout) {}

  void post() {
    const std::shared_ptr<gloo::Context> context = shared_->context();
    const bool sends = operation_.kind == Operation::Kind::send;
    const Tensor& tensor = sends ? operation_.input : operation_.output;
    if (tensor.size() == 0) {
      done_ = true;
      return;
    }
    // Gloo's collectives use prefixes 1 to 8 in the top byte.
    constexpr std::uint64_t kMessagePrefix = std::uint64_t{0x40} << 56;
    const std::uint64_t slot = kMessagePrefix | std::uint64_t{fingerprint(operation_)} << 32 |
                               static_cast<std::uint32_t>(operation_.tag);
    try {
      transfer_ =
          std::make_unique<Transfer>(shared_->board, context, tensor.raw(), tensor.size_bytes());
      if (sends) {
        transfer_->send(operation_.peer, slot, 0, tensor.size_bytes());
      } else {
        transfer_->recv(operation_.peer, slot, 0, tensor.size_bytes());
      }
    } catch (const std::exception& error) {
      std::rethrow_exception(shared_->fail(operation_, error));
    }
  }

  bool done() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  /// The group has ended, and a handle that is still held fails with it.
  void drop() {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      error_ = aborted(operation_, "its group ended before it was waited for");
      finish();
    }
  }

  void wait() override {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      await();
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  void await() {
    try {
      transfer_->wait(deadline_);
      marks_.finished(operation_);
    } catch (const std::exception& error) {
      error_ = shared_->fail(operation_, error);
    }
    finish();
  }

  void finish() {
    done_ = true;
    transfer_.reset();
    // As for a collective: the caller may want the memory back.
    operation_.input = {};
    operation_.output = {};
  }

  Operation operation_;
  std::shared_ptr<Shared> shared_;
  CollectiveProgress marks_;
  steady_clock::time_point deadline_;
  mutable std::mutex mutex_;
  std::unique_ptr<Transfer> transfer_;
  bool done_ = false;
  std::exception_ptr error_;
};

class GlooProcessGroup : public ProcessGroup {
 public:
  GlooProcessGroup(std::shared_ptr<Shared> shared, int rank, int world_size, PeerWatch& watch)
      : ProcessGroup(rank, world_size), shared_(std::move(shared)), watch_(watch) {
    // The callback runs on the watch's thread, and has no pointer to this group: it shares the
    // state.
    watch_.subscribe([shared = shared_] { shared->on_loss(); });
    thread_ = std::thread([this] { run(); });
  }

  /// Finishes what was issued, each within the timeout, or what abort() left of it.
  ~GlooProcessGroup() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
    watch_.unsubscribe();
    for (const auto& message : messages_) {
      message->drop();
    }
    shared_->close();
  }

  std::string_view backend() const override { return "gloo"; }
  void abort(std::string_view reason) override { shared_->abort(std::string(reason)); }

 private:
  Work issue(Operation operation) override {
    if (const std::exception_ptr refusal = shared_->refusal(operation)) {
      std::rethrow_exception(refusal);
    }
    if (operation.is_message()) {
      auto message = std::make_shared<Message>(std::move(operation), shared_, marks());
      message->post();
      // Gloo drops a message whose buffer goes away, so the group keeps those that nobody waits
      // for; those that are done leave at the next chance.
      messages_.remove_if([](const auto& other) { return other->done(); });
      messages_.push_back(message);
      return Work(message);
    }
    auto collective = std::make_shared<Collective>(std::move(operation));
    const std::lock_guard lock(mutex_);
    queue_.push_back(collective);
    changed_.notify_all();
    return Work(collective);
  }

  /// The caller waits anyway, and two changes of thread cost more than a small tensor.
  void issue_and_wait(Operation operation) override {
    // Behind another collective the order of issue decides, so the thread takes it.
    if (operation.is_message() || !start_here()) {
      return issue(std::move(operation)).wait();
    }
    // On this thread, while run() waits until `running_` is false.
    const std::exception_ptr error = perform(operation);
    {
      const std::lock_guard lock(mutex_);
      running_ = false;
      if (!queue_.empty()) {
        changed_.notify_all();
      }
    }
    if (error) {
      std::rethrow_exception(error);
    }
  }

  /// True, and then the thread waits, when no collective is before the next one.
  bool start_here() {
    const std::lock_guard lock(mutex_);
    if (running_ || !queue_.empty()) {
      return false;
    }
    running_ = true;
    return true;
  }

  void check_device(const Tensor& tensor) const override {
    if (!tensor.device().is_cpu()) {
      throw InvalidArgument("a tensor on " + to_text(tensor.device()) +
                            " cannot be sent by a Gloo group; copy it to the CPU first");
    }
  }

  void run() {
    for (;;) {
      std::shared_ptr<Collective> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return (stopping_ || !queue_.empty()) && !running_; });
        // Stopping, and all that was issued is done or has failed.
        if (queue_.empty()) {
          return;
        }
        running_ = true;
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      std::exception_ptr error = perform(next->operation());
      {
        // First, so that the caller that waited for this one can run the next on its own thread.
        const std::lock_guard lock(mutex_);
        running_ = false;
      }
      next->finish(std::move(error));
    }
  }

  std::exception_ptr perform(const Operation& operation) {
    if (std::exception_ptr refusal = shared_->refusal(operation)) {
      return refusal;
    }
    try {
      marks().begun(operation);
      run_on_gloo(operation, shared_->context(), shared_->board, shared_->star, scratch_,
                  shared_->timeout);
      marks().finished(operation);
      return nullptr;
    } catch (const std::exception& error) {
      return shared_->fail(operation, error);
    }
  }

  std::shared_ptr<Shared> shared_;
  PeerWatch& watch_;
  ScratchMemory scratch_;  // of the collective that runs
  std::list<std::shared_ptr<Message>> messages_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Collective>> queue_;
  bool running_ = false;  // a collective, on whichever thread
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_gloo_process_group(std::unique_ptr<GlooContext> mesh,
                                                      std::vector<ddprun::Fd> star, int rank,
                                                      int world_size, PeerWatch& watch,
                                                      milliseconds timeout) {
  return std::make_unique<GlooProcessGroup>(
      std::make_shared<Shared>(std::move(mesh), std::move(star), rank, watch, timeout), rank,
      world_size, watch);
}

}  // namespace ddp
