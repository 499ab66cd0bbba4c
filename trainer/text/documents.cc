#include "trainer/text/documents.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ddp/error.h"
#include "trainer/text/json_reason.h"

namespace ddp {
namespace {

using nlohmann::json;
using Take = std::function<void(std::string_view)>;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(where + ": " + what);
}

const std::string& text_field(const json& record, const std::string& where, const char* name) {
  const auto found = record.find(name);
  if (found == record.end()) {
    fail(where, std::string("the field '") + name + "' is missing");
  }
  if (!found->is_string()) {
    fail(where, std::string("the field '") + name + "' must be a text, but is of the type " +
                    found->type_name());
  }
  return found->get_ref<const std::string&>();
}

/// `where` names the record in the errors.
std::string document_of(const json& record, const std::string& where) {
  if (!record.is_object()) {
    fail(where, std::string("must be an object, but is of the type ") + record.type_name());
  }
  if (!record.contains("instruction")) {
    if (!record.contains("text")) {
      fail(where, "has neither the field 'instruction' nor the field 'text'");
    }
    return text_field(record, where, "text");
  }
  const auto& instruction = text_field(record, where, "instruction");
  const auto& output = text_field(record, where, "output");
  // Data frames write null for a text that is not there.
  const auto found = record.find("input");
  const bool has_input = found != record.end() && !found->is_null();
  const auto input = has_input ? text_field(record, where, "input") : "";
  return alpaca_prompt(instruction, input) + output;
}

/// The parser shows each value as soon as it is complete, and drops it again: an array of any
/// length takes the memory of one record.
void take_array(std::string_view text, const Take& take) {
  std::size_t count = 0;
  const auto event = [&](int depth, json::parse_event_t what, json& value) {
    if (depth == 0 &&
        (what == json::parse_event_t::object_start || what == json::parse_event_t::value)) {
      throw Error("must be an array of records; of one record a line the name ends with .jsonl");
    }
    if (depth != 1) {
      return true;
    }
    if (what == json::parse_event_t::array_start) {
      fail("record " + std::to_string(count + 1), "must be an object, but is of the type array");
    }
    if (what != json::parse_event_t::object_end && what != json::parse_event_t::value) {
      return true;
    }
    ++count;
    take(document_of(value, "record " + std::to_string(count)));
    return false;
  };
  try {
    [[maybe_unused]] const json nothing_left = json::parse(text, event);
  } catch (const json::exception& problem) {
    throw Error(fmt::format("is no valid JSON after {} records: {}", count, json_reason(problem)));
  }
}

void take_lines(std::string_view text, const Take& take) {
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    const std::string where = "line " + std::to_string(number);
    json record;
    try {
      record = json::parse(line);
    } catch (const json::exception& problem) {
      fail(where, "is no valid JSON: " + json_reason(problem));
    }
    take(document_of(record, where));
  }
}

}  // namespace

std::string ending_of(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return ending;
}

TextForm text_form(const std::filesystem::path& path) {
  const auto ending = ending_of(path);
  return ending == ".json"                           ? TextForm::json
         : ending == ".jsonl" || ending == ".ndjson" ? TextForm::json_lines
                                                     : TextForm::plain;
}

std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
  // Word for word: models that were tuned on this form know it by its words.
  std::string text = "Below is an instruction that describes a task";
  text += input.empty() ? ". " : ", paired with an input that provides further context. ";
  text += "Write a response that appropriately completes the request.\n\n### Instruction:\n";
  text += instruction;
  if (!input.empty()) {
    text += "\n\n### Input:\n";
    text += input;
  }
  text += "\n\n### Response:\n";
  return text;
}

void for_each_document(TextForm form, std::string_view text, const Take& take) {
  switch (form) {
    case TextForm::plain:
      if (!text.empty()) {
        take(text);
      }
      break;
    case TextForm::json:
      take_array(text, take);
      break;
    case TextForm::json_lines:
      take_lines(text, take);
      break;
  }
}

}  // namespace ddp
