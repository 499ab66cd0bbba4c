#include "launcher/hosts/agent_words.h"

#include <catch2/catch.hpp>

#include "launcher/option_table.h"
#include "tests/unit/launcher/launch_words.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

Options options(const std::string& line, const Variables& variables = {}) {
  return std::get<Options>(parse(line, variables));
}

}  // namespace

TEST_CASE("An agent gets what was given, by word or by variable, and nothing that starts hosts",
          "[launcher][hosts]") {
  CHECK(agent_words(options("--hosts a,b --fan-out 2 --max-restarts 3 p --standalone")) ==
        std::vector<std::string>{"--max-restarts=3"});
  CHECK(agent_words(options("--hosts a -m --nnodes 1:2 p", {{"PET_STANDALONE", "0"},
                                                            {"PET_JOIN_TIMEOUT", "0.1"},
                                                            {"PET_RDZV_CONF", "a=b,c=d"}})) ==
        std::vector<std::string>{"--rdzv-conf=a=b,c=d", "--join-timeout=0.1", "--module"});
}

TEST_CASE("Each option comes back from its word as it was", "[launcher][hosts]") {
  // One value for each kind of row.
  std::string line;
  for (const OptionRow& row : option_rows()) {
    if (row.group == OptionGroup::other || row.group == OptionGroup::hosts) {
      continue;
    }
    line += "--" + std::string(row.name) + " ";
    if (!is_flag(row)) {
      const bool is_number =
          !std::holds_alternative<std::string Options::*>(row.field) &&
          !std::holds_alternative<std::optional<std::string> Options::*>(row.field);
      line += row.choices.empty() ? (is_number ? "17" : "-x=y,z")
                                  : std::string(row.choices.substr(0, row.choices.find('|')));
      line = row.choices.empty() && !is_number
                 ? line.substr(0, line.rfind(' ')) + "=" + line.substr(line.rfind(' ') + 1)
                 : line;
      line += " ";
    }
  }
  const Options first = options(line + "p");
  std::string again;
  for (const std::string& word : agent_words(first)) {
    again += word + " ";
  }
  const Options second = options(again + "p");
  CHECK(agent_words(second) == agent_words(first));
  CHECK(second.on == first.on);
  CHECK(second.log_dir == "-x=y,z");
  CHECK(second.join_timeout_seconds == 17);
  CHECK(second.given.size() == first.given.size() - 4);  // those of kOwn
}
