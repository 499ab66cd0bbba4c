// RemoteFailure: why a host's relay did not begin, or went away, as one sentence with the words of
// ssh. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/hosts/relay_message.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {

/// How the process ended that led to a relay.
struct RemoteEnd {
  std::string target;      ///< as ssh takes it; empty: a relay of this host, without ssh
  std::string executable;  ///< of ddprun there
  ExitStatus status;
  std::string said;  ///< the last lines on its stderr
  RelayReader::State state = RelayReader::State::waiting;
  std::uint16_t version = 0;  ///< of the other side's protocol
  std::string noise;          ///< what came in place of the relay's words
  bool is_late = false;       ///< it was killed since it had not begun in time
};

/// `where` is empty: the caller names the host.
Error remote_failure(const RemoteEnd& end);

}  // namespace ddprun
