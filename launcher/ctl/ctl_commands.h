// CtlCommands: what each verb of ddpctl does with the agent that was found.
#pragma once

#include <optional>

#include "launcher/ctl/agent_client.h"
#include "launcher/ctl/ctl_options.h"

namespace ddprun {

/// Carries out `options.verb`, writing to stdout. None: done.
std::optional<CtlFailure> carry_out(const CtlOptions& options, const ChosenAgent& agent);

}  // namespace ddprun
