// Command lines and environments for the launcher's tests, written as a user writes them.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "launcher/exit_status.h"
#include "launcher/options.h"

namespace ddprun::test {

using Variables = std::map<std::string, std::string>;

inline Environment environment_of(const Variables& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

inline std::variant<Options, UsageError> parse_words(const std::vector<std::string>& words,
                                                     const Variables& variables = {}) {
  std::vector<const char*> pointers;
  pointers.reserve(words.size());
  for (const std::string& word : words) {
    pointers.push_back(word.c_str());
  }
  return parse_command_line(pointers, environment_of(variables));
}

/// Splits at blanks; no quoting.
inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    words.push_back(word);
  }
  return words;
}

inline std::variant<Options, UsageError> parse(const std::string& line,
                                               const Variables& variables = {}) {
  return parse_words(words_of(line), variables);
}

}  // namespace ddprun::test
