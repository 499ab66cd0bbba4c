// What the scripts do is tested by the shells themselves: tests/scripts/completion_test.py.
#include "launcher/completion.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "launcher/options.h"

using namespace ddprun;

namespace {

const OptionRow& row_of(std::string_view name) {
  const auto rows = option_rows();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [name](const OptionRow& row) { return row.name == name; });
  REQUIRE(found != rows.end());
  return *found;
}

using Words = std::vector<std::string_view>;

}  // namespace

TEST_CASE("every shell's completion names every option, and no marker is left in it",
          "[launcher]") {
  for (const std::string_view shell : completed_words(row_of("print-completion"))) {
    INFO(shell);
    const std::string script = completion_script(shell);
    CHECK(script.find(std::string("--print-completion ") + std::string(shell)) !=
          std::string::npos);
    CHECK(script.find("@V") == std::string::npos);
    CHECK(script.find("@FLAG") == std::string::npos);
    CHECK(script.back() == '\n');
    for (const OptionRow& row : option_rows()) {
      INFO(row.name);
      const std::string name = (shell == "fish" ? " -l " : "--") + std::string(row.name);
      CHECK(script.find(name) != std::string::npos);
    }
  }
}

TEST_CASE("a value is completed with its choices, or the plain words of its name", "[launcher]") {
  CHECK(completed_words(row_of("start-method")) == Words{"spawn", "fork", "forkserver"});
  CHECK(completed_words(row_of("scale-up")) == Words{"now", "at-snapshot", "never"});
  CHECK(completed_words(row_of("nproc-per-node")) == Words{"cpu", "gpu", "auto"});
  CHECK(completed_words(row_of("rdzv-backend")) == Words{"c10d", "static"});
  CHECK(completed_words(row_of("nnodes")).empty());
  CHECK(completed_words(row_of("deadline")).empty());
  CHECK(completed_words(row_of("standalone")).empty());
  CHECK(takes_file(row_of("event-log")));
  CHECK(takes_directory(row_of("log-dir")));
  CHECK_FALSE(takes_file(row_of("log-dir")));
}

TEST_CASE("a summary is the first sentence of the help", "[launcher]") {
  CHECK(summary_of(row_of("nnodes")) == "Number of nodes");
  CHECK(summary_of(row_of("version")) == "Show the version");
  for (const OptionRow& row : option_rows()) {
    CHECK(summary_of(row).find('\n') == std::string_view::npos);
  }
}

TEST_CASE("every marker is replaced, also at the ends and by nothing", "[launcher]") {
  CHECK(with_replaced("@a@ b @a@", "@a@", "x") == "x b x");
  CHECK(with_replaced("@a@@a@", "@a@", "") == "");
  CHECK(with_replaced("b", "@a@", "x") == "b");
  CHECK(with_replaced("@a@", "@a@", "@a@") == "@a@");
}

TEST_CASE("no flag's name begins with the whole name of an option with a value", "[launcher]") {
  // bash_completion.cc tells a shortened flag from an option with a value by that.
  for (const OptionRow& valued : option_rows()) {
    for (const OptionRow& flag : option_rows()) {
      INFO(valued.name << " and " << flag.name);
      CHECK((is_flag(valued) || !is_flag(flag) || !flag.name.starts_with(valued.name)));
    }
  }
}
