// What users of other launchers complain about when nodes come and go, and when a restart is of no
// use. The tests bear the complaints' names; I-6 to I-8 are in failover_test.cc.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

void touch(const TempDir& dir, const std::string& name) {
  (void)dir.write(name, "");
}

}  // namespace

TEST_CASE("I-9: nodes that leave and come back spend no restart, whatever --max-restarts says") {
  const TempDir dir;
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--max-restarts", "0"},
                   .program = runs_until(dir.file("end"))});
  REQUIRE(cluster.start_in_order(2));
  for (int i = 0; i < 3; ++i) {
    if (!cluster.node(1).wait_for_out("world=2")) {
      FAIL(cluster.report());
    }
    cluster.start(1);  // kills the one that runs
  }
  REQUIRE(cluster.node(1).wait_for_out("world=2"));
  touch(dir, "end");
  const auto codes = cluster.exit_codes();
  INFO(cluster.report());
  CHECK(codes == std::vector<int>{0, 0});
  CHECK(cluster.said("job succeeded after 4 attempts"));
  CHECK(cluster.said("restarts used: 0 of 0"));
}

TEST_CASE(
    "I-21: a worker that says so in its error file, or by its exit code, is not started again") {
  const auto run = [&](std::vector<std::string> more, const std::string& script) {
    LoneAgent agent{.options = {"--standalone", "--max-restarts", "5"}, .program = shell(script)};
    agent.options.insert(agent.options.end(), more.begin(), more.end());
    auto child = start(agent);
    CHECK(child->exit_code() == 1);
    return child->err();
  };
  const std::string by_file = run({}, R"(echo '{"message": {"message": "no such data \udcff", )"
                                      R"("extraInfo": {"retry": false, "loss": NaN}}}' )"
                                      "> $TORCHELASTIC_ERROR_FILE; exit 3");
  INFO(by_file);
  CHECK(contains(by_file, "the worker asked not to be started again"));
  CHECK(contains(by_file, "job failed after 1 attempt"));
  const std::string by_code = run({"--on", "exit:7=fail"}, "exit 7");
  INFO(by_code);
  CHECK(contains(by_code, "that ends the job (--on exit:7=fail)"));
  CHECK(contains(by_code, "restarts used: 0 of 5"));
  const std::string others = run({"--on", "exit:7=fail"}, "exit 6");
  INFO(others);
  CHECK(contains(others, "all 5 restarts are spent"));
}

TEST_CASE("I-26: a smaller world starts as soon as all that are left are there") {
  const TempDir dir;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:3", "--rdzv-conf", "last_call_timeout=600"},
                   .program = runs_until(dir.file("end"))});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.node(0).wait_for_out("world=3"));
  ::kill(cluster.node(2).pid(), SIGKILL);
  CHECK(cluster.node(0).wait_for_out("world=2"));
  CHECK(cluster.node(1).wait_for_out("world=2"));
  touch(dir, "end");
  CHECK(cluster.node(0).exit_code() == 0);
  CHECK(cluster.node(1).exit_code() == 0);
}

TEST_CASE("I-27: a node too many is a spare, and neither it nor its end disturbs the job") {
  const TempDir dir;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "2"},
                   .program = runs_until(dir.file("end"))});
  REQUIRE(cluster.start_in_order(2));
  REQUIRE(cluster.node(1).wait_for_out("world=2"));
  cluster.start(2);
  REQUIRE(cluster.node(2).wait_for_err("this node is a spare"));
  ::kill(cluster.node(2).pid(), SIGKILL);
  cluster.start(2);
  REQUIRE(cluster.node(2).wait_for_err("this node is a spare"));
  // It takes the place of a lost node at once.
  ::kill(cluster.node(1).pid(), SIGKILL);
  CHECK(cluster.node(2).wait_for_out("world=2"));
  touch(dir, "end");
  CHECK(cluster.node(0).exit_code() == 0);
  CHECK(cluster.node(2).exit_code() == 0);
  CHECK(contains(cluster.node(0).err(), "job succeeded after 2 attempts"));
}

}  // namespace ddprun::test
