#include "trainer/text/byte_pair_tokenizer.h"

#include <ctime>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "ddp/error.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/text/byte_level.h"
#include "trainer/text/word_cache.h"
#include "trainer/text/word_splitter.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddp_test::added_token;
using ddp_test::some_merges;
using ddp_test::tokenizer_json;
using ddp_test::vocabulary_of;
using Tokens = std::vector<std::int32_t>;

// What this thread has computed, in seconds: other work on the machine does not count.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::uint32_t next(std::uint32_t& state) {
  state = state * 1'664'525U + 1'013'904'223U;
  return state >> 16U;
}

/// Byte-pair encoding by the book: the lowest rank, of equals the leftmost, one at a time.
Tokens by_the_book(const BytePairVocabulary& vocabulary, std::string_view word) {
  Tokens parts;
  for (const char c : word) {
    parts.push_back(vocabulary.byte_tokens[static_cast<unsigned char>(c)]);
  }
  while (true) {
    const Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const Merge* merge = vocabulary.merges.find(parts[i], parts[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        at = i;
      }
    }
    if (best == nullptr) {
      return parts;
    }
    parts[at] = best->token;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

/// Merges of a two-letter alphabet that overlap in every way.
ddp_test::Merges dense_merges(std::uint32_t seed) {
  ddp_test::Merges merges;
  std::vector<std::string> texts = {"x", "y", "z"};
  while (merges.size() < 40) {
    const auto left = texts[next(seed) % texts.size()];
    const auto right = texts[next(seed) % texts.size()];
    if (std::find(texts.begin(), texts.end(), left + right) == texts.end()) {
      merges.emplace_back(left, right);
      texts.push_back(left + right);
    }
  }
  return merges;
}

}  // namespace

TEST_CASE("neighbours merge by rank, within words alone", "[text]") {
  const BytePairTokenizer tokenizer(vocabulary_of(tokenizer_json(some_merges())));
  // 259: "hello", 260: " hello", 264: "abc"
  CHECK(tokenizer.encode("hello hello") == Tokens{259, 260});
  CHECK(tokenizer.encode("hell") == Tokens{258});
  CHECK(tokenizer.encode("abc") == Tokens{264});
  CHECK(tokenizer.encode("bc") == Tokens{263});
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.decode(Tokens{259, 260}) == "hello hello");
  CHECK(tokenizer.decode({}).empty());
  CHECK(tokenizer.vocabulary_size() == 256 + static_cast<int>(some_merges().size()));
  CHECK(tokenizer.end_of_text() == std::nullopt);
}

TEST_CASE("random merges give the tokens of byte-pair encoding by the book", "[text]") {
  std::uint32_t state = 7;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const auto vocabulary = vocabulary_of(tokenizer_json(dense_merges(seed)));
    const BytePairTokenizer tokenizer(vocabulary);
    for (int round = 0; round < 200; ++round) {
      std::string word;
      const auto size = 1 + next(state) % 60;
      for (std::uint32_t i = 0; i < size; ++i) {
        word += static_cast<char>('x' + next(state) % 3);
      }
      const auto tokens = tokenizer.encode(word);
      if (tokens != by_the_book(vocabulary, word) || tokens != tokenizer.encode(word)) {
        FAIL("seed " << seed << ", word " << word);
      }
    }
  }
}

TEST_CASE("any bytes decode to themselves", "[text]") {
  auto file = tokenizer_json(some_merges());
  file["added_tokens"] =
      nlohmann::json::array({added_token("<|endoftext|>", 272), added_token("\u00e9\u00e9", 273)});
  const BytePairTokenizer tokenizer(vocabulary_of(file));
  const std::vector<std::string> pieces = {"hello",
                                           " the",
                                           "\xFF",
                                           "\xC3",
                                           "\xA9",
                                           "\u00e9",
                                           "\xE2\x82",
                                           "\n\n",
                                           " ",
                                           "<|endoftext|>",
                                           "<|end",
                                           std::string(1, '\0'),
                                           "\xF0\x9F\x98\x80",
                                           "\xED\xA0\x80",
                                           "'s",
                                           "123",
                                           "\u3000"};
  std::uint32_t state = 3;
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (auto count = next(state) % 10; count > 0; --count) {
      text += pieces[next(state) % pieces.size()];
    }
    if (tokenizer.decode(tokenizer.encode(text)) != text) {
      FAIL("round " << round << ": " << text);
    }
  }
}

TEST_CASE("an added token is found whole, the leftmost first, of those the longest", "[text]") {
  auto file = tokenizer_json(some_merges());
  file["added_tokens"] = {added_token("<|endoftext|>", 272), added_token("<|end", 273),
                          added_token("abcd", 274, true), added_token("cd<", 275)};
  const BytePairTokenizer tokenizer(vocabulary_of(file));
  CHECK(tokenizer.end_of_text() == 272);
  CHECK(tokenizer.encode("hello<|endoftext|>hello") == Tokens{259, 272, 259});
  CHECK(tokenizer.encode("<|endoftext|><|endoftext|>") == Tokens{272, 272});
  CHECK(tokenizer.encode("<|endof") == Tokens{273, 'o', 'f'});
  CHECK(tokenizer.encode("abcd") == Tokens{274});
  // Those that are not normalized are looked for first, wherever they begin.
  CHECK(tokenizer.encode("abcd<") == Tokens{262, 275});
  CHECK(tokenizer.decode(Tokens{272}) == "<|endoftext|>");
}

