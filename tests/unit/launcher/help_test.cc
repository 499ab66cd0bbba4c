#include "launcher/help.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "launcher/option_table.h"

using namespace ddprun;

TEST_CASE("the help names every option with its value and its default", "[launcher]") {
  const std::string text = help_text();
  for (const OptionRow& row : option_rows()) {
    std::string name = "--" + std::string(row.name);
    if (!row.value_name.empty()) {
      name += " " + std::string(row.value_name);
    }
    INFO(name);
    CHECK(text.find(name) != std::string::npos);
    if (row.letter != 0) {
      CHECK(text.find("-" + std::string(1, row.letter) + ", --" + std::string(row.name)) !=
            std::string::npos);
    }
  }
  CHECK(text.find("[1:1]") != std::string::npos);
  CHECK(text.find("[0.1]") != std::string::npos);
}

TEST_CASE("the help fits into 100 columns and ends with one newline", "[launcher]") {
  const std::string text = help_text();
  REQUIRE_FALSE(text.empty());
  CHECK(text.back() == '\n');
  CHECK(text.substr(text.size() - 2) != "\n\n");
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    INFO(line);
    CHECK(line.size() <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
  CHECK(count > 40);
}

TEST_CASE("the help shows the groups in the order of the table", "[launcher]") {
  const std::string text = help_text();
  std::size_t last = 0;
  for (const char* title :
       {"Usage: ddprun", "The job:", "Where the nodes meet:", "What to run:",
        "The workers' output:", "Ending the job:", "Accepted for compatibility with torchrun:"}) {
    INFO(title);
    const auto at = text.find(title);
    REQUIRE(at != std::string::npos);
    CHECK(at >= last);
    last = at;
  }
}
