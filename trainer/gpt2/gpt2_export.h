// The weights of a GPT-2 as others load them: a Hugging Face folder.
#pragma once

#include <filesystem>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "ddp/snapshot.h"
#include "trainer/gpt2/gpt2_source.h"

namespace ddp {

/// The values of the parameters by their names; they share the memory.
std::vector<NamedTensor> gpt2_weights(const std::vector<Parameter>& parameters);

/// Makes the folder, and throws ddp::Error when it or a file in it cannot be made.
void require_export_place(const std::filesystem::path& folder);

/// config.json, the weights, and the files of the source's tokenizer. Throws ddp::Error.
void export_gpt2(const std::filesystem::path& folder, const Gpt2Source& source,
                 const std::vector<Parameter>& parameters);

}  // namespace ddp
