// Gpt2Config: the sizes of a GPT-2. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

struct Gpt2Config {
  std::size_t layers = 0;      ///< L
  std::size_t heads = 0;       ///< H, divides C
  std::size_t channels = 0;    ///< C
  std::size_t context = 0;     ///< T at most: positions that have a vector
  std::size_t vocabulary = 0;  ///< V

  friend bool operator==(const Gpt2Config&, const Gpt2Config&) = default;
};

/// The sizes that have a name: "tiny" (4 layers, 4 heads, 128 channels, context 64), "10m" (6, 6,
/// 384, 256), and OpenAI's "124m", "350m", "774m" and "1558m" (context 1,024). The vocabulary is
/// the tokenizer's. None for any other name.
std::optional<Gpt2Config> gpt2_config(std::string_view name, std::size_t vocabulary);
/// "tiny, 10m, ...".
std::string gpt2_config_names();

/// Such as "gpt2 4 layers 4 heads 128 channels context 64 vocabulary 257": a snapshot's model name.
std::string describe(const Gpt2Config& config);

/// The vocabulary, rounded up to whole tiles of a GPU's products: cuBLASLt has its fast kernels for
/// rows of whole 16 bytes alone, and GPT-2's 50,257 tokens are odd.
constexpr std::size_t padded_vocabulary(const Gpt2Config& config) {
  constexpr std::size_t kTile = 128;
  return (config.vocabulary + kTile - 1) / kTile * kTile;
}

/// Numbers that are trained.
std::size_t parameter_count(const Gpt2Config& config);

}  // namespace ddp
