#include "tests/support/event_schema.h"

#include <regex>
#include <sstream>
#include <stdexcept>

namespace ddprun::test {
namespace {

constexpr const char* kInEveryLine[] = {"event", "time", "job_id", "term", "attempt"};

/// The cells of a row of a Markdown table, without the marks around names.
std::vector<std::string> cells(const std::string& row) {
  std::vector<std::string> found;
  std::istringstream in(row);
  std::string cell;
  std::getline(in, cell, '|');
  while (std::getline(in, cell, '|')) {
    found.push_back(std::regex_replace(cell, std::regex("^[ `]+|[ `]+$"), ""));
  }
  return found;
}

std::set<std::string> split(const std::string& list) {
  std::set<std::string> found;
  std::istringstream in(list);
  for (std::string one; std::getline(in >> std::ws, one, ',');) {
    found.insert(one);
  }
  return found;
}

bool fits(const nlohmann::json& value, std::string type) {
  if (type.ends_with('?')) {
    if (value.is_null()) {
      return true;
    }
    type.pop_back();
  }
  return type == "integer" ? value.is_number_integer() : type == value.type_name();
}

}  // namespace

EventSchema::EventSchema(const std::string& page) {
  std::istringstream in(page);
  std::string section;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) {
      section = line.substr(3);
    } else if (line.starts_with("| ") && !line.starts_with("| ---")) {
      const auto row = cells(line);
      if (section == "Events" && row.at(0) != "event") {
        events_[row.at(0)] = split(row.at(2));
      } else if (section == "Fields" && row.at(0) != "field") {
        types_[row.at(0)] = row.at(1);
      }
    }
  }
  for (const auto& [event, fields] : events_) {
    for (const std::string& field : fields) {
      if (!types_.contains(field)) {
        throw std::runtime_error("events.md does not say what the field " + field + " is");
      }
    }
  }
  if (events_.empty()) {
    throw std::runtime_error("events.md has no table of events");
  }
}

std::vector<std::string> EventSchema::faults(const std::string& line) const {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("event") || !object["event"].is_string()) {
    return {"not an object with an event: " + line};
  }
  const auto event = events_.find(object["event"].get<std::string>());
  if (event == events_.end()) {
    return {"events.md does not know the event of " + line};
  }
  std::set<std::string> owed = event->second;
  owed.insert(std::begin(kInEveryLine), std::end(kInEveryLine));
  std::vector<std::string> faults;
  for (const auto& [field, value] : object.items()) {
    if (owed.erase(field) == 0) {
      faults.push_back(event->first + " has the field " + field +
                       ", which events.md does not name");
    } else if (!fits(value, types_.at(field))) {
      faults.push_back(event->first + ": " + field + " is " + value.dump() + " and not " +
                       types_.at(field));
    }
  }
  for (const std::string& field : owed) {
    faults.push_back(event->first + " lacks the field " + field);
  }
  const std::regex time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
  if (object.contains("time") && object["time"].is_string() &&
      !std::regex_match(object["time"].get<std::string>(), time)) {
    faults.push_back("the time of " + event->first + " is " + object["time"].dump());
  }
  return faults;
}

std::set<std::string> EventSchema::events() const {
  std::set<std::string> names;
  for (const auto& [event, fields] : events_) {
    names.insert(event);
  }
  return names;
}

std::vector<nlohmann::json> parsed_lines(const std::string& text) {
  std::vector<nlohmann::json> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (auto object = nlohmann::json::parse(line, nullptr, false); !object.is_discarded()) {
      found.push_back(std::move(object));
    }
  }
  return found;
}

}  // namespace ddprun::test
