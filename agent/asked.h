// What an agent was asked for, by a signal or by --deadline, and how long it keeps a wish that
// there is no coordinator to pass on to. Pure.
#pragma once

#include <chrono>
#include <optional>

#include "agent/agent_state.h"

namespace ddprun::agent {

using TimePoint = std::chrono::steady_clock::time_point;

struct LastSignal {
  int number = 0;
  TimePoint at{};
};

struct Asked {
  LastSignal newest;
  int stop_by = 0;              ///< what the newest wish came by: a signal, or 0 for --deadline
  bool requeues = false;        ///< one of them is sent only to what is to be started again
  std::optional<int> leave_by;  ///< the signal that asked this node to leave
  /// Since when there is no coordinator any more; none while there is one, or was none yet.
  std::optional<TimePoint> lost_at;
};

/// A signal that comes again within half a second is the same wish: a scheduler signals every
/// process of its step, and so the agent and its guardian, which forwards it.
inline bool is_same_wish(const LastSignal& newest, int number, TimePoint now) {
  return number == newest.number && now - newest.at < std::chrono::milliseconds(500);
}

/// When an agent without a coordinator gives the wish up. After a loss: by then the voters have
/// elected another, where they can, as one heartbeat timeout passes until all have noticed it, and
/// then they vote. Schedulers kill half a minute after their warning, so a longer search would lose
/// the exit code. An agent that has followed none yet counts from the wish, since nobody has to be
/// elected; a person who stops it waits for a second at most. By then a coordinator that has
/// counted the node, but whose answer is still on its way, is asked to end the job for all.
inline TimePoint search_end(const Asked& asked, TimePoint now,
                            std::chrono::milliseconds heartbeat_timeout) {
  constexpr int kElectionBeats = 5;
  if (asked.lost_at) {
    return *asked.lost_at + kElectionBeats * heartbeat_timeout;
  }
  const bool stops = wish_of(asked.stop_by).stops_workers;
  return now + (stops ? std::chrono::milliseconds(1'000) : heartbeat_timeout);
}

}  // namespace ddprun::agent
