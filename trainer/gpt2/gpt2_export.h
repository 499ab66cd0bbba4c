// The weights of a GPT-2 as others load them: a Hugging Face folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "ddp/snapshot.h"
#include "trainer/gpt2/gpt2_source.h"

namespace ddp {

/// The values of the parameters by their names; they share the memory.
std::vector<NamedTensor> gpt2_weights(const std::vector<Parameter>& parameters);

/// Makes the folder, and throws ddp::Error when it or a file in it cannot be made.
void require_export_place(const std::filesystem::path& folder);

/// Where rank 0 has a folder, it writes config.json, the weights, and the files of the source's
/// tokenizer, and says so. Throws ddp::Error on every rank when it cannot. Collective.
void export_gpt2(const Context& context, const std::optional<std::string>& folder,
                 const Gpt2Source& source, const std::vector<Parameter>& parameters);

}  // namespace ddp
