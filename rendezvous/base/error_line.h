// ErrorLine: the line in which a program said why it ended, found among its last lines on stderr.
// The very last line often says less: a runtime that aborts adds lines of its own. Pure.
#pragma once

#include <string_view>

namespace ddprun {

/// "ValueError: bad batch 17", of Python's last traceback. Where one exception led to another, the
/// first of them. Else what the C++ runtime says of an exception that nobody caught; else the last
/// line that is not empty. Without PyTorch's "[rank1]: " in front. Empty when there is no line.
std::string_view error_line(std::string_view stderr_tail);

/// The text ends in such a traceback: nothing else was written after it.
bool ends_in_traceback(std::string_view stderr_tail);

}  // namespace ddprun
