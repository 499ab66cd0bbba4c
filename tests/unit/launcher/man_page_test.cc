// That troff itself has nothing against the page is tested in tests/scripts/man_page_test.py.
#include "launcher/man_page.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "launcher/exit_status.h"
#include "launcher/option_table.h"

using namespace ddprun;

TEST_CASE("the man page has every option with its value, and every section", "[launcher]") {
  const std::string page = man_page("1.2.3", "2026-01-02");
  CHECK(page.find(".TH DDPRUN 1 \"2026-01-02\" \"ddprun 1.2.3\"") != std::string::npos);
  for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT",
                              "EXIT STATUS", "FILES", "EXAMPLES", "SEE ALSO"}) {
    INFO(section);
    CHECK(page.find(std::string("\n.SH ") + section + "\n") != std::string::npos);
  }
  for (const OptionRow& row : option_rows()) {
    INFO(row.name);
    const std::string value = is_flag(row) ? "\n" : " \\fI" + troff_text(row.value_name) + "\\fR\n";
    CHECK(page.find("\\fB\\-\\-" + troff_text(row.name) + "\\fR" + value) != std::string::npos);
  }
  for (const int code : {kExitSuccess, kExitFailure, kExitUsage, kExitResume, kExitDisagreed}) {
    INFO(code);
    CHECK(page.find(".TP\n\\fB" + std::to_string(code) + "\\fR\n") != std::string::npos);
  }
}

TEST_CASE("what troff would read as a command stands as text", "[launcher]") {
  CHECK(troff_text("a-b") == "a\\-b");
  CHECK(troff_text(".py 'x' .z") == "\\&.py \\&\\(aqx\\(aq \\&.z");
  CHECK(troff_text("\\n") == "\\en");
  CHECK(troff_text("") == "");
}

TEST_CASE("no line of the man page is a command by accident", "[launcher]") {
  std::istringstream lines(man_page("1.2.3", "2026-01-02"));
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK_FALSE(line.empty());
    CHECK((line[0] != '.' || std::string(".\\\" .TH .SH .SS .TP .PP .RS .RE .EX .EE .B .BR .br")
                                     .find(line.substr(0, line.find(' '))) != std::string::npos));
    CHECK(line[0] != '\'');
  }
}
