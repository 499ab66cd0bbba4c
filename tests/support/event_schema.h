// EventSchema: the tables of docs/events.md, and whether a line of an event log is as they say.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace ddprun::test {

class EventSchema {
 public:
  /// Throws when the page has no such tables.
  explicit EventSchema(const std::string& page);

  /// What is wrong with the line, each as a sentence; none: nothing.
  [[nodiscard]] std::vector<std::string> faults(const std::string& line) const;
  [[nodiscard]] std::set<std::string> events() const;

 private:
  std::map<std::string, std::string> types_;             ///< by field
  std::map<std::string, std::set<std::string>> events_;  ///< its own fields, by event
};

/// The lines of a whole log, parsed; what is not JSON is not among them.
std::vector<nlohmann::json> parsed_lines(const std::string& text);

}  // namespace ddprun::test
