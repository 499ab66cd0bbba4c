#include "trainer/text/word_splitter.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace ddp {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view text) {
  static WordSplitter splitter;  // compiling the pattern takes longer than any text here
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = splitter.word_end(text, at);
    REQUIRE(end > at);
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

/// Pieces of which texts are made that show every part of the pattern.
const std::vector<std::string>& pieces() {
  static const std::vector<std::string> all = {
      "a",      "Z",      "1",      " ",          "  ",     "\n",     "\r\n",   "\t",     "'s",
      "'",      "ll",     "!",      "\u00e9",     "\u0301", "\u00a0", "\u3000", "\u2028", "\u2003",
      "\u0085", "\u180e", "\u4e2d", "\U0001f600", "\u200d", "\u0663", "x\n",    "\n\n",   "\u00bd"};
  return all;
}

/// The next number of a small generator.
std::uint32_t next(std::uint32_t& state) {
  state = state * 1'664'525U + 1'013'904'223U;
  return state >> 16U;
}

std::string some_text(std::uint32_t& state) {
  std::string text;
  const auto count = 1 + next(state) % 12;
  for (std::uint32_t i = 0; i < count; ++i) {
    text += pieces()[next(state) % pieces().size()];
  }
  return text;
}

}  // namespace

TEST_CASE("text is split into words as GPT-2's pattern has it", "[text]") {
  CHECK(words_of("Hello world") == Words{"Hello", " world"});
  CHECK(words_of("I'll say it's 12 o'clock") ==
        Words{"I", "'ll", " say", " it", "'s", " 12", " o", "'", "clock"});
  CHECK(words_of("abc123def") == Words{"abc", "123", "def"});
  CHECK(words_of("a  b") == Words{"a", " ", " b"});
  CHECK(words_of("a \n b\n\nc") == Words{"a", " \n", " b", "\n", "\n", "c"});
  CHECK(words_of("a\n") == Words{"a", "\n"});
  CHECK(words_of("a  \n") == Words{"a", "  \n"});
  CHECK(words_of("x!?... y") == Words{"x", "!?...", " y"});
  CHECK(words_of("DON'T") == Words{"DON", "'", "T"});
  CHECK(words_of("") == Words{});
}

TEST_CASE("letters, numbers and white space are Unicode's", "[text]") {
  CHECK(words_of("na\u00efve \u0434\u0430") == Words{"na\u00efve", " \u0434\u0430"});
  // A combining mark is no letter.
  CHECK(words_of("e\u0301a") == Words{"e", "\u0301", "a"});
  CHECK(words_of("\u0663\u00bd\u2167") == Words{"\u0663\u00bd\u2167"});
  CHECK(words_of("a\u00a0b") == Words{"a", "\u00a0", "b"});
  CHECK(words_of("a\u3000\u3000b") == Words{"a", "\u3000", "\u3000", "b"});
  // White space once, up to Unicode 6.2.
  CHECK(words_of("!\u180e") == Words{"!\u180e"});
}

TEST_CASE("a word of a megabyte of any kind is one word", "[text]") {
  const std::size_t size = std::size_t{1} << 20U;
  for (const std::string piece : {"a", "7", "!", " ", "\u4e2d"}) {
    std::string text;
    while (text.size() < size) {
      text += piece;
    }
    CHECK(words_of(text).size() == 1);
  }
}

TEST_CASE("the words of two parts cut at a safe place are the words of the whole", "[text]") {
  std::uint32_t state = 1;
  int cuts = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto text = some_text(state);
    for (std::size_t limit = 0; limit < text.size(); ++limit) {
      const auto at = safe_cut(text, limit);
      REQUIRE(at > 0);
      if (at == text.size()) {
        continue;
      }
      auto parts = words_of(text.substr(0, at));
      const auto rest = words_of(text.substr(at));
      parts.insert(parts.end(), rest.begin(), rest.end());
      if (parts != words_of(text)) {
        FAIL("cut at " << at << " of '" << text << "'");
      }
      ++cuts;
    }
  }
  CHECK(cuts > 10000);
}

TEST_CASE(
    "behind a line feed, between white space and before a character of another byte no cut is "
    "safe",
    "[text]") {
  // Why the cut stands before the white space: the words would change in each of these.
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"a\n\n", "b"}, {"a ", "b"}, {"a \n", "b"}, {"don'", "t"}, {"a", "b"}}) {
    auto parts = words_of(left);
    const auto rest = words_of(right);
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts != words_of(left + right));
    CHECK(safe_cut(left + right, left.size()) != left.size());
  }
}

TEST_CASE("a cut is the last safe place up to the limit, else the first behind it", "[text]") {
  CHECK(safe_cut("one two three", 9) == 7);
  CHECK(safe_cut("one two three", 7) == 7);
  CHECK(safe_cut("one two three", 6) == 3);
  CHECK(safe_cut("one two three", 2) == 3);
  CHECK(safe_cut("one two three", 0) == 3);
  CHECK(safe_cut("one two three", 13) == 13);
  CHECK(safe_cut("one two three", 100) == 13);
  CHECK(safe_cut("onetwothree", 4) == 11);
  CHECK(safe_cut("   one", 1) == 6);
  CHECK(safe_cut("\u3000\n\u3000\nx", 4) == 9);
  CHECK(safe_cut("\u3002\nx", 4) == 3);
  CHECK(safe_cut("", 4) == 0);
}

}  // namespace ddp
