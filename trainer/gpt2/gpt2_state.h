// What the training of a GPT-2 begins with, and what its snapshots hold beside its place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/snapshot.h"
#include "trainer/gpt2/gpt2_source.h"

namespace ddp {

/// Fills the values: with the source's weights, where it has any, else with GPT-2's first ones for
/// this seed. Returns its argument.
std::vector<Parameter>& with_first_weights(const Gpt2Source& source, std::uint64_t seed,
                                           std::vector<Parameter>& parameters);

/// The optimizer steps that a snapshot at `path` says are done. Throws Error where it does not.
std::int64_t steps_done(const SnapshotState& state, const std::string& path);

/// Throws Error where a snapshot at `path` is of a training with another seed, or other data: what
/// is held out, or the order of samples, would be another one from here on.
void require_same_run(const SnapshotState& state, const std::string& path, std::uint64_t seed,
                      const std::string& data);

/// The weights by their names, then AdamW's moments.
std::vector<NamedTensor> gpt2_state_tensors(const std::vector<Parameter>& parameters,
                                            std::vector<NamedTensor> moments);

}  // namespace ddp
