// What may be wished of a job that runs, and how its workers are ended for it.
#pragma once

#include <cstdint>

namespace ddprun {

/// What somebody wants of the job.
enum class StopWish : std::uint8_t {
  end,      ///< it shall end, now
  preempt,  ///< it shall save and end, to go on another time
  leave,    ///< this node shall leave it, the others go on
};

enum class StopHow : std::uint8_t {
  now,      ///< they are signalled, and killed after a short grace
  save,     ///< workers that obey orders save at the same step and leave; others: now
  preempt,  ///< so too, with a long grace; others are signalled and have the same grace
  hang,     ///< now; but answer WorkersHung first, before any worker is ended
};

}  // namespace ddprun
