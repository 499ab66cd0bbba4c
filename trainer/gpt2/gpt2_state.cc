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

std::vector<NamedTensor> gpt2_state_tensors(const std::vector<Parameter>& parameters,
                                            std::vector<NamedTensor> moments) {
  // Weights first and by Hugging Face's names: their reader finds the model in a snapshot's file.
  std::vector<NamedTensor> tensors = gpt2_weights(parameters);
  std::move(moments.begin(), moments.end(), std::back_inserter(tensors));
  return tensors;
}

}  // namespace ddp
