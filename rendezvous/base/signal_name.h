// Names of signals, as kill -l prints them. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// 15 -> "SIGTERM"; "signal 77" when this system has no name for it.
std::string signal_name(int number);
/// "SIGTERM" -> 15, also without the SIG; 0 when this system has no such signal.
int signal_number(std::string_view name);

}  // namespace ddprun
