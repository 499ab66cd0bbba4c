// Fault: one thing that happens to the cluster, at a time and to a target that were drawn before
// the story begins. The list of all is the schedule: any part of it can be played again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/options.h"

namespace ddprun::sim {

enum class FaultKind : std::uint8_t {
  start,                  ///< an agent starts on the machine, where none runs
  worker_failure,         ///< a worker of the node fails by itself
  death,                  ///< of the agent with its workers: its connections close
  vanishing,              ///< of the machine: nothing is said any more
  cut,                    ///< a group of machines and the rest do not hear each other for a while
  silent_cut,             ///< the group is not heard, but hears
  deaf_cut,               ///< the group hears nothing, but is heard
  agent_stop,             ///< SIGSTOP of the agent for a while; its workers run on
  node_stop,              ///< SIGSTOP of all processes of the node for a while
  suspension,             ///< of the machine for a while: even its clock stands
  signal,                 ///< SIGTERM to the agent
  clock_jump,             ///< of the node's wall clock
  stranger,               ///< a node of another job knocks
  coordinator_death,      ///< of the agent that is the coordinator then
  coordinator_vanishing,  ///< of its machine
  coordinator_stop,       ///< SIGSTOP of all processes of its node for a while
  preemption,             ///< SIGUSR1 to the agent: the job is to save and end
  leave,                  ///< SIGUSR2 to the agent: its node is to leave in order
  end_vanishing,  ///< from here on: of the machine of a coordinator, while it says that all is over
  service_away,   ///< the consensus service answers nobody for a while
  service_cut,    ///< nor these machines alone
  service_slow,   ///< it answers some too late
  service_loss,   ///< some questions and answers are lost
  service_erasure,  ///< somebody removes the leader's key
};
inline constexpr int kFaultKinds = 24;
const char* to_text(FaultKind kind);

struct Fault {
  Duration at{};
  FaultKind kind = FaultKind::start;
  int target = 0;     ///< index of the machine; the first of a group
  int span = 1;       ///< machines in the group, counted round
  Duration lasts{0};  ///< of what ends by itself

  friend bool operator==(const Fault&, const Fault&) = default;
};

/// "12.250000000 silent-cut n3+2 for 1.200000000": of n3, n4, n5 (counted round).
std::string to_text(const Fault& fault);
/// One line each.
std::string to_text(const std::vector<Fault>& faults);
/// None: it is no such line.
std::optional<Fault> parse_fault(const std::string& line);

/// The whole schedule of a story, by time.
std::vector<Fault> draw_faults(const SimOptions& options);

}  // namespace ddprun::sim
