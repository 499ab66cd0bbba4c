#include "trainer/text/token_cache.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "ddp/error.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/text/byte_level.h"
#include "tests/unit/trainer/text/token_bin.h"
#include "tests/unit/worker_runtime/ranks.h"
#include "trainer/text/byte_pair_tokenizer.h"
#include "trainer/text/byte_tokenizer.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddp_test::Ranks;
using ddprun::test::read_file;
using ddprun::test::TempDir;
using Tokens = std::vector<std::int32_t>;
using Path = std::filesystem::path;

const InitOptions kOptions = {.timeout = std::chrono::seconds(20)};

std::vector<Path> files_in(const Path& folder) {
  std::vector<Path> files;
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      files.push_back(entry.path());
    }
  }
  return files;
}

/// All tokens as "1 2 3", then each line that was said as "|line".
std::string story(const Context& context, const Tokenizer& tokenizer, TokenCacheOptions options) {
  std::string lines;
  options.say = [&](std::string_view line) { lines += "|" + std::string(line); };
  std::string text;
  for (const auto& file : load_tokens(context, tokenizer, options)) {
    Tokens tokens(file.tokens.size());
    file.tokens.read(0, tokens);
    for (const auto token : tokens) {
      text += (text.empty() ? "" : " ") + std::to_string(token);
    }
  }
  return text + lines;
}

/// As one process, which has no launcher.
std::string story_alone(const TokenCacheOptions& options, const Tokenizer& tokenizer) {
  const auto outcomes = Ranks(1, [&](int) {
                          const Context context = init(kOptions);
                          return story(context, tokenizer, options);
                        }).finish();
  return outcomes.at(0).text;
}

std::string story_alone(const TokenCacheOptions& options) {
  return story_alone(options, ByteTokenizer());
}

/// Rank `rank` of a job whose nodes have two workers each. Its ranks meet at the port, as those of
/// several hosts do.
void be_on_node(int rank, std::uint16_t port) {
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank % 2).c_str(), 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
}

}  // namespace

TEST_CASE("local rank 0 makes the tokens once, and all ranks read them", "[text]") {
  const TempDir folder;
  const TokenCacheOptions options = {
      .files = {folder.write("a.txt", "ab"), folder.write("b.jsonl", "{\"text\":\"c\"}\n")},
      .directory = folder.path() / "x" / "cache"};
  const auto outcomes = Ranks(3, [&](int) {
                          const Context context = init(kOptions);
                          return story(context, ByteTokenizer(), options);
                        }).finish();
  CHECK_THAT(outcomes[0].text,
             StartsWith("97 98 256 99 256|") && Contains(": 5 tokens made from 2 files in "));
  CHECK(outcomes[1].text == "97 98 256 99 256");
  CHECK(outcomes[2].text == "97 98 256 99 256");
  REQUIRE(files_in(options.directory).size() == 1);
  // A later job finds it, and says nothing.
  const auto before = std::filesystem::last_write_time(files_in(options.directory)[0]);
  CHECK(story_alone(options) == "97 98 256 99 256");
  CHECK(std::filesystem::last_write_time(files_in(options.directory)[0]) == before);
}

TEST_CASE("each node makes its own, also in a directory that nodes share", "[text]") {
  const TempDir folder;
  const auto file = folder.write("a.txt", "ab");
  for (const bool shared : {true, false}) {
    const auto port = ddprun::test::free_port();
    const auto outcomes = Ranks(4, [&](int rank) {
                            be_on_node(rank, port);
                            const Context context = init(kOptions);
                            const auto name = shared ? "shared" : "node" + std::to_string(rank / 2);
                            return story(context, ByteTokenizer(),
                                         {.files = {file}, .directory = folder.path() / name});
                          }).finish();
    for (std::size_t rank = 0; rank < 4; ++rank) {
      INFO(rank);
      CHECK_THAT(outcomes[rank].text, StartsWith("97 98 256"));
    }
    CHECK(outcomes[1].text == "97 98 256");
    CHECK(outcomes[3].text == "97 98 256");
  }
  for (const char* name : {"shared", "node0", "node1"}) {
    CHECK(files_in(folder.path() / name).size() == 1);
  }
}

TEST_CASE("nodes whose files differ do not train", "[text]") {
  const auto port = ddprun::test::free_port();
  const auto outcomes = Ranks(4, [&](int rank) {
                          be_on_node(rank, port);
                          const Context context = init(kOptions);
                          const auto node = std::to_string(rank / 2);
                          const TempDir own;
                          return story(context, ByteTokenizer(),
                                       {.files = {own.write("a.txt", "text of node " + node)},
                                        .directory = own.path()});
                        }).finish();
  for (const auto& outcome : outcomes) {
    CHECK_THAT(outcome.text, Contains("rank 2 read other data than rank 0"));
  }
}

