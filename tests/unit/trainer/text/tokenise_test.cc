#include "trainer/text/tokenise.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "ddp/error.h"
#include "tests/unit/trainer/text/byte_level.h"
#include "trainer/text/byte_pair_tokenizer.h"
#include "trainer/text/byte_tokenizer.h"

namespace ddp {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens tokens_of(TextForm form, std::string_view text, const Tokenizer& tokenizer,
                 std::size_t chunk_bytes = kChunkBytes) {
  Tokens all;
  tokenise(
      form, text, tokenizer, [&](auto some) { all.insert(all.end(), some.begin(), some.end()); },
      chunk_bytes);
  return all;
}

}  // namespace

TEST_CASE("a text encoded in chunks of any size has the tokens of the whole", "[text]") {
  auto file = ddp_test::tokenizer_json(ddp_test::some_merges());
  file["added_tokens"] = {ddp_test::added_token("<|endoftext|>", 272),
                          ddp_test::added_token("  ", 273), ddp_test::added_token("\n", 274)};
  const std::vector<std::string> pieces = {"hello",         " hello", "\n", "\n\n",  "  ",
                                           " \n",           "abc",    "'s", "\xFF",  "\u3000",
                                           "<|endoftext|>", "123",    "\t", "\u00e9"};
  auto plain = file;
  plain["added_tokens"].erase(1);
  plain["added_tokens"].erase(1);
  for (const auto& form : {file, plain}) {
    const BytePairTokenizer tokenizer(ddp_test::vocabulary_of(form));
    std::uint32_t state = 11;
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) {
        state = state * 1'664'525U + 1'013'904'223U;
        text += pieces[(state >> 16U) % pieces.size()];
      }
      const auto whole = tokens_of(TextForm::plain, text, tokenizer);
      for (const std::size_t chunk : {1, 2, 7, 30}) {
        if (tokens_of(TextForm::plain, text, tokenizer, chunk) != whole) {
          FAIL("chunks of " << chunk << ": " << text);
        }
      }
    }
  }
}

TEST_CASE("a long text is handed over in pieces of about the chunk's size", "[text]") {
  const ByteTokenizer tokenizer;
  std::string text;
  while (text.size() < 100000) {
    text += "some words in a line\n";
  }
  std::size_t longest = 0;
  std::size_t count = 0;
  tokenise(
      TextForm::plain, text, tokenizer,
      [&](auto some) {
        longest = std::max(longest, some.size());
        count += some.size();
      },
      1000);
  CHECK(longest <= 1000);
  CHECK(count == text.size() + 1);
}

TEST_CASE("every document is followed by the end of a text", "[text]") {
  const ByteTokenizer tokenizer;
  CHECK(tokens_of(TextForm::plain, "ab", tokenizer) == Tokens{'a', 'b', 256});
  CHECK(tokens_of(TextForm::json_lines, "{\"text\":\"a\"}\n{\"text\":\"\"}\n", tokenizer) ==
        Tokens{'a', 256, 256});
  // A vocabulary without such a token has nothing to put there.
  const BytePairTokenizer none(ddp_test::vocabulary_of(ddp_test::tokenizer_json({})));
  CHECK(tokens_of(TextForm::plain, "ab", none) == Tokens{'a', 'b'});
}

TEST_CASE("a text without a document is refused", "[text]") {
  const ByteTokenizer tokenizer;
  CHECK_THROWS_WITH(tokens_of(TextForm::plain, "", tokenizer), "is empty");
  CHECK_THROWS_WITH(tokens_of(TextForm::json_lines, "", tokenizer), "is empty");
  CHECK_THROWS_WITH(tokens_of(TextForm::json, "[]", tokenizer), "holds no record");
  CHECK_THROWS_WITH(tokens_of(TextForm::json_lines, "\n", tokenizer), "holds no record");
}

}  // namespace ddp
