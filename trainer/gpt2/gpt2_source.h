// Gpt2Source: what a training of a GPT-2 begins with: the sizes, the tokenizer, and the weights
// where a Hugging Face folder has them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/gpt2/config.h"
#include "trainer/gpt2/gpt2_options.h"
#include "trainer/text/tokenizer.h"

namespace ddp {

struct Gpt2Source {
  Gpt2Config config;
  std::unique_ptr<Tokenizer> tokenizer;  ///< never null
  /// That the tokenizer was read from; none: bytes are tokens.
  std::vector<std::filesystem::path> tokenizer_files;
  /// A folder with the first weights; none: they are drawn from the seed.
  std::optional<std::filesystem::path> weights;
};

/// --model is a size's name or a folder, --tokenizer a folder or a file. Without --tokenizer it is
/// the model folder's, and bytes are tokens where that has none and a vocabulary of bytes. Throws
/// ddp::Error: a file that cannot be read or used, a folder whose tokenizer is missing, a tokenizer
/// with more tokens than the folder's model, --seq-length above the model's context.
Gpt2Source gpt2_source(const Gpt2Options& options);

}  // namespace ddp
