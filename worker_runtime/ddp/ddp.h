// The worker runtime: everything a native trainer needs to be one rank of a data-parallel job.
//
//     int train(int argc, char** argv) {
//       ddp::Context context = ddp::init();
//       std::vector<ddp::Parameter> parameters = ...;            // the model's
//       ddp::DistributedDataParallel parallel(context.group(), parameters);
//       ddp::DistributedSampler sampler(samples, context.rank(), context.world_size());
//       ...
//     }
//     int main(int argc, char** argv) { return ddp::record(argc, argv, train); }
//
// Works the same under ddprun or torchrun, under plain mpirun, and alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "ddp/distributed_data_parallel.h"
#include "ddp/distributed_sampler.h"
#include "ddp/error.h"
#include "ddp/export.h"
#include "ddp/process_group.h"
#include "ddp/record.h"
#include "ddp/tensor.h"

namespace ddp {

enum class Backend : std::uint8_t {
  automatic,  ///< NCCL where CUDA was built in and this rank has a GPU, else Gloo
  gloo,       ///< CPU only
  nccl,       ///< a GPU is demanded: StartError without one
};

struct InitOptions {
  Backend backend = Backend::automatic;
  /// Longest that one operation may take before it throws Timeout; a second later at most, since it
  /// is asked first whether a rank was lost. Ten years at most. Five minutes: long enough for a
  /// rank that writes a large snapshot while the others wait, short enough to end a hung job.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Longest that init waits for the store and for every other rank to arrive.
  std::chrono::milliseconds connect_timeout = std::chrono::minutes(2);
};

/// What a worker is about, for whoever asks why it does not go on. The first step begins
/// `training`; Snapshot tells when it saves and loads.
enum class Phase : std::uint8_t { starting, training, saving, loading, evaluating, ended };

/// What the runtime tells the agent about the training's progress. Each call is a few stores to a
/// shared page; without an agent that asks for it they do nothing. Any thread.
class DDP_EXPORT Progress {
 public:
  /// The channel that the agent named in DDPRUN_PROGRESS_CHANNEL. Null, empty, or of an agent that
  /// is gone: one that does nothing. Context::progress() has been attached already.
  static Progress attach(const char* channel_path);

  /// An optimizer step is done. The first call also marks the end of the start-up time.
  void step(std::optional<double> loss = std::nullopt);
  /// Of the whole training: it is to have `total` optimizer steps, and had `done` of them before
  /// this attempt. For who shows how far it is (Kubeflow's TrainJob).
  void planned(std::uint64_t done, std::uint64_t total);
  /// A sign of life where something takes longer than --hang-timeout without a step or a
  /// collective: a download, a compilation, a long evaluation.
  void alive();
  /// The worker is about this from now on; a sign of life too.
  void enter(Phase phase);
  /// What was told last.
  [[nodiscard]] Phase phase() const;
  void epoch_done(std::uint64_t epoch);
  /// Training went on from a snapshot; `epoch` is the last one that it had finished.
  void resumed(std::uint64_t epoch);
  void saved(std::uint64_t epoch);
  /// The same where snapshots are saved within epochs: `step` counts the optimizer steps of the
  /// whole training by then. A training tells of its snapshots by steps or by epochs, never both.
  void resumed_at_step(std::uint64_t step);
  void saved_at_step(std::uint64_t step);

  /// A point in the training: optimizer steps of this worker so far, and CLOCK_MONOTONIC.
  struct Moment {
    std::uint64_t steps = 0;
    std::int64_t at_ns = 0;
  };
  [[nodiscard]] Moment now() const;
  /// A snapshot of the training as it was at `then` is on the disk now.
  void saved(std::uint64_t epoch, const Moment& then);
  void saved_at_step(std::uint64_t step, const Moment& then);

 private:
  friend struct ProgressInside;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// One rank's place in the world. Move-only. At the end of its life it leaves the group in order;
/// when that end comes by an exception, the other ranks are told that this one failed: under
/// record() once the error file is written, or after 3 seconds.
class DDP_EXPORT Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_world_size() const;
  /// Number of this node, from 0 (GROUP_RANK; 0 where the launcher does not say).
  [[nodiscard]] int node_rank() const;
  /// Restarts so far (TORCHELASTIC_RESTART_COUNT; 0 outside of a launcher).
  [[nodiscard]] int restart_count() const;
  /// Where this rank's tensors should live: its GPU with NCCL, else the CPU.
  [[nodiscard]] Device device() const;
  /// Lives as long as the context.
  [[nodiscard]] ProcessGroup& group() const;
  [[nodiscard]] Progress& progress() const;

 private:
  friend DDP_EXPORT Context init(const InitOptions& options);
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Reads the environment, finds the other ranks and connects to all of them. The environment is
/// torchrun's (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), else Open MPI's
/// (OMPI_COMM_WORLD_*), else this process is a world of one. Throws StartError, DeviceError,
/// PeerLost (a rank died while connecting), InvalidArgument while an earlier Context with peers
/// lives. Call it from the main thread. A child that is forked afterwards has no part in the world:
/// it may end or call exec(3), and must not use the Context.
DDP_EXPORT Context init(const InitOptions& options = {});

/// Calls `f` on rank 0 while the others wait, then on all others at once; every rank returns only
/// when all are done. What rank 0 downloads, the others find. Collective.
template <class F>
void rank0_first(const Context& context, F&& f);
/// The same, node by node: the worker with local rank 0 of each node goes first. For files that
/// each node keeps for itself.
template <class F>
void local_rank0_first(const Context& context, F&& f);

/// True when all ranks see one and the same directory at `path`: rank 0 writes a file with a random
/// token, every rank looks for it. All ranks get the same answer. Collective. Creates nothing that
/// stays; a rank for which `path` is no directory, or a rank 0 that cannot write there, makes it
/// false.
DDP_EXPORT bool is_shared_directory(const Context& context, const std::filesystem::path& path);

template <class F>
void run_in_two_turns(const Context& context, bool first, F&& f) {
  if (first) {
    f();
  }
  context.group().barrier();
  if (!first) {
    f();
  }
  context.group().barrier();
}

template <class F>
void rank0_first(const Context& context, F&& f) {
  run_in_two_turns(context, context.rank() == 0, std::forward<F>(f));
}

template <class F>
void local_rank0_first(const Context& context, F&& f) {
  run_in_two_turns(context, context.local_rank() == 0, std::forward<F>(f));
}

}  // namespace ddp
