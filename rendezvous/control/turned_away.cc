#include "rendezvous/control/turned_away.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "rendezvous/control/handshake_limits.h"

namespace ddprun {

// By the whole line: an address that makes two mistakes is told about both.
bool TurnedAway::is_new(const std::string& line) {
  return told_.size() < kRememberedMax && told_.insert(line).second;
}

void TurnedAway::speaks_no_protocol(const std::string& address, bool silent) {
  if (is_new(address)) {
    log_->warn("closed a connection from {} {}", address,
               silent ? "that said nothing: a port scanner, or an agent that ended as it connected"
                      : "that does not speak ddprun's protocol (it began with other bytes)");
  }
}

void TurnedAway::rejected(const std::string& address, const std::string& why) {
  if (is_new(address + why)) {
    log_->warn("rejected a node at {}: {}", address, why);
  }
}

// Counted as well: a line for each of a thousand tries would hide what else is told.
void TurnedAway::refused(const std::string& address, const std::string& why) {
  ++refused_;
  if (is_new(address + why)) {
    log_->warn("refused a connection from {}: {}", address, why);
  }
}

void TurnedAway::sum_up() const {
  if (refused_ > 0) {
    log_->info("refused {} connections of agents without the job's credentials", refused_);
  }
}

}  // namespace ddprun
