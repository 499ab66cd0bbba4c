#include "trainer/text/token_data.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "ddp/error.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/text/byte_level.h"
#include "tests/unit/trainer/text/token_bin.h"
#include "trainer/text/byte_pair_tokenizer.h"
#include "trainer/text/byte_tokenizer.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using ddprun::test::TempDir;
using Tokens = std::vector<std::int32_t>;

/// Files of these sizes whose tokens are 0, 1, 2, ... from the first file's on.
std::vector<TokenFile> counting_files(const TempDir& folder,
                                      const std::vector<std::size_t>& sizes) {
  std::vector<TokenFile> files;
  std::uint16_t next = 0;
  for (const auto size : sizes) {
    std::vector<std::uint16_t> tokens(size);
    std::generate(tokens.begin(), tokens.end(), [&] { return next++; });
    files.push_back(open_token_bin(
        folder.write("f" + std::to_string(files.size()) + ".bin", ddp_test::token_bin(tokens))));
  }
  return files;
}

Tokens from(std::int32_t first, std::size_t count) {
  Tokens tokens(count);
  std::generate(tokens.begin(), tokens.end(), [&] { return first++; });
  return tokens;
}

std::string refusal(const std::vector<std::size_t>& sizes, TokenDataOptions options) {
  const TempDir folder;
  try {
    TokenData(counting_files(folder, sizes), options);
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("samples have T inputs and the same shifted by one, over the files' borders", "[text]") {
  const TempDir folder;
  const TokenData data(counting_files(folder, {5, 0, 1, 14, 0}),
                       {.sequence_length = 3, .validation_share = 0.3, .vocabulary_size = 100});
  CHECK(data.token_count() == 20);
  // 19 targets: 6 samples of 3, of which 1.8 are held out.
  CHECK(data.train_samples() == 4);
  CHECK(data.validation_samples() == 2);
  Tokens inputs(3);
  Tokens targets(3);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto first = static_cast<std::int32_t>(3 * i);
    if (i < 4) {
      data.read_train(i, inputs, targets);
    } else {
      data.read_validation(i - 4, inputs, targets);
    }
    CHECK(inputs == from(first, 3));
    CHECK(targets == from(first + 1, 3));
  }
  CHECK_THROWS_AS(data.read_train(4, inputs, targets), InvalidArgument);
  CHECK_THROWS_AS(data.read_validation(2, inputs, targets), InvalidArgument);
  Tokens four(4);
  CHECK_THROWS_AS(data.read_train(0, four, targets), InvalidArgument);
}

TEST_CASE("data that is shorter than it must be is one clear sentence", "[text]") {
  CHECK(refusal({9}, {.sequence_length = 4, .validation_share = 0.1}) == "accepted");
  CHECK(refusal({8}, {.sequence_length = 4, .validation_share = 0.1}) ==
        "the data has 8 tokens, and one sample for training and one for validation need 9; give "
        "more text, or a smaller sequence length");
  CHECK(refusal({5}, {.sequence_length = 4, .validation_share = 0}) == "accepted");
  CHECK_THAT(refusal({4}, {.sequence_length = 4, .validation_share = 0}), Contains("need 5"));
  CHECK_THAT(refusal({}, {.sequence_length = 4}), Contains("has 0 tokens"));
  CHECK_THAT(refusal({0, 0}, {.sequence_length = 4}), Contains("has 0 tokens"));
  CHECK_THAT(refusal({9}, {.sequence_length = 0}), Contains("at least 1"));
  CHECK_THAT(refusal({9}, {.sequence_length = 1, .validation_share = 1}), Contains("below 1"));
  CHECK_THAT(refusal({9}, {.sequence_length = 1, .validation_share = -0.1}), Contains("from 0"));
}

TEST_CASE("a small share holds out one sample, a large one leaves one to train on", "[text]") {
  const TempDir folder;
  const auto split = [&](double share) {
    const TokenData data(counting_files(folder, {11}),
                         {.sequence_length = 1, .validation_share = share});
    return std::pair(data.train_samples(), data.validation_samples());
  };
  CHECK(split(0) == std::pair<std::size_t, std::size_t>(10, 0));
  CHECK(split(0.0001) == std::pair<std::size_t, std::size_t>(9, 1));
  CHECK(split(0.5) == std::pair<std::size_t, std::size_t>(5, 5));
  CHECK(split(0.9999) == std::pair<std::size_t, std::size_t>(1, 9));
}

TEST_CASE("a token that the model does not have is refused with file and place", "[text]") {
  const TempDir folder;
  const TokenData data(counting_files(folder, {5, 5}),
                       {.sequence_length = 3, .validation_share = 0, .vocabulary_size = 8});
  Tokens inputs(3);
  Tokens targets(3);
  data.read_train(1, inputs, targets);
  CHECK_THROWS_WITH(data.read_train(2, inputs, targets),
                    Contains("f1.bin: token 3 is 8, and the model has those below 8"));
}

TEST_CASE("validation bytes are those that the targets stand for", "[text]") {
  const TempDir folder;
  // 259: "hello", 260: " hello", 256: the end of a text for the bytes.
  const auto path = folder.write("a.bin", ddp_test::token_bin({1, 'a', 259, 260, 'b', 259, 272}));
  auto file = ddp_test::tokenizer_json(ddp_test::some_merges());
  file["added_tokens"] = nlohmann::json::array({ddp_test::added_token("<|endoftext|>", 272)});
  const BytePairTokenizer tokenizer(ddp_test::vocabulary_of(file));
  std::vector<TokenFile> files;
  files.push_back(open_token_bin(path));
  const TokenData data(std::move(files), {.sequence_length = 1, .validation_share = 0.8});
  REQUIRE(data.train_samples() == 1);
  CHECK(data.validation_bytes(tokenizer, 0, 5) == 5 + 6 + 1 + 5 + 0);
  CHECK(data.validation_bytes(tokenizer, 1, 3) == 6 + 1);
  CHECK(data.validation_bytes(tokenizer, 2, 2) == 0);
  CHECK_THROWS_AS(data.validation_bytes(tokenizer, 2, 6), InvalidArgument);
  CHECK_THROWS_WITH(data.validation_bytes(ByteTokenizer(), 0, 5),
                    Contains("the token 259, which the tokenizer does not have"));
}

}  // namespace ddp