TEST_CASE("a token that is not in the vocabulary cannot be decoded", "[text]") {
  auto file = tokenizer_json({});
  file["model"]["vocab"]["xy"] = 260;
  const BytePairTokenizer tokenizer(vocabulary_of(file));
  for (const std::int32_t token : {-1, 258, 261}) {
    CHECK_THROWS_AS(tokenizer.decode(Tokens{token}), InvalidArgument);
  }
}

TEST_CASE("a word of a megabyte is encoded in time that grows with its length", "[text]") {
  const BytePairTokenizer tokenizer(vocabulary_of(tokenizer_json(dense_merges(1))));
  const auto seconds = [&](std::size_t size) {
    std::string word;
    std::uint32_t state = 5;
    while (word.size() < size) {
      word += static_cast<char>('x' + next(state) % 3);
    }
    const double begin = thread_seconds();
    const auto tokens = tokenizer.encode(word);
    const double taken = thread_seconds() - begin;
    CHECK(tokenizer.decode(tokens) == word);
    return taken;
  };
  // 8 times the length: quadratic work would take 64 times as long. The best of three each, and
  // both too long for a small cache, so that only the work differs.
  const auto best = [&](std::size_t size) {
    return std::min({seconds(size), seconds(size), seconds(size)});
  };
  const double small = best(std::size_t{1} << 17U);
  CHECK(best(std::size_t{1} << 20U) < 24 * small);
}

TEST_CASE("a cache of words gives what was added, and forgets rather than grows", "[text]") {
  WordCache cache(16);
  std::map<std::string, Tokens> added;
  for (int i = 0; i < 1000; ++i) {
    const auto word = "w" + std::to_string(i);
    const Tokens tokens = {i, i + 1};
    cache.add(word, tokens);
    added[word] = tokens;
    const auto found = cache.find(word);
    REQUIRE(Tokens(found.begin(), found.end()) == tokens);
  }
  std::size_t kept = 0;
  for (const auto& [word, tokens] : added) {
    const auto found = cache.find(word);
    kept += found.empty() ? 0 : 1;
    REQUIRE((found.empty() || Tokens(found.begin(), found.end()) == tokens));
  }
  CHECK(kept <= 16);
  CHECK(kept > 4);
  const std::string longest(WordCache::kWordBytesMax, 'a');
  cache.add(longest, Tokens(WordCache::kTokensMax, 1));
  CHECK(cache.find(longest).size() == WordCache::kTokensMax);
  cache.add(longest + "a", Tokens{1});
  CHECK(cache.find(longest + "a").empty());
  cache.add("many", Tokens(WordCache::kTokensMax + 1, 1));
  CHECK(cache.find("many").empty());
  CHECK(cache.find(std::string(1, '\0')).empty());
}

TEST_CASE("a tokenizer is loaded from a folder, or from one of its files", "[text]") {
  const ddprun::test::TempDir one;
  const ddprun::test::TempDir two;
  const auto file = tokenizer_json(some_merges());
  const auto json_path = one.write("tokenizer.json", file.dump());
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : some_merges()) {
    merges += left + " " + right + "\n";
  }
  const auto vocab_path = two.write("vocab.json", file["model"]["vocab"].dump());
  const auto merges_path = two.write("merges.txt", merges);
  const std::string text = "hello the hello 123's  \n\n";
  const auto expected = BytePairTokenizer(vocabulary_of(file)).encode(text);
  for (const auto& path : {one.path(), two.path(), std::filesystem::path(json_path),
                           std::filesystem::path(vocab_path), std::filesystem::path(merges_path)}) {
    INFO(path);
    const auto tokenizer = BytePairTokenizer::load(path);
    CHECK(tokenizer->encode(text) == expected);
    CHECK(tokenizer->files().size() == (path.string().starts_with(one.path().string()) ? 1 : 2));
  }
}

TEST_CASE("a tokenizer that is not there is an error that begins with the path", "[text]") {
  const ddprun::test::TempDir folder;
  CHECK_THROWS_WITH(BytePairTokenizer::load(folder.path()),
                    StartsWith(folder.path().string() + ": holds neither"));
  CHECK_THROWS_WITH(BytePairTokenizer::load(folder.file("none.json")),
                    StartsWith(folder.file("none.json") + ": cannot be read"));
  folder.write("vocab.json", ddp_test::vocabulary_json({}).dump());
  CHECK_THROWS_WITH(BytePairTokenizer::load(folder.path()), Contains("merges.txt: cannot be read"));
  const auto bad = folder.write("bad.json", "{}");
  CHECK_THROWS_WITH(BytePairTokenizer::load(bad), StartsWith(bad + ": is no tokenizer.json"));
}

}  // namespace ddp
