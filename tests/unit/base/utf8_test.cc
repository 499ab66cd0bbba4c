#include "rendezvous/base/utf8.h"

#include <catch2/catch.hpp>
#include <string>

namespace ddprun {

TEST_CASE("every code point is well-formed in its one shortest form", "[text]") {
  std::size_t count = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) {
      continue;
    }
    std::string text;
    append_utf8(text, c);
    const bool right = utf8_sequence_length(text) == text.size() &&
                       utf8_prefix_length(text) == text.size() && first_code_point(text) == c &&
                       malformed_prefix_length(text) == 0;
    if (!right) {
      FAIL("code point " << static_cast<unsigned>(c));
    }
    ++count;
  }
  CHECK(count == 0x110000 - 0x800);
}

TEST_CASE("longer forms, surrogates, what is beyond Unicode and cut sequences are malformed",
          "[text]") {
  for (const std::string text :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xE0\xA0", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xFE",
        "\xE2\x82", "\xF0\x9F\x98", "\xC3\x41", "\xE2\x82\x41"}) {
    INFO(text);
    CHECK(utf8_sequence_length(text) == 0);
    CHECK(utf8_prefix_length("abcdefghij" + text) == 10);
  }
  CHECK(utf8_sequence_length("") == 0);
  CHECK(malformed_prefix_length("\xE2\x82\xFF\u00e9") == 3);
  CHECK(malformed_prefix_length("\xFF\xFF") == 2);
  CHECK(malformed_prefix_length("") == 0);
  CHECK(utf8_prefix("a\u00e9b", 2) == "a");
  CHECK(utf8_prefix("a\u00e9b", 3) == "a\u00e9");
  CHECK(utf8_prefix("a\u00e9b", 9) == "a\u00e9b");
  CHECK(utf8_prefix("a\xFF", 9) == "a");
}

TEST_CASE(
    "exactly the sequences that decode to themselves are well-formed, of all of up to two bytes",
    "[text]") {
  int well_formed = 0;
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      well_formed += utf8_prefix_length(text) == 2 ? 1 : 0;
    }
  }
  CHECK(well_formed == 128 * 128 + (0x800 - 0x80));
}

}  // namespace ddprun
