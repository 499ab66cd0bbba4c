// LogTailText: what the workers of a node wrote last, as text for people who look at the status
// page or ask from another machine. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/output/output_tail.h"

namespace ddprun {

/// Of all streams together: a screen full.
inline constexpr std::size_t kLogTailLinesMax = 50;
/// Of one line, in bytes; the rest of it is left out.
inline constexpr std::size_t kLogTailLineBytesMax = 500;

/// "[rank 3 stderr] line", stream by stream, the oldest line of each first. Of more than
/// `lines_max` lines each stream keeps its newest ones, and one that has few leaves room for the
/// others. Control characters are '?'.
std::string log_tail_text(const std::vector<StreamTail>& streams, std::size_t lines_max);

}  // namespace ddprun
