// Compared variables: which of this node's variables, and what of its program's arguments, should
// be equal on all nodes of a job, as facts of its environment. Pure. docs/environment-agreement.md
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/membership/node_environment.h"

namespace ddprun {

/// Facts that are no variables, in the order in which they are told.
inline constexpr std::string_view kMachineFacts[] = {
    "ddprun", "program", "arguments", "python", "torch", "driver", "cuda", "nccl", "gpu"};

/// Options of the command line (compared_options.h).
inline constexpr std::string_view kOptionFacts[] = {
    "--heartbeat-timeout", "--on", "--restart-window", "--no-progress-limit", "--scale-up"};

/// What the libraries below a worker read, and what decides which of them it loads. Not what
/// differs from node to node by nature: CUDA_VISIBLE_DEVICES, NCCL_HOSTID, a scheduler's variables.
bool is_compared_variable(std::string_view name);

/// Its value leaves this machine only as 32 bits of a hash: enough to tell two apart, too few to
/// get it back.
bool may_be_secret(std::string_view name);

/// Whether anything is compared that the pattern - a name, or a beginning and '*' - stands for.
bool names_a_fact(std::string_view pattern);
bool is_named_by(std::string_view name, const std::vector<std::string>& patterns);

/// The variables among "NAME=value" that are compared, by name. What is beyond the limits of
/// node_environment.h is still compared, as hashes.
NodeEnvironment compared_variables(const std::vector<std::string>& variables,
                                   const std::vector<std::string>& ignored);

/// The words, joined by blanks; "<none>" without any. The value of an option that may be a secret,
/// by its name, is a hash as a variable's is.
std::string compared_arguments(const std::vector<std::string>& words);

/// `text` within kFactValueBytesMax: of a longer one the beginning and a hash.
std::string bounded_value(const std::string& text);

/// As node_environment.h has it; told() unless there is no fact.
EnvironmentDigest digest_of(const NodeEnvironment& environment);

}  // namespace ddprun
