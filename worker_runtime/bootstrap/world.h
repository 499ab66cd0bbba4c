// World: this process's place among the ranks, read from the environment. Pure: the environment
// comes in as a function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"

namespace ddp {

struct World {
  /// Who says where the ranks meet.
  enum class Meeting : std::uint8_t {
    alone,     ///< a world of one: nobody to meet
    by_store,  ///< a store listens at master_host:master_port
    by_port,   ///< rank 0 itself listens at master_port
    by_file,   ///< rank 0 listens at any port and writes it to publish_path (one host)
  };
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  int restart_count = 0;
  /// Calls of init() in this process that met others: the same on all ranks.
  int meetings_before = 0;
  Meeting meeting = Meeting::alone;
  std::string master_host;
  std::uint16_t master_port = 0;
  /// Under mpirun without MASTER_ADDR: a file in mpirun's own session directory, which is new for
  /// every job and removed by mpirun at its end.
  std::string publish_path;
};

/// nullopt when the variable is not set.
using Environment = std::function<std::optional<std::string>(const char*)>;

/// Looks for torchrun's variables (RANK or WORLD_SIZE set), then Open MPI's
/// (OMPI_COMM_WORLD_SIZE), then PMI's (PMI_SIZE: MPICH, Intel MPI), else a world of one. An Error
/// names the variable that is missing, malformed or contradicts another.
ddprun::Result<World> read_world(const Environment& environment);

}  // namespace ddp
