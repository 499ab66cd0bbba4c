// Trace: the text form of events and commands, one line each, for debug logs, for scenarios and
// for what the simulator prints when a seed fails.
//
//     12.000345 joined node=3 host=n2 workers=4 role=default rank=1
//     12.000345   assign node=3 attempt=0 group=1/2 base-rank=4/8 role-rank=4/8 restarts=0
//
// Values with a blank, a quote or a control character are quoted, C style. Bulky evidence (error
// files, stderr) is left out.
#pragma once

#include <string>

#include "rendezvous/membership/command.h"
#include "rendezvous/membership/event.h"

namespace ddprun {

/// Seconds with six digits.
std::string to_text(Instant at);
std::string to_text(const Event& event);
std::string to_text(const Command& command);
/// One word: "succeeded".
const char* to_text(Verdict verdict);

}  // namespace ddprun
