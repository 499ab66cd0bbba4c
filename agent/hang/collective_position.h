// WorkerPosition from a progress page: where a worker stands, in words that every node understands.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "rendezvous/contract/progress_channel.h"
#include "rendezvous/membership/hang_diagnosis.h"

namespace ddprun {

/// Pure but for the page. `now` is CLOCK_MONOTONIC's.
WorkerPosition position_of(int rank, const ProgressPage& page, std::chrono::nanoseconds now);

/// Why the process cannot react, as /proc has it: stopped, under a debugger, inside the kernel and
/// where. Empty when it can.
std::string standstill_of(pid_t pid);

}  // namespace ddprun
