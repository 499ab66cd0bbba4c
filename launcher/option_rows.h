// Option rows: the parts of the option table (option_table.h), which puts them together.
//
// The rows of a group, and the groups, are in the order of the help. A row without `ours` repeats
// an option of torchrun (torch/distributed/run.py): its spelling, type and default are in job
// scripts, and the conformance tests compare them. A help text names no default: default_text()
// adds that.
#pragma once

#include <span>

#include "launcher/option_table.h"

namespace ddprun {

/// The job, how its nodes meet, and on which hosts.
std::span<const OptionRow> job_option_rows();
/// What this node runs and writes, how it ends, and the rest.
std::span<const OptionRow> node_option_rows();

}  // namespace ddprun
