#include "trainer/gpt2/gpt2_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trainer/gpt2/gpt2_export.h"
#include "trainer/gpt2/huggingface.h"
#include "trainer/gpt2/parameters.h"

namespace ddp {

std::vector<Parameter>& with_first_weights(const Gpt2Source& source, std::uint64_t seed,
                                           std::vector<Parameter>& parameters) {
  // Every rank reads or makes them, though rank 0's are broadcast: no rank waits for another here.
  if (source.weights) {
    read_huggingface_tensors(*source.weights, gpt2_weights(parameters));
  } else {
    initialise_gpt2(source.config, seed, parameters);
  }
  return parameters;
}

std::int64_t steps_done(const SnapshotState& state, const std::string& path) {
  // Another program may have written the file; beyond this a double skips whole numbers.
  constexpr double kStepsMax = 1LL << 53;
  const auto step = state.scalars.find("step");
  if (step == state.scalars.end() || !(step->second >= 0 && step->second <= kStepsMax)) {
    throw Error(path + ": the newest snapshot does not say how many steps are done ('step'); " +
                "remove its folder to go on from the one before");
  }
  return static_cast<std::int64_t>(step->second);
}

void require_same_run(const SnapshotState& state, const std::string& path, std::uint64_t seed,
                      const std::string& data) {
  const auto require = [&](const char* note, const std::string& mine, const char* what) {
    const auto found = state.notes.find(note);
    if (found == state.notes.end() || found->second != mine) {
      throw Error(path + ": snapshot of a run with another " + what +
                  "; give that run's, or another --experiment-name");
    }
  };
  require("seed", std::to_string(seed), "--seed");
  require("data", data, "--data, --seq-length or --validation-share");
}

std::vector<NamedTensor> gpt2_state_tensors(const std::vector<Parameter>& parameters,
                                            std::vector<NamedTensor> moments) {
  // Weights first and by Hugging Face's names: their reader finds the model in a snapshot's file.
  std::vector<NamedTensor> tensors = gpt2_weights(parameters);
  std::move(moments.begin(), moments.end(), std::back_inserter(tensors));
  return tensors;
}

}  // namespace ddp
