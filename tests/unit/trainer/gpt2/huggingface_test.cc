#include "trainer/gpt2/huggingface.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ddp/error.h"
#include "ddp/safetensors.h"
#include "tests/support/temp_dir.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using ddprun::test::read_file;
using ddprun::test::TempDir;
using nlohmann::json;

const HuggingFaceConfig kConfig = {.vocabulary_size = 3,
                                   .positions = 2,
                                   .channels = 4,
                                   .layers = 1,
                                   .heads = 2,
                                   .layer_norm_epsilon = 1e-5,
                                   .end_of_text = 2};

json good_config() {
  return json::parse(write_huggingface_config(kConfig));
}

std::string config_refusal(const json& patch) {
  auto config = good_config();
  config.merge_patch(patch);
  try {
    parse_huggingface_config(config.dump());
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

struct Piece {
  std::string name;
  std::string dtype;
  Shape shape;
  std::string bytes;
};

std::string safetensors(const std::vector<Piece>& pieces) {
  std::vector<SafetensorsEntry> entries;
  std::string data;
  for (const auto& piece : pieces) {
    entries.push_back({piece.name, piece.dtype, piece.shape, piece.bytes.size()});
    data += piece.bytes;
  }
  return write_safetensors_header(entries) + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<NamedTensor> two_tensors() {
  return {{"wte.weight", Tensor::zeros({3, 1})}, {"ln_f.bias", Tensor::zeros({2})}};
}

Piece wte(const std::string& prefix = "") {
  return {prefix + "wte.weight", "F32", {3, 1}, bytes_of<float>({1, 2, 3})};
}

Piece ln_f(const std::string& prefix = "") {
  return {prefix + "ln_f.bias", "F32", {2}, bytes_of<float>({4, 5})};
}

std::string weights_refusal(const std::vector<Piece>& pieces) {
  const TempDir folder;
  folder.write("model.safetensors", safetensors(pieces));
  try {
    read_huggingface_tensors(folder.path(), two_tensors());
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

void check_read(const std::filesystem::path& folder) {
  const auto tensors = two_tensors();
  read_huggingface_tensors(folder, tensors);
  CHECK(tensors[0].tensor.to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(tensors[1].tensor.to_vector<float>() == std::vector<float>{4, 5});
}

}  // namespace

TEST_CASE("half precision is converted exactly", "[huggingface]") {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto exponent = static_cast<int>((bits >> 10U) & 0x1FU);
    const double fraction = bits & 0x3FFU;
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    const float value = float_of_f16(static_cast<std::uint16_t>(bits));
    const double expected = exponent == 0 ? sign * std::ldexp(fraction, -24)
                                          : sign * std::ldexp(1024 + fraction, exponent - 25);
    const bool right = exponent == 31 ? (fraction == 0 ? std::isinf(value) : std::isnan(value))
                                      : static_cast<double>(value) == expected;
    if (!right || std::signbit(value) != (sign < 0)) {
      FAIL("bits " << bits << " became " << value);
    }
  }
  CHECK(float_of_bf16(0x3FC0) == 1.5F);
  CHECK(float_of_bf16(0xC000) == -2.0F);
}

TEST_CASE("a config that was written is read back, and so are defaults", "[huggingface]") {
  CHECK(parse_huggingface_config(write_huggingface_config(kConfig)) == kConfig);
  auto endless = kConfig;
  endless.end_of_text.reset();
  CHECK(parse_huggingface_config(write_huggingface_config(endless)) == endless);
  CHECK(parse_huggingface_config(R"({"model_type":"gpt2"})") == HuggingFaceConfig{});
  CHECK(config_refusal({{"n_inner", 16}, {"resid_pdrop", 0.1}}) == "accepted");
}

TEST_CASE("a config of what is not done here is refused by its name", "[huggingface]") {
  CHECK_THAT(config_refusal({{"model_type", "llama"}}),
             Equals("describes a model of the type \"llama\", and only \"gpt2\" is supported"));
  CHECK_THAT(config_refusal({{"model_type", nullptr}}), Contains("of the type '?'"));
  CHECK_THAT(config_refusal({{"activation_function", "relu"}}),
             Equals("'activation_function' is \"relu\", and only \"gelu_new\" is supported"));
  CHECK_THAT(config_refusal({{"n_inner", 17}}), Contains("'n_inner' is 17, and only 16"));
  for (const char* option : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    CHECK_THAT(config_refusal({{option, true}}), Contains(option));
  }
  for (const char* option : {"tie_word_embeddings", "scale_attn_weights"}) {
    CHECK_THAT(config_refusal({{option, false}}), Contains(option));
  }
  CHECK_THAT(config_refusal({{"n_head", 3}}), Contains("3 heads do not divide"));
  for (const json& bad : {json(0), json(-1), json(1.5), json("x"), json(1 << 25)}) {
    CHECK_THAT(config_refusal({{"n_layer", bad}}), Contains("'n_layer' must be a whole number"));
  }
  CHECK_THAT(config_refusal({{"layer_norm_epsilon", 0}}), Contains("must be a number above 0"));
  CHECK_THROWS_WITH(parse_huggingface_config("{"),
                    StartsWith("is no valid JSON: parse error at line 1"));
  CHECK_THROWS_WITH(parse_huggingface_config("[]"), "must be a JSON object");
  const TempDir folder;
  CHECK_THROWS_WITH(read_huggingface_config(folder.path()),
                    Contains("config.json: cannot be read"));
  const auto path = folder.write("config.json", "{}");
  CHECK_THROWS_WITH(read_huggingface_config(folder.path()), StartsWith(path + ": describes"));
}

TEST_CASE("weights are read with or without the prefix, and what no training needs is left",
          "[huggingface]") {
  for (const std::string prefix : {"", "transformer."}) {
    const TempDir folder;
    folder.write(
        "model.safetensors",
        safetensors({wte(prefix),
                     {prefix + "h.0.attn.bias", "BOOL", {1, 1, 2, 2}, std::string(4, '\1')},
                     {prefix + "h.0.attn.masked_bias", "F32", {}, std::string(4, '\1')},
                     ln_f(prefix),
                     {"lm_head.weight", "F32", {3, 1}, bytes_of<float>({7, 7, 7})}}));
    check_read(folder.path());
  }
}

TEST_CASE("weights of half precision become floats", "[huggingface]") {
  const TempDir folder;
  folder.write(
      "model.safetensors",
      safetensors(
          {{"wte.weight", "BF16", {3, 1}, bytes_of<std::uint16_t>({0x3F80, 0x4000, 0x4040})},
           {"ln_f.bias", "F16", {2}, bytes_of<std::uint16_t>({0x4400, 0x4500})}}));
  check_read(folder.path());
}

TEST_CASE("weights in several files are read by their index", "[huggingface]") {
  const TempDir folder;
  folder.write("m-1.safetensors", safetensors({wte()}));
  folder.write("m-2.safetensors", safetensors({ln_f()}));
  const auto index = [&](const json& map) {
    return folder.write("model.safetensors.index.json", json{{"weight_map", map}}.dump());
  };
  const auto path = index({{"wte.weight", "m-1.safetensors"}, {"ln_f.bias", "m-2.safetensors"}});
  check_read(folder.path());
  for (const char* name : {"../m-2.safetensors", "/etc/passwd", "..", "", "sub/x"}) {
    index({{"wte.weight", name}});
    CHECK_THROWS_WITH(check_read(folder.path()), Contains("no file of this folder"));
  }
  index({{"wte.weight", "m-1.safetensors"}});
  CHECK_THROWS_WITH(check_read(folder.path()), Contains("has no tensor 'ln_f.bias'"));
  index({{"wte.weight", "m-3.safetensors"}});
  CHECK_THROWS_WITH(check_read(folder.path()), Contains("m-3.safetensors: cannot be read"));
  index({{"wte.weight", 3}});
  CHECK_THROWS_WITH(check_read(folder.path()), StartsWith(path + ": is not laid out as expected"));
  index(json::object());
  CHECK_THROWS_WITH(check_read(folder.path()), Contains("names no file"));
  folder.write("model.safetensors.index.json", "{");
  CHECK_THROWS_WITH(check_read(folder.path()), StartsWith(path + ": is not laid out as expected"));
}

TEST_CASE("weights that are missing, of another shape or of another model are refused",
          "[huggingface]") {
  CHECK(weights_refusal({wte(), ln_f()}) == "accepted");
  CHECK_THAT(weights_refusal({wte()}), Contains("has no tensor 'ln_f.bias'"));
  auto wide = wte();
  wide.shape = {1, 3};
  CHECK_THAT(
      weights_refusal({wide, ln_f()}),
      Contains("model.safetensors: tensor 'wte.weight' has the shape [1, 3], and config.json "
               "asks for [3, 1]"));
  CHECK_THAT(weights_refusal({wte(), ln_f(), {"x", "F32", {}, std::string(4, '\0')}}),
             Contains("tensor 'x' is none of a GPT-2"));
  CHECK_THAT(weights_refusal({wte(), wte("transformer."), ln_f()}), Contains("is there twice"));
  CHECK_THAT(weights_refusal({{"wte.weight", "I32", {3, 1}, std::string(12, '\0')}, ln_f()}),
             Contains("has the type I32"));
  CHECK_THAT(weights_refusal({{"wte.weight", "F32", {3, 1}, std::string(11, '\0')}, ln_f()}),
             Contains("do not fit"));
  CHECK_THAT(weights_refusal({{"wte.weight", "F32", {3, 1}, bytes_of<float>({1, NAN, 3})}, ln_f()}),
             Contains("tensor 'wte.weight' has a number that is not finite"));
  const TempDir folder;
  CHECK_THROWS_WITH(check_read(folder.path()), Contains("model.safetensors: cannot be read"));
  const std::vector<NamedTensor> wrong = {{"wte.weight", Tensor::zeros({3}, DType::i32)}};
  CHECK_THROWS_AS(read_huggingface_tensors(folder.path(), wrong), InvalidArgument);
  CHECK_THROWS_AS(write_huggingface_folder(folder.path(), kConfig, wrong, {}), InvalidArgument);
}

TEST_CASE("a folder that was written is read back, with the tokenizer's files beside",
          "[huggingface]") {
  const TempDir folder;
  const auto out = folder.path() / "a" / "model";
  const std::vector<NamedTensor> tensors = {
      {"wte.weight", Tensor::from<float>({1, 2, 3}).reshaped({3, 1})},
      {"ln_f.bias", Tensor::from<float>({4, 5})}};
  const std::vector<std::filesystem::path> tokenizer = {folder.write("tokenizer.json", "{}")};
  for (int round = 0; round < 2; ++round) {  // the second over the first
    write_huggingface_folder(out, kConfig, tensors, tokenizer);
    check_read(out);
    CHECK(read_huggingface_config(out) == kConfig);
    CHECK(read_file(out / "tokenizer.json") == "{}");
  }
  CHECK_THAT(read_file(out / "model.safetensors"), Contains("\"transformer.wte.weight\""));
  const std::filesystem::directory_iterator entries(out);
  CHECK(std::distance(begin(entries), end(entries)) == 3);
  CHECK_THROWS_WITH(write_huggingface_folder(tokenizer[0] / "x", kConfig, tensors, {}),
                    Contains("cannot make the directory"));
}

}  // namespace ddp
