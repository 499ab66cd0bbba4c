// The variables that schedulers set, for tests. Slurm's, Open MPI's and Hydra's are as Slurm 22.05,
// Open MPI 4.1 and MPICH 4.0 set them; PBS's and LSF's as their documentation has them, since
// Debian has neither.
#pragma once

#include <string>

#include "tests/unit/launcher/launch_words.h"

namespace ddprun::test {

inline Variables joined(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) {
    variables[name] = value;
  }
  return variables;
}

inline const Variables kSalloc{{"SLURM_JOB_ID", "123456"},
                               {"SLURM_JOB_NUM_NODES", "4"},
                               {"SLURM_JOB_NODELIST", "n[1-4]"},
                               {"SLURM_TASKS_PER_NODE", "1(x4)"}};

inline const Variables kBatch = joined(kSalloc, {{"SLURMD_NODENAME", "n1"},
                                                 {"SLURM_PROCID", "0"},
                                                 {"SLURM_NODEID", "0"},
                                                 {"SLURM_LOCALID", "0"},
                                                 {"SLURM_NTASKS", "4"}});

/// The task of this rank, one on each node.
inline Variables slurm_task(int rank) {
  const std::string text = std::to_string(rank);
  return joined(kBatch, {{"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_STEP_NUM_NODES", "4"},
                         {"SLURM_STEP_NODELIST", "n[1-4]"},
                         {"SLURM_STEP_TASKS_PER_NODE", "1(x4)"},
                         {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
                         {"SLURMD_NODENAME", "n" + std::to_string(rank + 1)},
                         {"SLURM_PROCID", text},
                         {"SLURM_NODEID", text}});
}

inline Variables open_mpi(int rank, int size, int local_size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
          {"OMPI_UNIVERSE_SIZE", "2"},
          {"PMIX_RANK", std::to_string(rank)},
          {"PMIX_NAMESPACE", "776994817"}};
}

inline Variables hydra(int rank, int size, int local_size) {
  return {{"PMI_RANK", std::to_string(rank)},
          {"PMI_SIZE", std::to_string(size)},
          {"PMI_FD", "6"},
          {"MPI_LOCALNRANKS", std::to_string(local_size)},
          {"MPI_LOCALRANKID", "0"}};
}

/// As pbsdsh starts it on the node of this number; the script itself is task 1 of node 0.
inline Variables pbs(int node, int task) {
  return {{"PBS_JOBID", "15422.login2"},
          {"PBS_NODEFILE", "/var/spool/pbs/aux/15422.login2"},
          {"PBS_NODENUM", std::to_string(node)},
          {"PBS_TASKNUM", std::to_string(task)}};
}

inline const Variables kLsf{{"LSB_JOBID", "8301"},
                            {"LSB_JOBINDEX", "0"},
                            {"LSB_MCPU_HOSTS", "hostA 16 hostB 16 hostC 8"},
                            {"LSB_HOSTS", "hostA hostA hostB"}};

}  // namespace ddprun::test
