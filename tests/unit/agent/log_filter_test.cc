#include "agent/output/log_filter.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using ddprun::line_prefix;
using ddprun::LinePiece;
using ddprun::LogFilter;

namespace {

constexpr std::size_t kMax = LogFilter::kLineBytesMax;

struct Output {
  std::string shown;
  std::string filtered;
};

/// All of `text` in pieces of at most `piece` bytes, then the end.
Output run(const std::string& text, std::size_t piece, const std::vector<std::string>& filters = {},
           const std::string& prefix = "[p]:") {
  LogFilter filter(prefix, filters);
  Output out;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    filter.feed(std::string_view(text).substr(at, piece), out.shown, out.filtered);
  }
  filter.finish(out.shown, out.filtered);
  return out;
}

}  // namespace

TEST_CASE("the default prefix is role and local rank, without a space", "[agent]") {
  CHECK(line_prefix(nullptr, "default", "9", "1") == "[default1]:");
  CHECK(line_prefix(nullptr, "", "0", "0") == "[0]:");
}

TEST_CASE("a prefix template replaces the whole prefix", "[agent]") {
  const std::string all = "${role_name}/${rank}/${local_rank}> ";
  CHECK(line_prefix(&all, "trainer", "9", "1") == "trainer/9/1> ");
  const std::string other = "$rank ${host} ";
  CHECK(line_prefix(&other, "trainer", "9", "1") == "9 ${host} ");
  const std::string empty;
  CHECK(line_prefix(&empty, "trainer", "9", "1").empty());
  // A role that looks like a name is a value, not a template.
  const std::string role = "${role_name}:";
  CHECK(line_prefix(&role, "${rank}", "9", "1") == "${rank}:");
}

TEST_CASE("the prefix of a line of several workers names them all", "[agent]") {
  CHECK(line_prefix(nullptr, "default", "8-15", "0-7") == "[default0-7]:");
  const std::string both = "${rank}|${local_rank}: ";
  CHECK(line_prefix(&both, "default", "8-15", "0-7") == "8-15|0-7: ");
}

TEST_CASE("every line gets the prefix once, wherever the pieces are cut", "[agent]") {
  const std::string text = "one\n\ntwo\r\nthree";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    const Output out = run(text, piece);
    CHECK(out.shown == "[p]:one\n[p]:\n[p]:two\r\n[p]:three");
    CHECK(out.filtered.empty());
  }
}

TEST_CASE("nothing is shown of a line before its end", "[agent]") {
  LogFilter filter("[p]:", {});
  std::string shown;
  std::string filtered;
  filter.feed("half", shown, filtered);
  CHECK(shown.empty());
  filter.feed(" whole\nnext", shown, filtered);
  CHECK(shown == "[p]:half whole\n");
  filter.finish(shown, filtered);
  CHECK(shown == "[p]:half whole\n[p]:next");
  filter.finish(shown, filtered);
  CHECK(shown == "[p]:half whole\n[p]:next");
}

TEST_CASE("pieces tell where lines begin and end, also when one is passed on early", "[agent]") {
  LogFilter filter("[p]:", {"ha"});
  std::string pieces;
  std::string filtered;
  const auto note = [&](const LinePiece& piece) {
    pieces += piece.begins ? "<" : "";
    pieces += piece.text;
    pieces += piece.ends ? ">" : "|";
  };
  filter.feed("one\nha", note, filtered);
  CHECK(pieces == "<one\n>");
  CHECK(filter.unfinished() == "ha");
  CHECK_FALSE(filter.inside_line());
  filter.release(note, filtered);
  CHECK(pieces == "<one\n><ha|");
  CHECK(filter.unfinished().empty());
  CHECK(filter.inside_line());
  filter.release(note, filtered);  // nothing more to pass on
  filter.feed("lf\nend", note, filtered);
  filter.finish(note, filtered);
  CHECK(pieces == "<one\n><ha|lf\n><end|");
  CHECK(filtered == "[p]:half\n");
}

TEST_CASE("no output and no last line: nothing is shown", "[agent]") {
  CHECK(run("", 1).shown.empty());
  CHECK(run("line\n", 3).shown == "[p]:line\n");
}

TEST_CASE("lines with any of the filters' texts go to the filtered log too, prefixed", "[agent]") {
  const std::string text = "loss 1\nWARN a\nloss 2 WARN\nother\n[a.c]*\nlast loss";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, text.size()}) {
    const Output out = run(text, piece, {"loss", "[a.c]*"});
    CHECK(out.shown ==
          "[p]:loss 1\n[p]:WARN a\n[p]:loss 2 WARN\n[p]:other\n[p]:[a.c]*\n[p]:last loss");
    CHECK(out.filtered == "[p]:loss 1\n[p]:loss 2 WARN\n[p]:[a.c]*\n[p]:last loss");
  }
}

TEST_CASE("binary bytes pass unchanged", "[agent]") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<char>(i));
  }
  const std::string expected = "[p]:" + bytes.substr(0, 11) + "[p]:" + bytes.substr(11);
  CHECK(run(bytes, 1).shown == expected);
  CHECK(run(bytes, 256).shown == expected);
}

TEST_CASE("a line around the bound keeps one prefix and all its bytes", "[agent]") {
  for (const std::size_t size : {kMax - 2, kMax - 1, kMax, kMax + 1, 2 * kMax, 3 * kMax + 5}) {
    for (const std::size_t piece : {std::size_t{4096}, kMax, 8 * kMax}) {
      const std::string line(size, 'x');
      const Output out = run(line + "\nnext\n", piece, {"x"});
      INFO(size << " in pieces of " << piece);
      CHECK((out.shown == "[p]:" + line + "\n[p]:next\n"));
      CHECK((out.filtered == "[p]:" + line + "\n[p]:next\n"));
    }
  }
}

TEST_CASE("a long line matches filters by its first piece, and then wholly or not", "[agent]") {
  const std::string line = std::string(kMax, 'x') + "late";
  CHECK(run(line + "\n", 8 * kMax, {"late"}).filtered.empty());
  const Output early = run("early" + line + "\nno\n", 8 * kMax, {"early"});
  CHECK((early.filtered == "[p]:early" + line + "\n"));
}

TEST_CASE("an endless line is passed on instead of growing", "[agent]") {
  LogFilter filter("[p]:", {});
  const std::string piece(kMax / 2 + 1, 'x');
  std::size_t given = 0;
  std::string shown;
  std::string filtered;
  for (int i = 0; i < 64; ++i) {
    filter.feed(piece, shown, filtered);
    given += piece.size();
    CHECK(given + 4 - shown.size() < kMax + 4);
  }
}

TEST_CASE("any text in any pieces comes out the same as whole", "[agent]") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = static_cast<int>(random() % 300); i > 0; --i) {
      text.push_back("ab\n"[random() % 3]);
    }
    std::string expected;
    std::size_t begin = 0;
    while (begin < text.size()) {
      const auto end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      expected += "[p]:" + text.substr(begin, end - begin);
      begin = end;
    }
    CHECK(run(text, 1 + random() % 20).shown == expected);
  }
}
