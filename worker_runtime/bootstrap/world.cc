#include "worker_runtime/bootstrap/world.h"

#include <fmt/core.h>

#include <limits>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract/environment.h"

namespace ddp {
namespace {

using ddprun::Error;
using ddprun::Result;
namespace env = ddprun::env;

/// One launcher's names for the same four numbers; null where it has none.
struct Names {
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

constexpr Names kTorchrun = {"torchrun", env::kRank, env::kWorldSize, env::kLocalRank,
                             env::kLocalWorldSize};
constexpr Names kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
/// Hydra, the launcher of MPICH and Intel MPI, sets these.
constexpr Names kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

/// A number that must be there.
Result<int> number(const Environment& environment, const char* name, int low, int high) {
  DDP_CHECK(low <= high, "some number is good");
  const std::optional<std::string> text = environment(name);
  if (!text) {
    return Error("is not set, though other variables of its launcher are", name,
                 "start the program with ddprun, torchrun or mpirun, or unset the others to run "
                 "alone");
  }
  // The whole text has to be the number: "4x" is a mistake.
  const auto value = ddprun::parse_number<int>(*text);
  if (!value || *value < low || *value > high) {
    return Error("\"" + *text + "\" is not a number from " + std::to_string(low) + " to " +
                     std::to_string(high),
                 name, "");
  }
  return *value;
}

Result<int> number_or(const Environment& environment, const char* name, int low, int high,
                      int otherwise) {
  if (name == nullptr || !environment(name)) {
    return otherwise;
  }
  return number(environment, name, low, high);
}

/// Fills ranks and sizes, and holds them against each other.
Result<World> read_ranks(const Environment& environment, const Names& names) {
  constexpr int kMax = std::numeric_limits<int>::max();
  World world;
  const Result<int> world_size = number(environment, names.world_size, 1, kMax);
  if (!world_size) {
    return world_size.error();
  }
  const Result<int> rank = number(environment, names.rank, 0, kMax);
  if (!rank) {
    return rank.error();
  }
  // Without local-rank variables, assume one process per node.
  const Result<int> local_size = number_or(environment, names.local_world_size, 1, kMax, 1);
  if (!local_size) {
    return local_size.error();
  }
  const Result<int> local_rank = number_or(environment, names.local_rank, 0, kMax, 0);
  if (!local_rank) {
    return local_rank.error();
  }
  world.world_size = *world_size;
  world.rank = *rank;
  world.local_world_size = *local_size;
  world.local_rank = *local_rank;
  // One launcher's variables agree; leftovers that a shell has exported may not.
  const auto contradiction = [&](const char* name, int value, const char* limit_name, int limit) {
    return Error(fmt::format("{} contradicts {}={}", value, limit_name, limit), name, "");
  };
  if (world.rank >= world.world_size) {
    return contradiction(names.rank, world.rank, names.world_size, world.world_size);
  }
  if (environment(names.local_world_size)) {
    // A virtual local rank (always 0) is below any size, so it passes.
    if (world.local_rank >= world.local_world_size) {
      return contradiction(names.local_rank, world.local_rank, names.local_world_size,
                           world.local_world_size);
    }
    if (world.local_world_size > world.world_size) {
      return contradiction(names.local_world_size, world.local_world_size, names.world_size,
                           world.world_size);
    }
  }
  DDP_CHECK(world.rank >= 0 && world.rank < world.world_size, "ranks are counted from 0");
  DDP_CHECK(world.local_rank >= 0 && world.local_world_size >= 1, "and so are local ones");
  return world;
}

/// Reads MASTER_ADDR and MASTER_PORT, of which both or none must be there.
Result<bool> read_master(const Environment& environment, World& world) {
  const std::optional<std::string> host = environment(env::kMasterAddr);
  if (!host && !environment(env::kMasterPort)) {
    return false;
  }
  // A port without a host: a guess at the host would end in a timeout.
  if (!host || host->empty()) {
    return Error("is not set, though MASTER_PORT is", env::kMasterAddr,
                 "set it to the address of rank 0's host");
  }
  const Result<int> port = number(environment, env::kMasterPort, 1, 65535);
  if (!port) {
    return port.error();
  }
  world.master_host = *host;
  world.master_port = static_cast<std::uint16_t>(*port);
  DDP_CHECK(world.master_port != 0 && !world.master_host.empty(), "a master can be connected to");
  return true;
}

/// The contract of torchrun, which ddprun keeps: ranks, the agent's number, the attempt, and who
/// hosts the store.
Result<World> read_torchrun(const Environment& environment) {
  Result<World> world = read_ranks(environment, kTorchrun);
  if (!world) {
    return world;
  }
  // torchrun numbers its agents by GROUP_RANK: one for each node, as a rule.
  const Result<int> node = number_or(environment, env::kGroupRank, 0, world->world_size - 1, 0);
  if (!node) {
    return node.error();
  }
  // Part of the key under which rank 0 publishes its port, so each attempt has its own.
  const Result<int> restarts = number_or(environment, env::kRestartCount, 0, 1 << 30, 0);
  if (!restarts) {
    return restarts.error();
  }
  DDP_CHECK(*node < world->world_size, "each node has a rank at least");
  world->node_rank = *node;
  world->restart_count = *restarts;
  const Result<bool> master = read_master(environment, *world);
  if (!master) {
    return master.error();
  }
  // A world of one needs no master, even where the variables name one.
  if (world->world_size == 1) {
    return world;
  }
  if (!*master) {
    return Error("is not set, so the ranks cannot find each other", env::kMasterAddr,
                 "start the program with ddprun or torchrun, or set MASTER_ADDR and MASTER_PORT");
  }
  DDP_CHECK(world->world_size > 1 && world->master_port != 0, "ranks that meet have a master");
  // Where no agent keeps a store, rank 0 takes the port: torchrun says so with "False", and a
  // person who sets the variables by hand says nothing.
  const std::optional<std::string> agent = environment(env::kUseAgentStore);
  world->meeting = agent && (*agent == "True" || *agent == "true" || *agent == "1")
                       ? World::Meeting::by_store
                       : World::Meeting::by_port;
  return world;
}

/// mpirun gives ranks and no meeting point: that is MASTER_ADDR, or a file where all ranks are on
/// one host.
Result<World> read_mpi(const Environment& environment, const Names& names) {
  Result<World> world = read_ranks(environment, names);
  if (!world || world->world_size == 1) {
    return world;
  }
  const Result<bool> master = read_master(environment, *world);
  if (!master) {
    return master.error();
  }
  if (*master) {
    world->meeting = World::Meeting::by_port;
    return world;
  }
  // A file is a meeting place for one host: all ranks have to be local.
  if (!environment(names.local_world_size) || world->local_world_size != world->world_size) {
    return Error(
        "the ranks are on several hosts and MASTER_ADDR is not set, so they cannot find "
        "each other",
        names.launcher,
        "give mpirun -x MASTER_ADDR=<address of rank 0's host> -x MASTER_PORT=<free port>");
  }
  // PMIx (Open MPI 4 and later) gives each job a folder, which mpirun removes at the end.
  const std::optional<std::string> folder = environment("PMIX_SERVER_TMPDIR");
  const std::optional<std::string> job = environment("PMIX_NAMESPACE");
  if (!folder || folder->empty() || !job || job->empty()) {
    return Error(
        "neither MASTER_ADDR nor a session directory (PMIX_SERVER_TMPDIR, PMIX_NAMESPACE) "
        "is set, so the ranks cannot find each other",
        names.launcher, "give mpirun -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT=<free port>");
  }
  DDP_CHECK(world->local_world_size == world->world_size, "a file is seen by one host");
  world->meeting = World::Meeting::by_file;
  world->master_host = "127.0.0.1";
  world->publish_path = *folder + "/ddprun-" + *job + ".port";
  return world;
}

}  // namespace

Result<World> read_world(const Environment& environment) {
  // torchrun's first: a worker of ddprun that was started inside an mpirun has both.
  if (environment(env::kRank) || environment(env::kWorldSize)) {
    return read_torchrun(environment);
  }
  if (environment(kOpenMpi.world_size)) {
    return read_mpi(environment, kOpenMpi);
  }
  if (environment(kPmi.world_size)) {
    return read_mpi(environment, kPmi);
  }
  // No launcher: the program was started by hand, and trains alone.
  return World{};
}

}  // namespace ddp
