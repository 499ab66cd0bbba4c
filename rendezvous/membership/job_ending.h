// JobEnding: how a job ends, and why, as its nodes print it. A plain value.
#pragma once

#include <string>

#include "rendezvous/membership/failure.h"

namespace ddprun {

struct JobEnding {
  Verdict verdict;
  std::string reason;   ///< a clause; empty: all workers exited with 0
  int stop_signal = 0;  ///< that an agent was sent; 0: the end has another reason
};

/// The job of the last node that was asked to leave: it goes on another time.
inline JobEnding last_left(const std::string& host_name, int signal) {
  return {Verdict::preempted, "node " + host_name + " was asked to leave, and no other was here",
          signal};
}

}  // namespace ddprun
