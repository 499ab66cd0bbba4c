// Messages: what agent and coordinator say to each other. Plain values; message_codec.h puts them
// into bytes, docs/control-protocol.md describes these.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/waiting_table.h"
#include "rendezvous/membership/world.h"

namespace ddprun::message {

// From the agent.

/// First message of an agent.
struct Hello {
  NodeDescription node;
};
struct Started {
  AttemptNumber attempt{};
};
struct Failed {
  AttemptNumber attempt{};
  FailureRecord record;
};
struct Finished {
  AttemptNumber attempt{};
  TrainingProgress progress;
};
struct Stopped {
  AttemptNumber attempt{};
  std::vector<FailureRecord> records;
  int records_dropped = 0;
  TrainingProgress progress;
};
struct StopRequest {
  int signal = 0;
};
struct GiveUp {
  std::string why;
};

// From the coordinator.

/// Answer to Hello, or:
struct Accepted {};
/// Final. Its layout never changes, so that nodes of different versions can say so to each other.
/// Comes after Accepted when the node waited for a rank that stays taken.
struct Rejected {
  std::string why;
  std::string todo;
};
struct Assigned {
  World world;
};
struct Stop {
  AttemptNumber attempt{};
  std::string reason;
};
struct Finish {
  JobSummary summary;
};
/// What the job waits for, for people; at the coordinator's pace.
struct Waiting {
  WaitingTable table;
};

// Both ways.

/// The agent sends one at least every half of the shorter timeout, the coordinator answers each
/// at once. `timeout` is the sender's: it takes a peer for lost after this long without a byte.
struct Beat {
  std::chrono::milliseconds timeout{};
};

using Message = std::variant<Hello, Started, Failed, Finished, Stopped, StopRequest, GiveUp,
                             Accepted, Rejected, Assigned, Stop, Finish, Waiting, Beat>;

}  // namespace ddprun::message
