#include "trainer/text/token_file.h"

#include <catch2/catch.hpp>

#include "ddp/error.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/text/token_bin.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddp_test::token_bin;
using ddprun::test::read_file;
using ddprun::test::TempDir;
using Tokens = std::vector<std::int32_t>;

Tokens all_of(const TokenView& view) {
  Tokens tokens(view.size());
  view.read(0, tokens);
  return tokens;
}

template <class Decode>
std::string refusal(const std::string& file, Decode decode) {
  try {
    decode(std::as_bytes(std::span(file)));
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

std::string bin_refusal(const std::string& file) {
  return refusal(file, decode_token_bin);
}

/// A cache file with these tokens, as bytes.
std::string cache_of(const TempDir& folder, const Tokens& tokens, std::int32_t vocabulary_size) {
  const std::filesystem::path path = folder.file("cache");
  TokenCacheWriter writer(path, "", 42, vocabulary_size);
  writer.append(std::span(tokens).first(tokens.size() / 2));
  writer.append(std::span(tokens).subspan(tokens.size() / 2));
  writer.finish();
  return read_file(path);
}

std::string cache_refusal(const std::string& file, std::uint64_t key = 42, bool all = true) {
  return refusal(file, [&](auto bytes) { return decode_token_cache(bytes, key, all); });
}

}  // namespace

TEST_CASE("a GPT-2 token file is read as llm.c writes it", "[text]") {
  const TempDir folder;
  const auto path = folder.write("a.bin", token_bin({0, 50256, 65535, 7}));
  const auto file = open_token_bin(path);
  CHECK(file.tokens.width() == 2);
  CHECK(all_of(file.tokens) == Tokens{0, 50256, 65535, 7});
  Tokens two(2);
  file.tokens.read(1, two);
  CHECK(two == Tokens{50256, 65535});
  CHECK(open_token_bin(folder.write("none.bin", token_bin({}))).tokens.size() == 0);
}

TEST_CASE("what is no GPT-2 token file is refused with path and reason", "[text]") {
  const TempDir folder;
  const auto path = folder.write("a.bin", "short");
  CHECK_THROWS_WITH(open_token_bin(path), StartsWith(path + ": is no token file"));
  CHECK_THROWS_WITH(open_token_bin(folder.file("b.bin")), Contains("cannot be read"));
  CHECK_THAT(bin_refusal(""), Contains("has 0 bytes"));
  CHECK_THAT(bin_refusal(token_bin({1}, 20240801, 7)), Contains("begins with 20240801 and 7"));
  CHECK_THAT(bin_refusal(token_bin({1}, 20240520, 2)), Contains("20240520 and 2"));
  CHECK_THAT(bin_refusal(token_bin({1, 2}, 20240520, 1, 3)), Contains("speaks of 3 tokens"));
  CHECK_THAT(bin_refusal(token_bin({1, 2}) + "x"), Contains("5 bytes follow"));
  auto negative = token_bin({1, 2});
  negative[11] = '\x80';
  CHECK_THAT(bin_refusal(negative), Contains("speaks of -"));
}

TEST_CASE("a cache file gives back its tokens, two bytes each or four", "[text]") {
  const TempDir folder;
  const Tokens narrow = {0, 1, 65535, 300, 2};
  const auto small = cache_of(folder, narrow, 65536);
  CHECK(small.size() == kTokenCacheHeaderBytes + 10);
  CHECK(all_of(decode_token_cache(std::as_bytes(std::span(small)), 42, true)) == narrow);
  const Tokens wide = {0, 65536, 1, 1 << 20};
  const auto large = cache_of(folder, wide, 65537);
  CHECK(large.size() == kTokenCacheHeaderBytes + 16);
  CHECK(all_of(decode_token_cache(std::as_bytes(std::span(large)), 42, true)) == wide);
  CHECK(all_of(open_token_cache(folder.file("cache"), 42, true).tokens) == wide);
}

TEST_CASE("a cache file with any bit flipped, cut short or of another key is refused", "[text]") {
  const TempDir folder;
  const auto file = cache_of(folder, {1, 2, 3}, 50257);
  CHECK(cache_refusal(file) == "accepted");
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    auto damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    INFO(bit);
    REQUIRE(cache_refusal(damaged) != "accepted");
  }
  for (std::size_t size = 0; size < file.size(); ++size) {
    REQUIRE(cache_refusal(file.substr(0, size)) != "accepted");
  }
  CHECK_THAT(cache_refusal(file + "xx"), Contains("has grown"));
  CHECK_THAT(cache_refusal(file, 43), Contains("other files"));
  auto tokens_damaged = file;
  tokens_damaged.back() ^= 1;
  CHECK_THAT(cache_refusal(tokens_damaged), Contains("checksum"));
  CHECK(cache_refusal(tokens_damaged, 42, false) == "accepted");
}

}  // namespace ddp
