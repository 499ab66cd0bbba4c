#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "ddp/ddp.h"
#include "rendezvous/contract/environment.h"
#include "worker_runtime/bootstrap/bootstrap.h"
#include "worker_runtime/collectives/collective_progress.h"
#include "worker_runtime/collectives/gloo_context.h"
#include "worker_runtime/collectives/gloo_process_group.h"
#include "worker_runtime/collectives/single_process_group.h"
#include "worker_runtime/context.h"
#include "worker_runtime/failure/recording.h"
#include "worker_runtime/gpu.h"
#include "worker_runtime/training/progress_impl.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

/// A longer one would overflow where a deadline is computed from it.
constexpr milliseconds kTimeoutMax = std::chrono::hours(24 * 365 * 10);

/// Connects every rank with every other. A rank that dies meanwhile ends the wait at once.
std::unique_ptr<ProcessGroup> connect_gloo(const World& world, PeerMonitor& lifeline,
                                           const InitOptions& options) {
  // Its ports are open before the addresses are exchanged, so no peer is refused.
  auto mesh = std::make_unique<GlooContext>(world.rank, world.world_size, lifeline.address(),
                                            options.connect_timeout);
  const auto deadline = std::chrono::steady_clock::now() + options.connect_timeout;
  const auto peers = lifeline.exchange(mesh->addresses(), deadline);
  if (!peers) {
    throw StartError(peers.error().sentence());
  }
  lifeline.watch();
  // Gloo waits for each peer with a timeout of its own; a lost rank cuts that short.
  lifeline.subscribe([&mesh] { mesh->abort(); });
  try {
    mesh->connect(*peers);
  } catch (const std::exception& error) {
    lifeline.unsubscribe();
    // Gloo sees the closed connection first; the lifeline needs a moment to name the rank.
    const std::optional<PeerLoss> loss = lifeline.loss(milliseconds(250));
    if (loss) {
      throw PeerLost(
          fmt::format("connecting failed: rank {} is gone ({})", loss->rank, loss->reason), "init",
          0, loss->rank >= 0 ? std::optional(loss->rank) : std::nullopt);
    }
    lifeline.report({world.rank, "it cannot connect to all others"});
    throw StartError(
        fmt::format("rank {} cannot connect to all others from its address {} (GLOO_SOCKET_IFNAME "
                    "names another interface): {}",
                    world.rank, lifeline.address(), error.what()));
  }
  lifeline.unsubscribe();
  return make_gloo_process_group(std::move(mesh), lifeline.take_data_links(), world.rank,
                                 world.world_size, lifeline, options.timeout);
}

/// This rank's GPU; -1 with a reason when there is none for it.
int choose_gpu(const World& world, std::string& why_not) {
  Gpu* gpu = find_gpu(&why_not);
  if (gpu == nullptr) {
    return -1;
  }
  if (!gpu->has_nccl(why_not)) {
    return -1;
  }
  const int count = gpu->device_count();
  // NCCL refuses two ranks on one GPU unless this variable allows it.
  const char* sharing = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (world.local_rank < count) {
    return world.local_rank;
  }
  if (sharing != nullptr && std::string(sharing) == "1") {
    return world.local_rank % count;
  }
  why_not =
      fmt::format("local rank {} has no GPU of its own: {} can be seen", world.local_rank, count);
  return -1;
}

/// All ranks use NCCL or none does. Returns this rank's GPU, or -1 for Gloo.
int agree_on_gpu(const World& world, ProcessGroup& group, Backend wanted) {
  std::string why_not = "Gloo was asked for";
  const int mine = wanted == Backend::gloo ? -1 : choose_gpu(world, why_not);
  // A GPU, or what only belongs to one, is on this node.
  const bool may_stay_idle = wanted != Backend::gloo && why_not != kNoGpuDriver;
  // An empty text means a GPU. Every rank has all answers, so all decide alike without another
  // round.
  const std::vector<std::string> all = group.all_gather_bytes(mine >= 0 ? "" : why_not);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) {
      continue;
    }
    if (wanted == Backend::nccl) {
      throw StartError(fmt::format("NCCL was asked for, but rank {}: {}", rank, all[rank]));
    }
    // Once for each node, and only where a GPU stays idle.
    if (may_stay_idle && world.local_rank == 0) {
      std::fprintf(stderr, "ddprun worker: training on the CPU, because rank %zu: %s\n", rank,
                   all[rank].c_str());
    }
    return -1;
  }
  return mine;
}

}  // namespace

Context init(const InitOptions& wanted) {
  let_go_of_kept();
  InitOptions options = wanted;
  options.timeout = std::min(options.timeout, kTimeoutMax);
  options.connect_timeout = std::min(options.connect_timeout, kTimeoutMax);
  const auto world = read_world(process_environment);
  if (!world) {
    throw StartError(world.error().sentence());
  }
  // To Gloo a timeout of 0 means for ever.
  if (options.timeout <= milliseconds(0) || options.connect_timeout <= milliseconds(0)) {
    throw InvalidArgument("the timeouts of init must be longer than nothing");
  }
  // Gloo writes to connections whose other end may be gone: that must be an error of the write,
  // which becomes PeerLost, and not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  auto impl = std::make_unique<Context::Impl>();
  impl->world = *world;
  impl->progress = Progress::attach(std::getenv(ddprun::env::kProgressChannel));
  ddprun::ProgressChannel* const channel = ProgressInside::channel(impl->progress);
  if (channel != nullptr) {
    // Before any connection: a rank that hangs while it connects can show its stack.
    impl->stacks = std::make_unique<StackOnDemand>(*channel);
    impl->progress.enter(Phase::starting);
  }
  if (world->meeting == World::Meeting::alone) {
    impl->group = make_alone_process_group();
  } else {
    if (process_with_peers.exchange(::getpid()) == ::getpid()) {
      throw InvalidArgument(
          "init() was called while the Context of an earlier call lives; a process has one");
    }
    impl->is_counted = true;
    static int meetings = 0;
    impl->world.meetings_before = meetings++;
    // The lifeline first: it names a rank that never comes, which Gloo cannot.
    impl->lifeline = meet(impl->world, options.connect_timeout);
    impl->group = connect_gloo(*world, *impl->lifeline, options);
  }
  if (channel != nullptr) {
    tell_collectives(*impl->group,
                     CollectiveProgress(channel->page(), CollectiveProgress::Group::host));
  }
  // Agreed over Gloo, which every world has; the NCCL group then owns the Gloo group as its host
  // part.
  const int gpu = agree_on_gpu(*world, *impl->group, options.backend);
  if (gpu >= 0) {
    impl->device = Device::cuda(gpu);
    require_gpu().select(gpu);
    impl->group = require_gpu().connect_nccl({.device = gpu,
                                              .timeout = options.timeout,
                                              .connect_timeout = options.connect_timeout,
                                              .host = std::move(impl->group),
                                              .watch = impl->lifeline.get()});
    if (channel != nullptr) {
      tell_collectives(*impl->group,
                       CollectiveProgress(channel->page(), CollectiveProgress::Group::gpu));
    }
  }
  return Context(std::move(impl));
}

}  // namespace ddp
