#include "trainer/text/byte_pair_vocabulary.h"

#include <catch2/catch.hpp>

#include "ddp/error.h"
#include "tests/unit/trainer/text/byte_level.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using ddp_test::added_token;
using ddp_test::tokenizer_json;
using ddp_test::vocabulary_json;
using nlohmann::json;

std::string refusal_of_text(const std::string& text) {
  try {
    parse_tokenizer_json({"t.json", text});
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

/// Of a good file into which a change was made, given as a JSON merge patch.
std::string refusal_with(const json& patch) {
  auto file = tokenizer_json({{"a", "b"}});
  file.merge_patch(patch);
  return refusal_of_text(file.dump());
}

std::string refusal_of_merges(const std::string& vocab, const std::string& merges) {
  try {
    parse_vocabulary_and_merges({"vocab.json", vocab}, {"merges.txt", merges});
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a tokenizer.json gives tokens, merges and added tokens", "[text]") {
  auto file = tokenizer_json({{"a", "b"}, {"\u0120", "ab"}});
  file["added_tokens"] =
      nlohmann::json::array({added_token("<|endoftext|>", 258), added_token("<x>", 259, true)});
  const auto vocabulary = ddp_test::vocabulary_of(file);
  REQUIRE(vocabulary.tokens.size() == 260);
  CHECK(vocabulary.tokens[0] == std::string(1, '\0'));
  CHECK(vocabulary.tokens[0xFF] == "\xFF");
  CHECK(vocabulary.tokens[256] == "ab");
  CHECK(vocabulary.tokens[257] == " ab");
  CHECK(vocabulary.tokens[258] == "<|endoftext|>");
  CHECK(vocabulary.tokens[259] == "<x>");
  CHECK(vocabulary.end_of_text == 258);
  CHECK(vocabulary.byte_tokens[' '] == ' ');
  const auto* merge = vocabulary.merges.find(' ', 256);
  REQUIRE(merge != nullptr);
  CHECK(merge->rank == 1);
  CHECK(merge->token == 257);
  CHECK(vocabulary.merges.find(256, ' ') == nullptr);
  REQUIRE(vocabulary.added.size() == 2);
  CHECK_FALSE(vocabulary.added[0].normalized);
  CHECK(vocabulary.added[1].normalized);
}

TEST_CASE("merges may be texts or pairs", "[text]") {
  auto file = tokenizer_json({{"a", "b"}, {"ab", "c"}});
  file["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"ab", "c"})});
  CHECK(ddp_test::vocabulary_of(file).merges.find(256, 'c')->token == 257);
}

TEST_CASE("vocab.json and merges.txt give the same vocabulary as one tokenizer.json", "[text]") {
  const ddp_test::Merges merges = {{"a", "b"}, {"\u0120", "ab"}};
  auto vocab = vocabulary_json(merges);
  vocab["<|endoftext|>"] = 258;
  const auto text = vocab.dump();
  for (const std::string lines : {"#version: 0.2\na b\n\u0120 ab\n", "a b\n\u0120 ab",
                                  "#version: 0.2\r\na b\r\n\u0120 ab\r\n\r\n"}) {
    const auto vocabulary =
        parse_vocabulary_and_merges({"vocab.json", text}, {"merges.txt", lines});
    CHECK(vocabulary.tokens[257] == " ab");
    CHECK(vocabulary.merges.find('a', 'b')->rank == 0);
    CHECK(vocabulary.merges.find(' ', 256)->rank == 1);
    CHECK(vocabulary.end_of_text == 258);
    REQUIRE(vocabulary.added.size() == 1);
    CHECK(vocabulary.added[0].text == "<|endoftext|>");
  }
}

TEST_CASE("a merge table finds each of many merges, and none that was not given", "[text]") {
  MergeTable table(50000);
  for (std::int32_t i = 0; i < 50000; ++i) {
    table.insert(i, i * 7 % 50000, {i, i + 1});
  }
  for (std::int32_t i = 0; i < 50000; ++i) {
    const auto* merge = table.find(i, i * 7 % 50000);
    REQUIRE((merge != nullptr && merge->rank == i && merge->token == i + 1));
    REQUIRE(table.find(i, i * 7 % 50000 + 50000) == nullptr);
  }
  CHECK(MergeTable().find(0, 0) == nullptr);
  table.insert(0, 0, {9, 9});
  CHECK(table.find(0, 0)->rank == 9);
}

TEST_CASE("what would give other tokens and is not done is refused by its name", "[text]") {
  CHECK(refusal_with(json::object()) == "accepted");
  CHECK_THAT(refusal_with({{"normalizer", {{"type", "NFC"}}}}),
             Equals("t.json: asks for the normalizer 'NFC', which is not supported"));
  CHECK_THAT(refusal_with({{"pre_tokenizer", {{"type", "Whitespace"}}}}),
             Contains("pre-tokenizer 'Whitespace'"));
  CHECK_THAT(refusal_with({{"pre_tokenizer", nullptr}}), Contains("no pre-tokenizer"));
  CHECK_THAT(refusal_with({{"pre_tokenizer", {{"add_prefix_space", true}}}}),
             Contains("'add_prefix_space'"));
  CHECK_THAT(refusal_with({{"pre_tokenizer", {{"use_regex", false}}}}), Contains("'use_regex'"));
  CHECK_THAT(refusal_with({{"post_processor", {{"type", "TemplateProcessing"}}}}),
             Contains("post_processor 'TemplateProcessing'"));
  CHECK_THAT(refusal_with({{"decoder", {{"type", "WordPiece"}}}}), Contains("decoder 'WordPiece'"));
  CHECK_THAT(refusal_with({{"truncation", {{"max_length", 5}}}}), Contains("'truncation'"));
  CHECK_THAT(refusal_with({{"padding", {{"strategy", "BatchLongest"}}}}), Contains("'padding'"));
  CHECK_THAT(refusal_with({{"model", {{"type", "Unigram"}}}}), Contains("model 'Unigram'"));
  CHECK_THAT(refusal_with({{"model", {{"dropout", 0.1}}}}), Contains("'dropout'"));
  CHECK_THAT(refusal_with({{"model", {{"ignore_merges", true}}}}), Contains("'ignore_merges'"));
  CHECK_THAT(refusal_with({{"model", {{"end_of_word_suffix", "</w>"}}}}),
             Contains("'end_of_word_suffix'"));
  for (const char* option : {"single_word", "lstrip", "rstrip"}) {
    auto token = added_token("<x>", 300);
    token[option] = true;
    CHECK_THAT(refusal_with({{"added_tokens", {token}}}), Contains(option));
  }
  CHECK_THAT(refusal_with({{"added_tokens", {added_token("a b", 300)}}}), Contains("white space"));
  CHECK(refusal_with({{"added_tokens", {added_token("  ", 257)}}}) == "accepted");
  // tokenizers would give it 257, whatever the file says.
  CHECK_THAT(refusal_with({{"added_tokens", {added_token("<x>", 300)}}}),
             Contains("has the number 300, and the next free one is 257"));
}

TEST_CASE("a tokenizer.json that is damaged is refused with the reason", "[text]") {
  CHECK_THAT(refusal_of_text(""), StartsWith("t.json: is no valid JSON: parse error at line 1"));
  CHECK_THAT(refusal_of_text("{\"model\":"), StartsWith("t.json: is no valid JSON"));
  CHECK_THAT(refusal_of_text("\"\xFF\""), StartsWith("t.json: is no valid JSON"));
  CHECK_THAT(refusal_of_text("[]"), Contains("has no 'model'"));
  CHECK_THAT(refusal_of_text("{\"model\":3}"), Contains("has no 'model'"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", nullptr}}}}), Contains("must be an object"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", {{"a", nullptr}}}}}}),
             Contains("no token for the byte 97"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", {{"a", "x"}}}}}}), Contains("whole number"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", {{"a", -1}}}}}}), Contains("whole number"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", {{"a", 1.5}}}}}}), Contains("whole number"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", {{"a", kTokensMax}}}}}}), Contains("whole number"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", {{"a", 98}}}}}}), Contains("which another has"));
  CHECK_THAT(refusal_with({{"model", {{"vocab", {{"", 400}}}}}}), Contains("a token is empty"));
  CHECK_THAT(refusal_with({{"model", {{"merges", nullptr}}}}), Contains("must be an array"));
  CHECK_THAT(refusal_with({{"model", {{"merges", {"ab"}}}}}), Contains("merge 1 must be two"));
  CHECK_THAT(refusal_with({{"model", {{"merges", {"a b c"}}}}}), Contains("merge 1 must be two"));
  CHECK_THAT(refusal_with({{"model", {{"merges", {"a b", "b c"}}}}}),
             Contains("merge 2 speaks of 'bc'"));
  CHECK_THAT(refusal_with({{"model", {{"merges", {7}}}}}), Contains("merge 1 must be a text"));
  CHECK_THAT(refusal_with({{"added_tokens", {{{"id", 300}}}}}), Contains("not laid out"));
  CHECK_THAT(refusal_with({{"added_tokens", {added_token("", 300)}}}), Contains("is empty"));
  CHECK_THAT(refusal_with({{"added_tokens", {added_token("<x>", 97)}}}),
             Contains("gives to another"));
  CHECK_THAT(refusal_with({{"added_tokens", {added_token("a", 300)}}}),
             Contains("gives to another"));
  CHECK_THAT(refusal_with({{"added_tokens", "x"}}), Contains("not laid out"));
}

TEST_CASE("merges.txt and vocab.json that are damaged are refused with file and line", "[text]") {
  const auto vocab = vocabulary_json({{"a", "b"}}).dump();
  CHECK(refusal_of_merges(vocab, "") == "accepted");
  CHECK_THAT(
      refusal_of_merges(vocab, "#version: 0.2\na b\nab\n"),
      Equals("merges.txt: line 3 must be two tokens with a blank between them, but is 'ab'"));
  CHECK_THAT(refusal_of_merges(vocab, "a  b\n"), StartsWith("merges.txt: line 1 must be"));
  CHECK_THAT(refusal_of_merges(vocab, "a c\n"), StartsWith("merges.txt: line 1 speaks of 'ac'"));
  CHECK_THAT(refusal_of_merges("[]", "a b\n"), StartsWith("vocab.json: the vocabulary must be"));
  CHECK_THAT(refusal_of_merges("{", ""), StartsWith("vocab.json: is no valid JSON"));
}

}  // namespace ddp
