#include "agent/output/output_tail.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

using ddprun::OutputTail;
using ddprun::shown_tail;

namespace {

constexpr std::size_t kTailMax = 4096;

/// All of `text` in pieces of at most `piece` bytes.
std::string tail_of(std::string_view text, std::size_t piece, std::size_t bytes_max = kTailMax) {
  OutputTail tail(bytes_max);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    tail.append(text.substr(at, piece));
  }
  return tail.text();
}

}  // namespace

TEST_CASE("a tail shows what a terminal would", "[agent]") {
  using namespace std::string_view_literals;
  struct Row {
    std::string_view written;
    std::string_view shown;
  };
  const std::vector<Row> rows = {
      {"", ""},
      {"\n", "\n"},
      {"plain\n\nno end", "plain\n\nno end"},
      {"tab\there, \xc3\xa4\xff\n", "tab\there, \xc3\xa4\xff\n"},
      {"\x1b[1;31mred\x1b[0m \x1b[38;5;200mpink\x1b[K\n", "red pink\n"},
      {"\x1b]0;title\aone\x1b]8;;http://x\x1b\\two\n", "onetwo\n"},
      {"\x1b(Bset\x1b=keypad\x1bM\n", "setkeypad\n"},
      {"cut \x1b[3", "cut "},
      {"cut \x1b", "cut "},
      {"cut \x1b]0;ti\nnext\n", "cut \nnext\n"},
      {" 5%\r50%\r100%\n", "100%\n"},
      {"dos\r\nline\r\n", "dos\nline\n"},
      {"bar at the end\r", "bar at the end"},
      {"gone\r     \rError: x", "Error: x"},
      {"12%\b\b\b34%\xc3\xa4\b!\n", "34%!\n"},
      {"\b\b\bstart\n", "start\n"},
      {"nul \0 bell \a del \x7f.\n"sv, "nul  bell  del .\n"},
  };
  for (const Row& row : rows) {
    INFO(row.shown);
    CHECK(shown_tail(row.written, kTailMax) == row.shown);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
      CHECK(tail_of(row.written, piece) == row.shown);
    }
  }
}

TEST_CASE("a progress bar does not push out the lines before it", "[agent]") {
  std::string text = "Error: the reason\n";
  for (int i = 0; i <= 50'000; ++i) {
    text += "\r\x1b[32m" + std::to_string(i) + " of 50000\x1b[0m " + std::string(40, '#');
  }
  const std::string expected = "Error: the reason\n50000 of 50000 " + std::string(40, '#');
  for (const std::size_t piece : {std::size_t{61}, std::size_t{4096}, std::size_t{30'000}}) {
    CHECK(tail_of(text, piece) == expected);
    CHECK(tail_of(text + "\n", piece) == expected + "\n");
  }
}

TEST_CASE("a tail is bounded and made of whole lines", "[agent]") {
  std::string text;
  for (int i = 0; text.size() < 100 * kTailMax; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  for (const std::size_t piece : {std::size_t{7}, std::size_t{65'536}, text.size()}) {
    const std::string tail = tail_of(text, piece);
    CHECK(tail.size() <= kTailMax);
    CHECK(tail.size() > kTailMax - 16);
    CHECK(tail.find("line ") == 0);
    CHECK(text.ends_with(tail));
  }
  CHECK(shown_tail("ab\ncd\n", 3) == "cd\n");
  CHECK(shown_tail("ab\ncd\n", 6) == "ab\ncd\n");
  CHECK(shown_tail("ab\ncd\n", 5) == "cd\n");
}

TEST_CASE("one endless line keeps its end", "[agent]") {
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{65'536}}) {
    const std::string tail = tail_of(std::string(1'000'000, 'x') + "end", piece);
    CHECK(tail.size() <= kTailMax);
    CHECK(tail.ends_with("xend"));
  }
}
