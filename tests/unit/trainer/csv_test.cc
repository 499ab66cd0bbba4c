#include "trainer/csv.h"

#include <catch2/catch.hpp>

#include "ddp/error.h"

namespace ddp {
namespace {

using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;
using Codes = std::vector<std::uint32_t>;

std::string refusal(std::string_view text) {
  try {
    parse_csv(text);
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("columns of numbers and of texts are told apart", "[csv]") {
  const auto table = parse_csv("a,kind,b\n1,x,-2.5e3\n+2,y, 4 \n.5,x,0x\n");
  CHECK(table.row_count == 3);
  REQUIRE(table.columns.size() == 3);
  CHECK(table.columns[0].name == "a");
  CHECK(table.columns[0].numeric());
  CHECK(table.columns[0].numbers == Numbers{1, 2, 0.5});
  CHECK_FALSE(table.columns[1].numeric());
  CHECK(table.columns[1].categories == Texts{"x", "y"});
  CHECK(table.columns[1].codes == Codes{0, 1, 0});
  CHECK(table.columns[2].categories == Texts{" 4 ", "-2.5e3", "0x"});
  CHECK(table.columns[2].first_text == "0x");
  CHECK(table.columns[2].first_text_line == 4);
}

TEST_CASE("quoted fields may hold commas, quotes and line breaks", "[csv]") {
  const auto table = parse_csv("\"a,1\",\"b \"\"q\"\"\"\n\"x\r\ny\",\"1\"\n\"\",\"\"\"\"\n");
  CHECK(table.columns[0].name == "a,1");
  CHECK(table.columns[1].name == "b \"q\"");
  CHECK(table.columns[0].categories == Texts{"", "x\r\ny"});
  CHECK(table.columns[1].categories == Texts{"\"", "1"});
}

TEST_CASE("a quoted number is a number", "[csv]") {
  CHECK(parse_csv("a\n\"7\"\n").columns[0].numbers == Numbers{7});
}

TEST_CASE("line ends of either kind, none at the end, blank lines and a byte order mark", "[csv]") {
  for (const auto* text :
       {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\n1,2\n3,4", "a,b\r\n1,2\r\n3,4\r",
        "\xEF\xBB\xBF\x61,b\n1,2\n3,4\n", "\n\na,b\n\n1,2\r\n\r\n3,4\n\n\n"}) {
    INFO(text);
    const auto table = parse_csv(text);
    CHECK(table.columns.at(0).name == "a");
    CHECK(table.columns[0].numbers == Numbers{1, 3});
    CHECK(table.columns.at(1).numbers == Numbers{2, 4});
  }
}

TEST_CASE("an empty field in a column of texts is a text", "[csv]") {
  const auto table = parse_csv("a,b\nx,1\n,2\n");
  CHECK(table.columns[0].categories == Texts{"", "x"});
  CHECK(table.columns[0].codes == Codes{1, 0});
}

TEST_CASE("each mistake is one sentence that names the line", "[csv]") {
  CHECK_THAT(refusal(""), Equals("has no header line"));
  CHECK_THAT(refusal("\n\n"), Equals("has no header line"));
  CHECK_THAT(refusal("a,b\n"), Equals("has a header line but no rows"));
  CHECK_THAT(refusal("a,b\n1,2\n3\n"), Equals("line 3: 1 field, the header has 2"));
  CHECK_THAT(refusal("a,b\n1,2,3\n"), Equals("line 2: 3 fields, the header has 2"));
  CHECK_THAT(refusal("a,b\n\"x\ny\",2\n1,2,\n"), Equals("line 4: 3 fields, the header has 2"));
  CHECK_THAT(refusal("a,a\n1,2\n"), Equals("line 1: two columns are named 'a'"));
  CHECK_THAT(refusal("a\n1\n\"open\n2\n"), Equals("line 3: a quote is opened and never closed"));
  CHECK_THAT(refusal("a\n\"x\"y\n"), Equals("line 2: text follows a closing quote"));
  CHECK_THAT(refusal("a,b\n1,2\n,4\n"), Equals("line 3: column 'a' is numeric, but empty here"));
  CHECK_THAT(refusal("a\n1\ninf\n"),
             Equals("line 3: column 'a' holds 'inf', which is not a finite number"));
  CHECK_THAT(refusal("a\n1\nnan\n"), StartsWith("line 3: column 'a' holds 'nan'"));
  CHECK_THAT(refusal("a\n1\n1e999\n"), StartsWith("line 3: column 'a' holds '1e999'"));
}

TEST_CASE("a number that is misspelt among thousands is found, not made a category", "[csv]") {
  std::string text = "a\n";
  for (int i = 0; i < 2000; ++i) {
    text += i == 1500 ? "1O\n" : std::to_string(i) + "\n";
  }
  CHECK_THAT(refusal(text), StartsWith("line 1502: column 'a' holds '1O', which is not a number"));
}

TEST_CASE("the limit of texts in a column is exact", "[csv]") {
  const auto texts = [](std::size_t count) {
    std::string text = "a\n";
    for (std::size_t i = 0; i < count; ++i) {
      text += "t" + std::to_string(i) + "\n";
    }
    return text;
  };
  CHECK(parse_csv(texts(kCategoriesMax)).columns[0].categories.size() == kCategoriesMax);
  CHECK_THAT(refusal(texts(kCategoriesMax + 1)), StartsWith("line 2: column 'a' holds 't0'"));
}

TEST_CASE("no text, however odd, is more than refused", "[csv]") {
  const std::string alphabet = "a1,\"\n\r .";
  std::uint32_t state = 1;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525U + 1013904223U;
      text += alphabet[(state >> 24U) % alphabet.size()];
    }
    try {
      const auto table = parse_csv(text);
      for (const auto& column : table.columns) {
        REQUIRE((column.numeric() ? column.numbers.size() : column.codes.size()) ==
                table.row_count);
      }
    } catch (const Error&) {
    }
  }
}

}  // namespace ddp
