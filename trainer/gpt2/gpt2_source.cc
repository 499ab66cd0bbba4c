#include "trainer/gpt2/gpt2_source.h"

#include <cmath>
#include <string>
#include <utility>

#include "ddp/error.h"
#include "trainer/gpt2/huggingface.h"
#include "trainer/layers/layer_norm.h"
#include "trainer/text/byte_pair_tokenizer.h"
#include "trainer/text/byte_tokenizer.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

/// What the layers do not compute is refused here, before any rank is waited for.
Gpt2Config config_of(const fs::path& folder) {
  const HuggingFaceConfig read = read_huggingface_config(folder);
  if (std::abs(read.layer_norm_epsilon - double{kLayerNormEpsilon}) > 1e-9) {
    throw Error((folder / "config.json").string() + ": layer_norm_epsilon is " +
                std::to_string(read.layer_norm_epsilon) + ", and only 1e-5 is computed here");
  }
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  return {.layers = size(read.layers),
          .heads = size(read.heads),
          .channels = size(read.channels),
          .context = size(read.positions),
          .vocabulary = size(read.vocabulary_size)};
}

/// A folder may hold a model alone: then bytes are tokens, unless --tokenizer names another.
bool has_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "vocab.json");
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
  // A model may have more rows than the tokenizer has tokens (padding), never fewer.
  const auto tokens = static_cast<std::size_t>(source.tokenizer->vocabulary_size());
  if (named) {
    source.config = *gpt2_config(options.model, tokens);
  } else if (tokens > source.config.vocabulary) {
    throw Error("the tokenizer has " + std::to_string(tokens) + " tokens, the model in " +
                options.model + " has " + std::to_string(source.config.vocabulary) +
                "; give the model's own by --tokenizer");
  }
  const auto context = static_cast<std::int64_t>(source.config.context);
  if (options.sequence_length.value_or(1) > context) {
    throw Error("--seq-length: must be at most " + std::to_string(context) + ", the context of " +
                options.model);
  }
  return source;
}

}  // namespace ddp
