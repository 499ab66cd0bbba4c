#include "trainer/gpt2/huggingface_config.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "ddp/error.h"
#include "trainer/text/json_reason.h"

namespace ddp {
namespace {

using nlohmann::json;

/// Far above any GPT-2: a slip in a file must not take all memory.
constexpr std::int64_t kSizeMax = 1 << 24;

std::int64_t size_field(const json& config, const char* name, std::int64_t otherwise) {
  const auto found = config.find(name);
  if (found == config.end()) {
    return otherwise;
  }
  if (!found->is_number_integer() || *found < 1 || *found > kSizeMax) {
    throw Error(fmt::format("'{}' must be a whole number from 1 to {}, but is {}", name, kSizeMax,
                            found->dump()));
  }
  return found->get<std::int64_t>();
}

/// Throws unless the option is missing or has the one value with which the model is ours.
void require_option(const json& config, const char* name, const json& value) {
  const auto found = config.find(name);
  if (found != config.end() && *found != value) {
    throw Error(std::string("'") + name + "' is " + found->dump() + ", and only " + value.dump() +
                " is supported");
  }
}

}  // namespace

HuggingFaceConfig parse_huggingface_config(std::string_view text) {
  json config;
  try {
    config = json::parse(text);
  } catch (const json::exception& problem) {
    throw Error("is no valid JSON: " + json_reason(problem));
  }
  if (!config.is_object()) {
    throw Error("must be a JSON object");
  }
  if (const auto type = config.value("model_type", json()); type != "gpt2") {
    throw Error("describes a model of the type " + (type.is_null() ? "'?'" : type.dump()) +
                ", and only \"gpt2\" is supported");
  }
  const HuggingFaceConfig defaults;
  HuggingFaceConfig result;
  result.vocabulary_size = size_field(config, "vocab_size", defaults.vocabulary_size);
  result.positions = size_field(config, "n_positions", defaults.positions);
  result.channels = size_field(config, "n_embd", defaults.channels);
  result.layers = size_field(config, "n_layer", defaults.layers);
  result.heads = size_field(config, "n_head", defaults.heads);
  if (result.channels % result.heads != 0) {
    throw Error(
        fmt::format("'n_embd' is {}, which {} heads do not divide", result.channels, result.heads));
  }
  if (const auto epsilon = config.find("layer_norm_epsilon"); epsilon != config.end()) {
    if (!epsilon->is_number() || !(*epsilon > 0)) {
      throw Error("'layer_norm_epsilon' must be a number above 0, but is " + epsilon->dump());
    }
    result.layer_norm_epsilon = epsilon->get<double>();
  }
  if (const auto inner = config.find("n_inner"); inner != config.end() && !inner->is_null()) {
    require_option(config, "n_inner", 4 * result.channels);
  }
  if (const auto end = config.find("eos_token_id");
      end != config.end() && end->is_number_integer()) {
    result.end_of_text = end->get<std::int64_t>();
  }
  require_option(config, "activation_function", "gelu_new");
  require_option(config, "tie_word_embeddings", true);
  require_option(config, "scale_attn_weights", true);
  require_option(config, "scale_attn_by_inverse_layer_idx", false);
  require_option(config, "add_cross_attention", false);
  return result;
}

std::string write_huggingface_config(const HuggingFaceConfig& config) {
  nlohmann::ordered_json text = {{"architectures", {"GPT2LMHeadModel"}},
                                 {"model_type", "gpt2"},
                                 {"vocab_size", config.vocabulary_size},
                                 {"n_positions", config.positions},
                                 {"n_embd", config.channels},
                                 {"n_layer", config.layers},
                                 {"n_head", config.heads},
                                 {"n_inner", nullptr},
                                 {"activation_function", "gelu_new"},
                                 {"layer_norm_epsilon", config.layer_norm_epsilon},
                                 {"tie_word_embeddings", true},
                                 {"torch_dtype", "float32"}};
  // The library's defaults for these are numbers of OpenAI's vocabulary.
  for (const char* name : {"bos_token_id", "eos_token_id"}) {
    text[name] = config.end_of_text ? nlohmann::ordered_json(*config.end_of_text) : nullptr;
  }
  return text.dump(2) + "\n";
}

}  // namespace ddp
