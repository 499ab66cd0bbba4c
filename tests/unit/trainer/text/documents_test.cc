#include "trainer/text/documents.h"

#include <catch2/catch.hpp>
#include <vector>

#include "ddp/error.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using Documents = std::vector<std::string>;

Documents documents_of(TextForm form, std::string_view text) {
  Documents documents;
  for_each_document(form, text, [&](auto document) { documents.emplace_back(document); });
  return documents;
}

std::string refusal(TextForm form, std::string_view text) {
  try {
    documents_of(form, text);
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the form of a text is in its name", "[text]") {
  CHECK(text_form("a/b.json") == TextForm::json);
  CHECK(text_form("a.jsonl") == TextForm::json_lines);
  CHECK(text_form("a.ndjson") == TextForm::json_lines);
  CHECK(text_form("A.JSONL") == TextForm::json_lines);
  CHECK(text_form("a.txt") == TextForm::plain);
  CHECK(text_form("json") == TextForm::plain);
}

TEST_CASE("instructions are asked in the form of the Alpaca data set", "[text]") {
  CHECK(alpaca_prompt("Add.", "1 2") ==
        "Below is an instruction that describes a task, paired with an input that provides further "
        "context. Write a response that appropriately completes the request.\n\n"
        "### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n");
  CHECK(alpaca_prompt("Sing.", "") ==
        "Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\nSing.\n\n### Response:\n");
}

TEST_CASE("plain text is one document", "[text]") {
  CHECK(documents_of(TextForm::plain, "a\n\nb\n") == Documents{"a\n\nb\n"});
  CHECK(documents_of(TextForm::plain, "").empty());
}

TEST_CASE("a JSON array and JSON lines give a document for each record", "[text]") {
  const std::string first = R"({"instruction": "Add.", "input": "1 2", "output": "3"})";
  const std::string second =
      R"({"instruction": "Sing.", "input": "", "output": "la\n", "text": "?"})";
  const std::string third = R"({"text": "plain \u00e9", "other": [1, {"deep": [2]}]})";
  const std::string fourth = R"({"instruction": "Sing.", "output": "la\n"})";
  const Documents expected = {alpaca_prompt("Add.", "1 2") + "3",
                              alpaca_prompt("Sing.", "") + "la\n", "plain \u00e9",
                              alpaca_prompt("Sing.", "") + "la\n"};
  CHECK(documents_of(TextForm::json, "[" + first + ",\n" + second + "," + third + "," + fourth +
                                         "]\n") == expected);
  CHECK(documents_of(TextForm::json_lines,
                     first + "\n" + second + "\r\n\n \t\n" + third + "\n" + fourth) == expected);
  CHECK(documents_of(TextForm::json, "[]").empty());
  CHECK(documents_of(TextForm::json_lines, "\n\n").empty());
}

TEST_CASE("an input of null is none", "[text]") {
  CHECK(documents_of(TextForm::json_lines,
                     R"({"instruction": "Sing.", "input": null, "output": "la"})") ==
        Documents{alpaca_prompt("Sing.", "") + "la"});
}

TEST_CASE("a field that is missing or of another type is a sentence with line or record",
          "[text]") {
  const auto line = [](const std::string& record) {
    return refusal(TextForm::json_lines, "{\"text\":\"a\"}\n\n" + record);
  };
  CHECK_THAT(line(R"({"instruction":"a"})"), Equals("line 3: the field 'output' is missing"));
  CHECK_THAT(line(R"({"instruction":1,"output":"a"})"),
             Equals("line 3: the field 'instruction' must be a text, but is of the type number"));
  CHECK_THAT(line(R"({"instruction":"a","output":null})"),
             Equals("line 3: the field 'output' must be a text, but is of the type null"));
  CHECK_THAT(line(R"({"instruction":"a","output":"b","input":[]})"),
             Equals("line 3: the field 'input' must be a text, but is of the type array"));
  CHECK_THAT(line(R"({"text":{}})"),
             Equals("line 3: the field 'text' must be a text, but is of the type object"));
  CHECK_THAT(line("{}"),
             Equals("line 3: has neither the field 'instruction' nor the field 'text'"));
  CHECK_THAT(line("[]"), Equals("line 3: must be an object, but is of the type array"));
  CHECK_THAT(line("{\"text\":"), StartsWith("line 3: is no valid JSON: "));
  CHECK_THAT(line("{\"text\":\"\xFF\"}"),
             StartsWith("line 3: is no valid JSON: ") && EndsWith("last read: '\"<FF>'"));
  CHECK_THAT(line("{} x"), StartsWith("line 3: is no valid JSON: "));

  const auto record = [](const std::string& text) {
    return refusal(TextForm::json, "[{\"text\":\"a\"}," + text + "]");
  };
  CHECK_THAT(record(R"({"instruction":"a"})"), Equals("record 2: the field 'output' is missing"));
  CHECK_THAT(record("3"), Equals("record 2: must be an object, but is of the type number"));
  CHECK_THAT(record("[{}]"), Equals("record 2: must be an object, but is of the type array"));
  CHECK_THAT(record("{\"a\":}"), StartsWith("is no valid JSON after 1 records: "));
  CHECK_THAT(refusal(TextForm::json, ""), StartsWith("is no valid JSON"));
  CHECK_THAT(refusal(TextForm::json, "{\"text\":\"a\"}"), Contains("must be an array of records"));
  CHECK_THAT(refusal(TextForm::json, "7"), Contains("must be an array of records"));
  CHECK_THAT(refusal(TextForm::json, "[{\"text\":\"a\"}"), Contains("after 1 records"));
}

TEST_CASE("what is nested deeply is read or refused, and breaks nothing", "[text]") {
  const std::string deep(200000, '[');
  CHECK_THAT(refusal(TextForm::json_lines, "{\"a\":" + deep + "}"), Contains("no valid JSON"));
  const std::string closed = deep + std::string(deep.size(), ']');
  CHECK(documents_of(TextForm::json_lines, "{\"text\":\"b\",\"a\":" + closed + "}") ==
        Documents{"b"});
}

}  // namespace ddp
