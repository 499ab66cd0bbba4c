// What the scripts do is tested by the shells themselves: tests/scripts/completion_test.py.
#include "launcher/completion.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "launcher/options.h"

using namespace ddprun;

namespace {

const OptionRow& option_named(std::string_view name) {
  const auto rows = option_rows();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [name](const OptionRow& row) { return row.name == name; });
  REQUIRE(found != rows.end());
  return *found;
}

using Offered = std::vector<std::string_view>;

}  // namespace

TEST_CASE("every shell's completion names every option, and no marker is left in it",
          "[launcher]") {
  for (const std::string_view shell : completed_words(option_named("print-completion"))) {
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
  CHECK(completed_words(option_named("start-method")) == Offered{"spawn", "fork", "forkserver"});
  CHECK(completed_words(option_named("scale-up")) == Offered{"now", "at-snapshot", "never"});
  CHECK(completed_words(option_named("nproc-per-node")) == Offered{"cpu", "gpu", "auto"});
  CHECK(completed_words(option_named("rdzv-backend")) ==
        Offered{"c10d", "static", "etcd", "kubernetes"});
  CHECK(completed_words(option_named("nnodes")).empty());
  CHECK(completed_words(option_named("deadline")).empty());
  CHECK(completed_words(option_named("standalone")).empty());
  CHECK(takes_file(option_named("event-log")));
  CHECK(takes_directory(option_named("log-dir")));
  CHECK_FALSE(takes_file(option_named("log-dir")));
}

TEST_CASE("a summary is the first sentence of the help", "[launcher]") {
  CHECK(summary_of(option_named("nnodes")) == "Number of nodes");
  CHECK(summary_of(option_named("version")) == "Show the version");
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
