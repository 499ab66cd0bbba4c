// What a ledger says to people: one clause each. Pure.
#pragma once

#include <string>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/training_time.h"

namespace ddprun {

/// "detect 0, stop 3, rendezvous 1, spawn 5, first step 803 ms": whole milliseconds whose sum is
/// that of `parts` rounded down. Parts that are not known are left out.
std::string break_down_text(const BreakDown& parts);
/// "17 steps (340 ms) done again", or "... that no snapshot has" where the job has ended; empty
/// when nothing was lost, or none is known.
std::string lost_work_text(const LostWork& lost, bool goes_on);
/// "effective training time 97.3 % of 12 min 3 s: 2 incidents, 8.1 s down, 3.9 s replayed".
std::string accounts_text(const Accounts& accounts, int incidents);

}  // namespace ddprun
