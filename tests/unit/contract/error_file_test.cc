#include "rendezvous/contract/error_file.h"
#include "rendezvous/contract/python_json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

ErrorRecord parse(std::string_view text) {
  const auto record = parse_error_record(text);
  INFO(text);
  REQUIRE(record.has_value());
  return *record;
}

std::string refusal(std::string_view text) {
  const auto record = parse_error_record(text);
  INFO(text);
  REQUIRE(record.has_error());
  return record.error().what;
}

std::chrono::sys_time<std::chrono::microseconds> at(std::chrono::microseconds time) {
  return std::chrono::sys_time<std::chrono::microseconds>(time);
}

}  // namespace

TEST_CASE("A record is written as torchrun reads it") {
  ErrorRecord record;
  record.message = "ValueError: no";
  record.callstack = "Traceback\n  line";
  record.time = at(1'700'000'000'123'456us);
  const auto json = nlohmann::json::parse(to_json(record));
  CHECK(json["message"]["message"] == "ValueError: no");
  CHECK(json["message"]["extraInfo"]["py_callstack"] == "Traceback\n  line");
  CHECK(json["message"]["extraInfo"]["timestamp"] == "1700000000");
  CHECK_FALSE(json["message"].contains("errorCode"));
  CHECK(to_json(record).find('\n') == std::string::npos);
}

TEST_CASE("A record of ours reads back whole") {
  ErrorRecord record;
  record.message = "m";
  record.callstack = "c";
  record.time = at(1'700'000'000'123'456us);
  record.error_code = -9;
  record.peer_lost = true;
  const ErrorRecord back = parse(to_json(record));
  CHECK(back.message == "m");
  CHECK(back.callstack == "c");
  CHECK(back.time == record.time);
  CHECK(back.error_code == -9);
  CHECK(back.peer_lost);
}

TEST_CASE("Both of torchrun's forms are read") {
  const ErrorRecord nested = parse(
      R"({"message": {"message": "E: x", "extraInfo": {"py_callstack": "tb", "timestamp": "7"}}})");
  CHECK(nested.message == "E: x");
  CHECK(nested.callstack == "tb");
  CHECK(nested.time == at(7s));
  CHECK_FALSE(nested.peer_lost);
  const ErrorRecord plain = parse(R"({"message": "text", "timestamp": 17})");
  CHECK(plain.message == "text");
  CHECK(plain.time == at(17s));
}

TEST_CASE("What cannot be read is told") {
  CHECK(refusal("") == "the error file is not readable (not JSON)");
  CHECK(refusal("{\"message\": ") == "the error file is not readable (not JSON)");
  CHECK(refusal("[]") == "the error file is not readable (no field 'message')");
  CHECK(refusal("{}") == "the error file is not readable (no field 'message')");
  CHECK(refusal(R"({"message": 3})") == "the error file is not readable (no text in 'message')");
  CHECK(refusal(R"({"message": {}})") == "the error file is not readable (no text in 'message')");
}

TEST_CASE("A record may say that another attempt is of no use") {
  ErrorRecord record;
  record.message = "no such data";
  CHECK_FALSE(parse_error_record(to_json(record))->do_not_retry);
  record.do_not_retry = true;
  CHECK(parse_error_record(to_json(record))->do_not_retry);
  // By hand, beside what torchrun's @record writes.
  CHECK(parse_error_record(R"({"message": {"message": "x", "extraInfo": {"retry": false}}})")
            ->do_not_retry);
  CHECK_FALSE(parse_error_record(R"({"message": {"message": "x", "extraInfo": {"retry": 0}}})")
                  ->do_not_retry);
}

TEST_CASE("A record without a text still says whether to try again") {
  const ErrorRecord record =
      parse(R"({"message": {"message": null, "extraInfo": {"retry": false, "timestamp": "7"}}})");
  CHECK(record.message.empty());
  CHECK(record.do_not_retry);
  CHECK(record.time == at(7s));
}

TEST_CASE("Fields of other types than expected are passed over") {
  const ErrorRecord record =
      parse(R"({"message": {"message": "m", "extraInfo": 3, "errorCode": "x", "ddprun": [1]}})");
  CHECK(record.message == "m");
  CHECK_FALSE(record.error_code);
}

TEST_CASE("A time beyond all sense is none") {
  for (const std::string time :
       {"1e300", "-1e300", "-5", "\"nan\"", "\"inf\"", "null", "[]", "9393999999"}) {
    CHECK(parse(R"({"message": "m", "timestamp": )" + time + "}").time == at(0us));
  }
  for (const std::string us : {"9393999999000000", "-1"}) {
    CHECK(parse(R"({"message": {"message": "m", "ddprun": {"time_us": )" + us + "}}}").time ==
          at(0us));
  }
}

TEST_CASE("Bytes that are no UTF-8 do not lose the record") {
  ErrorRecord record;
  record.message = "bad \xff byte";
  CHECK(parse(to_json(record)).message.starts_with("bad "));
}

TEST_CASE("What Python writes beyond JSON loses no record") {
  // By json.dump: a file name that is no UTF-8, and numbers that JSON has not.
  const std::string text =
      R"({"message": {"message": "cannot read x\udcff \ud83d\ude00 \ud83d\\", "errorCode": 3, )"
      R"("extraInfo": {"py_callstack": "in \"NaN\"", "loss": NaN, "rate": -Infinity, )"
      R"("timestamp": "12", "retry": false}}})";
  const auto record = parse_error_record(text);
  REQUIRE(record.has_value());
  CHECK(record->message == "cannot read x\xef\xbf\xbd \xf0\x9f\x98\x80 \xef\xbf\xbd\\");
  CHECK(record->callstack == "in \"NaN\"");
  CHECK(record->error_code == 3);
  CHECK(record->do_not_retry);
  CHECK(with_error_code(text, 7).has_value());
  CHECK(strict_json(R"(["\ud83d\ude00", "\u00e9", "\ude00", [Infinity, "Infinity"]])") ==
        R"(["\ud83d\ude00", "\u00e9", "\ufffd", [null, "Infinity"]])");
  for (const char* wrong : {"{\"message\": NaN", "{\"message\": \"\\ud8", "{\"message\": \"\\",
                            "[-Infinit]", "\"\\u12g4\""}) {
    CHECK_FALSE(parse_error_record(wrong).has_value());
  }
}

TEST_CASE("Numbers that no double holds, and deep nesting, lose no record") {
  const auto with = [](const std::string& seed) {
    return R"({"message": {"message": "lost", "extraInfo": {"retry": false, "seed": )" + seed +
           "}}}";
  };
  const auto nested = [](std::size_t depth, const char* open, const char* close) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) {
      text += open;
    }
    text += "1";
    for (std::size_t i = 0; i < depth; ++i) {
      text += close;
    }
    return text;
  };
  for (const std::string& seed :
       {std::string("1") + std::string(400, '0'), std::string("-1e400"), std::string("1e-400"),
        nested(300'000, "[", "]"), nested(300'000, "{\"a\":", "}"), nested(200, "[", ", \"]\"]")}) {
    const auto record = parse_error_record(with(seed));
    REQUIRE(record.has_value());
    CHECK(record->message == "lost");
    CHECK(record->do_not_retry);
    CHECK(with_error_code(with(seed), 3).has_value());
  }
  CHECK_FALSE(parse_error_record(with(std::string(4'000'000, '['))).has_value());
  CHECK(strict_json("[1e308, 1e309, -12, 1.5]") == "[1e308, null, -12, 1.5]");
  const std::string deepest = nested(kJsonDepthMax, "[", "]");
  CHECK(strict_json(deepest) == deepest);
  CHECK(strict_json("[" + deepest + ", 2]") ==
        "[" + nested(kJsonDepthMax - 1, "[", "]").replace(kJsonDepthMax - 1, 1, "null") + ", 2]");
}

TEST_CASE("The error code is added inside the outer message, and nothing else changes") {
  const std::string text = R"({"message":{"message":"m","extraInfo":{"timestamp":"1"}}})";
  const auto with = with_error_code(text, -11);
  REQUIRE(with.has_value());
  auto json = nlohmann::json::parse(*with);
  CHECK(json["message"]["errorCode"] == -11);
  json["message"].erase("errorCode");
  CHECK(json == nlohmann::json::parse(text));
  CHECK(*with_error_code(R"({"message": "plain"})", 1) == R"({"message": "plain"})");
  CHECK(with_error_code("{", 1).has_error());
}
