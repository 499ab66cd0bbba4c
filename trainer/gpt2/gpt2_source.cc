#include "trainer/gpt2/gpt2_source.h"

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <utility>

#include "ddp/error.h"
#include "trainer/gpt2/huggingface.h"
#include "trainer/layers/layer_norm.h"
#include "trainer/text/byte_pair_tokenizer.h"
#include "trainer/text/byte_tokenizer.h"
#include "trainer/text/documents.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

/// What the layers do not compute is refused here, before any rank is waited for.
Gpt2Config config_of(const fs::path& folder) {
  const HuggingFaceConfig read = read_huggingface_config(folder);
  if (std::abs(read.layer_norm_epsilon - double{kLayerNormEpsilon}) > 1e-9) {
    throw Error(fmt::format("{}: layer_norm_epsilon is {:f}, and only 1e-5 is computed here",
                            (folder / "config.json").string(), read.layer_norm_epsilon));
  }
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  return {.layers = size(read.layers),
          .heads = size(read.heads),
          .channels = size(read.channels),
          .context = size(read.positions),
          .vocabulary = size(read.vocabulary_size)};
}

/// A folder may hold a model alone.
bool has_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "vocab.json");
}

/// Bytes as tokens suit a model that was trained on them, as `train gpt2` itself exports. Any other
/// one would learn from nonsense, and nothing would show it. Token files need no tokenizer.
void require_byte_model(const Gpt2Options& options, const Gpt2Source& source) {
  const bool texts = options.generate || ending_of(options.data.front()) != ".bin";
  const auto bytes = static_cast<std::size_t>(source.tokenizer->vocabulary_size());
  if (texts && source.config.vocabulary != bytes) {
    throw Error(
        fmt::format("{}: has no tokenizer, and its model has {} tokens, so it was not trained on "
                    "bytes; name the model's tokenizer by --tokenizer",
                    options.model, source.config.vocabulary));
  }
}

}  // namespace

Gpt2Source gpt2_source(const Gpt2Options& options) {
  Gpt2Source source;
  std::optional<fs::path> tokenizer = options.tokenizer;
  const auto named = gpt2_config(options.model, 1);
  if (!named) {
    source.weights = options.model;
    source.config = config_of(*source.weights);
    if (!tokenizer && has_tokenizer(*source.weights)) {
      tokenizer = source.weights;
    }
  }
  if (tokenizer) {
    auto loaded = BytePairTokenizer::load(*tokenizer);
    source.tokenizer_files = loaded->files();
    source.tokenizer = std::move(loaded);
  } else {
    source.tokenizer = std::make_unique<ByteTokenizer>();
  }
  if (source.weights && !tokenizer) {
    require_byte_model(options, source);
  }
  // A model may have more rows than the tokenizer has tokens (padding), never fewer.
  const auto tokens = static_cast<std::size_t>(source.tokenizer->vocabulary_size());
  if (named) {
    source.config = *gpt2_config(options.model, tokens);
  } else if (tokens > source.config.vocabulary) {
    throw Error(fmt::format(
        "the tokenizer has {} tokens, the model in {} has {}; give the model's own by --tokenizer",
        tokens, options.model, source.config.vocabulary));
  }
  const auto context = static_cast<std::int64_t>(source.config.context);
  if (options.sequence_length.value_or(1) > context) {
    throw Error(
        fmt::format("--seq-length: must be at most {}, the context of {}", context, options.model));
  }
  return source;
}

}  // namespace ddp
