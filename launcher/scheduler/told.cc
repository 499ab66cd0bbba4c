#include "launcher/scheduler/told.h"

#include <cstdint>

#include "launcher/list_options.h"
#include "launcher/python_numbers.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Below the range that Linux gives out by itself (32768 and up): no other program happens to be
/// there.
constexpr int kPortsFirst = 20'000;
constexpr int kPorts = 10'000;
/// A prime: step 1 of a job should not have the port of the next job, which may share the node.
constexpr std::uint64_t kPartStride = 101;

/// Each is a number from 0, of 32 bits at most, by its system's documentation.
constexpr const char* kNumbers[] = {"SLURM_JOB_ID",
                                    "SLURM_STEP_ID",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_STEP_NUM_NODES",
                                    "SLURM_JOB_NUM_NODES",
                                    "SLURM_PROCID",
                                    "SLURM_NODEID",
                                    "SLURM_GPUS_ON_NODE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "PBS_NODENUM",
                                    "PBS_TASKNUM",
                                    "LSB_JOBID",
                                    "LSB_JOBINDEX",
                                    "LSF_PM_TASKID",
                                    "JOB_COMPLETION_INDEX"};

}  // namespace

/// The first of the list, not all: a wrapper that breaks one breaks its siblings as well, and one
/// sentence is read.
std::optional<Error> odd_number(const Environment& environment) {
  for (const char* const name : kNumbers) {
    const auto text = told_text(environment, name);
    if (text && !parse_number<std::uint32_t>(*text)) {
      return Error{in_quotes(*text) + " is no number from 0 to 4294967295", name,
                   "unset it, or give --no-scheduler, which takes nothing from a scheduler"};
    }
  }
  return std::nullopt;
}

std::optional<std::string> told_text(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  std::string text(value == nullptr ? std::string_view() : trimmed(value));
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

std::optional<int> told_number(const Environment& environment, const char* name) {
  const auto text = told_text(environment, name);
  const auto number = text ? read_int(*text) : std::nullopt;
  return number && *number >= 0 ? number : std::nullopt;
}

int derived_port(std::uint64_t job, std::uint64_t part) {
  const std::uint64_t place = (job % kPorts + part % kPorts * kPartStride) % kPorts;
  const int port = kPortsFirst + static_cast<int>(place);
  DDP_CHECK(port < kPortsFirst + kPorts, "the port is one of the range");
  return port;
}

int derived_port(std::string_view job) {
  // FNV-1a, 64 bits: its offset basis and its prime. All nodes must compute the same port, so
  // std::hash, which each library may define anew, will not do.
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  }
  return derived_port(hash, 0);
}

}  // namespace ddprun
