#include "agent/host/compared_options.h"

#include <catch2/catch.hpp>
#include <iterator>

#include "agent/host/compared_variables.h"
#include "rendezvous/membership/environment_table.h"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("Options that the coordinator goes by are facts that all nodes tell") {
  JobSpec spec;
  const NodeEnvironment facts = compared_options(spec);
  REQUIRE(facts.size() == std::size(kOptionFacts));
  for (std::size_t i = 0; i < facts.size(); ++i) {
    CHECK(facts[i].name == kOptionFacts[i]);
    CHECK_FALSE(facts[i].value.empty());
    CHECK(names_a_fact(facts[i].name));
  }
}

TEST_CASE("Nodes whose options differ are told so in the table of differences") {
  const NodeEnvironment usual = compared_options(JobSpec{});
  JobSpec other;
  other.heartbeat_timeout = 30s;
  other.scale_up = ScaleUp::never;
  other.restarts.on_fault = {{FaultClass::oom, 0, FaultAction::fail, "oom=fail"},
                             {FaultClass::exit_code, 3, FaultAction::free, "exit:3=free"}};
  other.restarts.window = RestartWindow{3, 1h};
  other.restarts.no_progress_max = 0;
  CHECK(environment_table({{{"n1", "n2"}, usual}, {{"n3"}, compared_options(other)}}) ==
        std::vector<std::string>{"  what                 value                 nodes",
                                 "  --heartbeat-timeout  3 s                   n1, n2",
                                 "                       30 s                  n3",
                                 "  --on                 <none>                n1, n2",
                                 "                       oom=fail,exit:3=free  n3",
                                 "  --restart-window     <none>                n1, n2",
                                 "                       3/3600 s              n3",
                                 "  --no-progress-limit  3                     n1, n2",
                                 "                       0                     n3",
                                 "  --scale-up           at-snapshot           n1, n2",
                                 "                       never                 n3"});
}

TEST_CASE("An option that is ignored is not compared") {
  JobSpec spec;
  spec.same_env_ignore = {"--heartbeat-timeout", "--no*"};
  const NodeEnvironment facts = compared_options(spec);
  CHECK(facts.size() == std::size(kOptionFacts) - 2);
  CHECK(facts.front().name == "--on");
}
