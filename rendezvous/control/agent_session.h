// A connection of the coordinator, and what it has become. Internal to coordinator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/control/connection.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/voter.h"
#include "rendezvous/node/quorum_contact.h"

namespace ddprun {

/// NodeIds are given to connections, so that each is used once; a stranger uses one up too.
struct AgentSession {
  enum class Stage : std::uint8_t { ungreeted, member, leaving };
  std::shared_ptr<Connection> connection;
  Stage stage = Stage::ungreeted;
  bool local = false;           ///< the socket pair of the hosting agent
  std::string address;          ///< of the peer, numeric
  std::string reached_address;  ///< the local address by which it came
  VoterId voter{};
  bool leaves = false;     ///< it said so: when it closes, it is not dead
  Instant fresh = kNever;  ///< it is known to have followed at this time
};

}  // namespace ddprun
