#include "rendezvous/contract/error_file.h"

#include <nlohmann/json.hpp>

#include "rendezvous/base/check.h"
#include "rendezvous/contract/python_json.h"

namespace ddprun {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

/// Invalid UTF-8 in a message must not lose the record: it is replaced on output.
std::string dump(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  DDP_CHECK(!text.empty() && text.back() != '\n', "a record is one line, without an end of line");
  return text;
}

Error unreadable(const std::string& why) {
  return Error{"the error file is not readable (" + why + ")", {}, {}};
}

/// A worker's file is Python's more often than not, and may be anything. Discarded: it is no JSON
/// of Python's either.
json parse(std::string_view text) {
  return json::parse(strict_json(text), nullptr, false);
}

/// The year 2255: in nanoseconds, as clocks count, an int64 still holds it.
constexpr std::int64_t kSecondsMax = 9'000'000'000;

/// Torchrun writes whole seconds, as a string; accept a number and a fraction as well. What is no
/// time of this age of the world is none at all: it must not overflow, nor order the records.
std::chrono::sys_time<microseconds> parse_time(const json& value) {
  double seconds = 0;
  if (value.is_number()) {
    seconds = value.get<double>();
  } else if (value.is_string()) {
    seconds = std::strtod(value.get_ref<const std::string&>().c_str(), nullptr);
  }
  if (!(seconds >= 0 && seconds <= static_cast<double>(kSecondsMax))) {
    seconds = 0;
  }
  DDP_CHECK(seconds >= 0 && seconds <= static_cast<double>(kSecondsMax), "a time is in bounds");
  return std::chrono::sys_time<microseconds>(
      microseconds(static_cast<std::int64_t>(seconds * 1e6)));
}

/// Only the boolean counts: a file written by a user's own code may have anything there, and a
/// retry is the safe choice.
bool says_no_retry(const json& part) {
  DDP_CHECK(part.is_object(), "a field is looked up in an object");
  const auto retry = part.find("retry");
  return retry != part.end() && retry->is_boolean() && !retry->get<bool>();
}

}  // namespace

/// Torchrun's nested form (torch/distributed/elastic/multiprocessing/errors), so that its agent and
/// other readers of such files take it. What has no field there is in an object of our own, which
/// they pass over.
std::string to_json(const ErrorRecord& record) {
  const auto since_epoch = record.time.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
  json message = {
      {"message", record.message},
      {"extraInfo", {{"py_callstack", record.callstack}, {"timestamp", std::to_string(seconds)}}},
      {"ddprun", {{"time_us", since_epoch.count()}, {"peer_lost", record.peer_lost}}}};
  if (record.do_not_retry) {
    message["ddprun"]["retry"] = false;
  }
  if (record.error_code) {
    message["errorCode"] = *record.error_code;
  }
  DDP_CHECK(message["message"].is_string(), "torchrun takes a message that is a text");
  return dump(json{{"message", message}});
}

/// A worker wrote it as it died, perhaps by code of the user's. So every field is looked at before
/// it is used, and one of a wrong type is passed over rather than losing the message.
Result<ErrorRecord> parse_error_record(std::string_view text) {
  const json root = parse(text);
  if (root.is_discarded()) {
    return unreadable("not JSON");
  }
  if (!root.is_object() || !root.contains("message")) {
    return unreadable("no field 'message'");
  }
  const json& message = root["message"];
  ErrorRecord record;
  if (message.is_string()) {
    record.message = message.get<std::string>();
    record.time = parse_time(root.value("timestamp", json(0)));
    return record;
  }
  const bool has_text = message.is_object() && message.contains("message");
  if (!has_text || !(message["message"].is_string() || message["message"].is_null())) {
    return unreadable("no text in 'message'");
  }
  // Python's None: whoever wrote it had nothing to say, but perhaps whether to try again.
  record.message = message["message"].is_null() ? "" : message["message"].get<std::string>();
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    if (const auto stack = extra->find("py_callstack");
        stack != extra->end() && stack->is_string()) {
      record.callstack = stack->get<std::string>();
    }
    record.time = parse_time(extra->value("timestamp", json(0)));
    record.do_not_retry = says_no_retry(*extra);
  }
  if (const auto code = message.find("errorCode");
      code != message.end() && code->is_number_integer()) {
    record.error_code = code->get<int>();
  }
  if (const auto ours = message.find("ddprun"); ours != message.end() && ours->is_object()) {
    if (const auto lost = ours->find("peer_lost"); lost != ours->end() && lost->is_boolean()) {
      record.peer_lost = lost->get<bool>();
    }
    record.do_not_retry = record.do_not_retry || says_no_retry(*ours);
    if (const auto time = ours->find("time_us"); time != ours->end() && time->is_number_integer()) {
      const auto told = time->get<std::int64_t>();
      if (told >= 0 && told <= kSecondsMax * 1'000'000) {
        record.time = std::chrono::sys_time<microseconds>(microseconds(told));
      }
    }
  }
  DDP_CHECK(record.time.time_since_epoch().count() >= 0, "a time is of this age, or none");
  return record;
}

Result<std::string> with_error_code(std::string_view text, int error_code) {
  json root = parse(text);
  if (root.is_discarded()) {
    return unreadable("not JSON");
  }
  if (root.is_object() && root.contains("message") && root["message"].is_object()) {
    root["message"]["errorCode"] = error_code;
    return dump(root);
  }
  return std::string(text);
}

}  // namespace ddprun
