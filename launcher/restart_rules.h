// Restart rules: the small languages of --restart-window and --on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/hang/hang_detector.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/restart_policy.h"

namespace ddprun {

/// "3/1h": 3 restarts at most in any hour. Times: a number with s, m, h or d; seconds without.
Result<RestartWindow> parse_restart_window(std::string_view text, const std::string& where);

/// "10m" or "10m,1h"; without a second time START is ten times TIME, at least 5 minutes. "0":
/// off.
Result<HangTimeouts> parse_hang_timeout(std::string_view text, const std::string& where);

/// "oom=fail,sigkill=restart,exit:93=fail".
Result<std::vector<FaultRule>> parse_fault_table(std::string_view text, const std::string& where);

}  // namespace ddprun
