// Allocation: what a scheduler or an MPI launcher has told this process about the job that it is a
// part of. Values. The options that are not given are filled from it (scheduler_defaults.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/scheduler/told.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// The job of a batch system, whatever started this process in it.
struct BatchJob {
  std::string system;  ///< "Slurm job"
  Told<std::string> id = {};
  std::uint64_t number = 0;  ///< of the port
  std::uint64_t part = 0;
  /// Of all hosts of the job: mpirun begins there.
  Result<Told<std::string>> first_host = {};
};

struct Allocation {
  std::string launcher;  ///< what started this process, for people: "Slurm job"
  /// How many agents the launcher started, this one included; 0: it does not tell.
  Result<Told<int>> agents = {};
  /// Where they can meet; an Error where that is not told. Not looked at when there is one agent.
  Result<Told<std::string>> meeting_host = {};
  /// The hosts that the agents are on, as far as is known; and how many are on this one.
  int hosts = 1;
  int agents_here = 1;
  /// Their names, where they are told; no more than kExpectedHostsMax.
  Told<std::vector<std::string>> host_names = {};
  /// Under which they meet, and on which port of the host.
  Told<std::string> job_id = {};
  int port = 0;
  /// GPUs that the scheduler has set aside on this host for all its agents.
  std::optional<Told<int>> gpus = {};
  /// This process is where the job computes, not in a shell beside it.
  bool computes_here = true;
  /// For a person who gave no --nnodes, where this process cannot know it, or is likely to have
  /// been started in another way than was meant. Empty: no advice.
  std::string advice = {};
};

/// Of more hosts no list is kept: it is for people who look for a missing one.
inline constexpr int kExpectedHostsMax = 4096;

/// A question to the machine: the content of a file, none where it cannot be read.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

}  // namespace ddprun
