// HuggingFaceConfig: the config.json of a GPT-2 as the transformers library has it. Pure: no file
// is opened here (trainer/gpt2/huggingface.h does).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

/// What config.json says of a GPT-2.
struct HuggingFaceConfig {
  std::int64_t vocabulary_size = 50257;  ///< vocab_size
  std::int64_t positions = 1024;         ///< n_positions: the longest sequence
  std::int64_t channels = 768;           ///< n_embd
  std::int64_t layers = 12;              ///< n_layer
  std::int64_t heads = 12;               ///< n_head; divides the channels
  double layer_norm_epsilon = 1e-5;
  /// The token that ends a text (bos_token_id and eos_token_id, when written).
  std::optional<std::int64_t> end_of_text;
  friend bool operator==(const HuggingFaceConfig&, const HuggingFaceConfig&) = default;
};

/// A size that is missing is the library's default, as above. Throws ddp::Error: JSON that is
/// none, another architecture than GPT-2's, a size that makes no sense, an option that changes the
/// model and is not done here. The sentence names it.
HuggingFaceConfig parse_huggingface_config(std::string_view json);
/// What parse_huggingface_config() reads back, and the library, too.
std::string write_huggingface_config(const HuggingFaceConfig& config);

}  // namespace ddp