TEST_CASE("a damaged cache file is made anew, with one line that says so", "[text]") {
  const TempDir folder;
  const TokenCacheOptions options = {.files = {folder.write("a.txt", "ab")},
                                     .directory = folder.path() / "cache"};
  CHECK_THAT(story_alone(options), StartsWith("97 98 256|"));
  const auto cache = files_in(options.directory).at(0);
  const auto good = read_file(cache);
  for (const std::size_t at : {std::size_t{9}, good.size() - 1}) {
    auto damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(cache, std::ios::binary) << damaged;
    CHECK_THAT(story_alone(options), StartsWith("97 98 256|" + cache.string() + ": ") &&
                                         Contains("; the tokens are made anew|") &&
                                         Contains("3 tokens made"));
    CHECK(read_file(cache) == good);
    CHECK(story_alone(options) == "97 98 256");
  }
}

TEST_CASE("another text, order or tokenizer has a cache file of its own", "[text]") {
  const TempDir folder;
  const auto a = folder.write("a.txt", "ab");
  const auto b = folder.write("b.txt", "cd");
  auto definition = ddp_test::tokenizer_json({});
  const auto first = folder.write("first.json", definition.dump());
  definition = ddp_test::tokenizer_json({{"a", "b"}});
  const auto second = folder.write("second.json", definition.dump());
  const Path directory = folder.path() / "cache";
  CHECK_THAT(story_alone({.files = {a, b}, .directory = directory}),
             StartsWith("97 98 256 99 100 256|"));
  CHECK_THAT(story_alone({.files = {b, a}, .directory = directory}),
             StartsWith("99 100 256 97 98 256|"));
  folder.write("a.txt", "aa");
  CHECK_THAT(story_alone({.files = {a, b}, .directory = directory}),
             StartsWith("97 97 256 99 100 256|"));
  CHECK_THAT(story_alone({.files = {a}, .tokenizer_files = {first}, .directory = directory},
                         *BytePairTokenizer::load(first)),
             StartsWith("97 97|"));
  CHECK_THAT(story_alone({.files = {b}, .tokenizer_files = {second}, .directory = directory},
                         *BytePairTokenizer::load(second)),
             StartsWith("99 100|"));
  CHECK(files_in(directory).size() == 5);
}

TEST_CASE("token files are read as they are, without a cache", "[text]") {
  const TempDir folder;
  const TokenCacheOptions options = {.files = {folder.write("a.bin", ddp_test::token_bin({1, 2})),
                                               folder.write("b.bin", ddp_test::token_bin({3}))},
                                     .directory = folder.path() / "cache"};
  CHECK(story_alone(options) == "1 2 3");
  CHECK(files_in(options.directory).empty());
}

TEST_CASE("what is wrong with a file is the error of every rank, and nothing is left", "[text]") {
  const TempDir folder;
  const auto on_all_ranks = [&](const TokenCacheOptions& options, const std::string& expected) {
    const auto outcomes = Ranks(2, [&](int) {
                            const Context context = init(kOptions);
                            return story(context, ByteTokenizer(), options);
                          }).finish();
    for (const auto& outcome : outcomes) {
      CHECK_THAT(outcome.text, Contains(expected));
    }
    CHECK(files_in(folder.path() / "cache").empty());
  };
  const auto bad = folder.write("a.jsonl", "{\"text\":\"x\"}\n{\"text\":1}\n");
  const auto directory = folder.path() / "cache";
  on_all_ranks({.files = {bad}, .directory = directory},
               "Error: " + bad + ": line 2: the field 'text' must be a text");
  on_all_ranks({.files = {folder.write("e.txt", "")}, .directory = directory}, "e.txt: is empty");
  on_all_ranks({.files = {folder.path() / "none"}, .directory = directory},
               "none: cannot be read: No such file");
  on_all_ranks({.files = {}, .directory = directory}, "InvalidArgument: no file");
  on_all_ranks({.files = {bad, folder.path() / "a.bin"}, .directory = directory}, "not both");
  on_all_ranks({.files = {folder.write("f.bin", "x")}, .directory = directory},
               "f.bin: is no token file");
  on_all_ranks({.files = {folder.write("g.bin", ddp_test::token_bin({1, 2}))},
                .vocabulary_size = 2,
                .directory = directory},
               "g.bin: token 1 is 2, and the model has those below 2 alone");
  on_all_ranks({.files = {folder.write("g.txt", "x")}, .directory = Path(bad) / "sub"},
               "cannot make the directory");
}

}  // namespace ddp
