// PassedEnvironment: which variables of the shell go to the agents of other hosts. The list is
// short, since a host has an environment of its own. Pure. docs/hosts.md has the list with reasons.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace ddprun {

/// Names, and prefixes that end in *, which travel unasked.
std::span<const std::string_view> passed_names();

/// "NAME=value" of those variables and of `more` (--pass-env, with names of both kinds), in the
/// order of `environment` (environ(7)). An Error for a name in `more` that is no name of a
/// variable, or is not set. `where` names the option.
Result<std::vector<std::string>> passed_environment(std::span<const char* const> environment,
                                                    const std::vector<std::string>& more,
                                                    const std::string& where);

/// `own` with each variable of `passed` in the place of its own, and without the options that have
/// this agent start hosts itself (PET_HOSTS and others).
std::vector<std::string> merged_environment(std::span<const char* const> own,
                                            std::span<const std::string> passed);

}  // namespace ddprun
