// WaitingText: the table of a job that waits for nodes, as lines for people. Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {

/// A line that says what is waited for and for how long, then a row for each thing known; no more
/// than some 30 lines. `since` is the age of the table: times go on while it is shown. Texts of
/// other nodes lose their control characters.
std::vector<std::string> waiting_lines(const RendezvousStatus& table,
                                       std::chrono::nanoseconds since = {});

/// "12 s", "3 min 20 s", "2 h 5 min".
std::string duration_text(std::chrono::nanoseconds duration);

}  // namespace ddprun
