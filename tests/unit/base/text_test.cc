#include "rendezvous/base/text.h"

#include <catch2/catch.hpp>
#include <cstdint>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a measured time has tenths below ten seconds, and whole seconds from there") {
  CHECK(seconds_text(0ns) == "0 s");
  CHECK(seconds_text(49ms) == "0 s");
  CHECK(seconds_text(50ms) == "0.1 s");
  CHECK(seconds_text(949ms) == "0.9 s");
  CHECK(seconds_text(951ms) == "1 s");
  CHECK(seconds_text(1s) == "1 s");
  CHECK(seconds_text(1'250ms) == "1.3 s");
  CHECK(seconds_text(9'949ms) == "9.9 s");
  CHECK(seconds_text(9'951ms) == "10 s");
  CHECK(seconds_text(10'400ms) == "10 s");
  CHECK(seconds_text(311'600ms) == "312 s");
}

TEST_CASE("a time that was chosen keeps its digits") {
  CHECK(exact_seconds_text(250ms) == "0.25 s");
  CHECK(exact_seconds_text(30s) == "30 s");
  CHECK(exact_seconds_text(1'800s) == "1800 s");
  CHECK(exact_seconds_text(1ms) == "0.001 s");
}

TEST_CASE("text is trimmed of every kind of white space, and of nothing in between") {
  CHECK(trimmed(" \t\r\n a b \n") == "a b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed("").empty());
  CHECK(trimmed(" \n ").empty());
}

TEST_CASE("no control character stays in printable text, and other letters do") {
  CHECK(printable("a\tb\x1b[2J\x7f") == "a?b?[2J?");
  CHECK(printable("a\xc2\x80"
                  "b\xc2\x9b"
                  "2J") == "a?b?2J");
  // U+00A0, U+00E4 and U+2014 have bytes of the same range, and so has a text that is cut.
  CHECK(printable("\xc2\xa0\xc3\xa4\xe2\x80\x94\xc2") == "\xc2\xa0\xc3\xa4\xe2\x80\x94\xc2");
  CHECK(printable("").empty());
}

TEST_CASE("words are what stands between any separators, however many they are") {
  using Words = std::vector<std::string_view>;
  CHECK(words_of("max 100000\n", " \n") == Words{"max", "100000"});
  CHECK(words_of(",,a,,b", ",") == Words{"a", "b"});
  CHECK(words_of("", " ").empty());
  CHECK(words_of("  ", " ").empty());
}

TEST_CASE("the parts of a list are counted even where they are empty") {
  using Parts = std::vector<std::string_view>;
  CHECK(parts_of("0, 1 ,2", ',') == Parts{"0", "1", "2"});
  CHECK(parts_of("", ',') == Parts{""});
  CHECK(parts_of("a,,b,", ',') == Parts{"a", "", "b", ""});
}

TEST_CASE("a number is all of its text, and within its type") {
  CHECK(parse_number<int>("12") == 12);
  CHECK(parse_number<int>("-1") == -1);
  CHECK(parse_number<std::uint16_t>("65535") == 65535);
  CHECK_FALSE(parse_number<std::uint16_t>("65536"));
  CHECK_FALSE(parse_number<std::uint16_t>("-1"));
  CHECK_FALSE(parse_number<int>("12 "));
  CHECK_FALSE(parse_number<int>("+1"));
  CHECK_FALSE(parse_number<int>(""));
  CHECK_FALSE(parse_number<int>("99999999999999999999"));
}

TEST_CASE("what is printable stays, and each control character is a question mark") {
  CHECK(printable("node1: \xc3\xa9 ~") == "node1: \xc3\xa9 ~");
  CHECK(printable("a\nb\tc\x1b[31m\x7f" + std::string(1, '\0')) == "a?b?c?[31m??");
  CHECK(printable("").empty());
}
