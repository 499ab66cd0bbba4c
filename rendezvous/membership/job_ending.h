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

}  // namespace ddprun
