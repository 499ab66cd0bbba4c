// Nothing that a worker started outlives its agent, whoever is killed how (field I-13 to I-15).
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>

#include "tests/e2e/cluster.h"
#include "tests/support/event_wait.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// Each worker has a child, a child in a session of its own, and a daemon (double fork).
constexpr char kFamily[] =
    "trap '' TERM; sleep 1000 & setsid sleep 1001 & (setsid sh -c 'trap \"\" TERM HUP; sleep 1002' "
    "&) "
    "; echo ready; while :; do sleep 1003; done";

struct Family : Cluster {
  Family()
      : Cluster({.nodes = 1,
                 .options = {"--shutdown-timeout", "1"},
                 .program = {"sh", "-c", kFamily}}) {
    start(0);
  }
  /// Two workers with four processes each, the agent and its guardian.
  [[nodiscard]] bool complete() {
    return node(0).wait_for_out("ready", 2) &&
           wait_until([&] { return left_behind().size() >= 10; });
  }
  [[nodiscard]] bool gone_within(std::chrono::milliseconds timeout) const {
    return wait_until([&] { return left_behind().empty(); }, timeout);
  }
};

}  // namespace

TEST_CASE("kill -9 of the process that the user started leaves nothing within a second") {
  Family family;
  REQUIRE(family.complete());
  ::kill(family.node(0).pid(), SIGKILL);
  CHECK(family.gone_within(1s));
}

TEST_CASE("kill -9 of the agent below it leaves nothing within a second") {
  Family family;
  REQUIRE(family.complete());
  const pid_t agent = family.agent(0);
  REQUIRE(agent != 0);
  ::kill(agent, SIGKILL);
  CHECK(family.gone_within(1s));
  CHECK(family.node(0).exit_code() == 128 + SIGKILL);
  CHECK(contains(family.node(0).err(), "SIGKILL"));
}

TEST_CASE("kill -9 of guardian and agent at once leaves no worker within a second") {
  Family family;
  REQUIRE(family.complete());
  const pid_t agent = family.agent(0);
  const pid_t first = family.worker(0);
  const pid_t second = family.worker(1);
  REQUIRE((agent != 0 && first != 0 && second != 0));
  const pid_t guardian = family.node(0).pid();
  REQUIRE(stop_process(guardian));  // so that it does nothing between the two signals
  ::kill(agent, SIGKILL);
  ::kill(guardian, SIGKILL);
  CHECK(wait_until([&] { return !process_runs(first) && !process_runs(second); }, 1s));
  // Nobody is left who could end those below the workers (docs/processes.md).
  CHECK_FALSE(family.left_behind().empty());
}

TEST_CASE("a stop request ends workers that ignore it, and all below them, after the timeout") {
  Family family;
  REQUIRE(family.complete());
  family.node(0).signal(SIGTERM);
  CHECK(family.node(0).exit_code(10s) == 1);
  CHECK(family.left_behind().empty());
}

TEST_CASE("a second signal does not wait for the shutdown timeout") {
  const auto started =
      start({.options = {"--standalone", "--shutdown-timeout", "600"},
             .program = shell("trap 'echo asked' INT; echo ready; while :; do sleep 0.05; done")});
  ChildProcess& agent = *started;
  REQUIRE(agent.wait_for_out("ready"));
  agent.signal(SIGINT);
  REQUIRE(agent.wait_for_out("asked"));
  CHECK(wait_until(
      [&] {
        agent.signal(SIGINT);  // what comes at once is the same wish
        return !agent.running();
      },
      10s));
  INFO(agent.report());
  CHECK(agent.exit_code() == 1);
}

TEST_CASE("a worker inherits no descriptor beyond its standard streams") {
  ChildProcess agent(ChildRequest{.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "sh",
                                           "-c", "echo ready; exec sleep 1000"}});
  REQUIRE(agent.wait_for_out("ready", 2));
  for (const int rank : {0, 1}) {
    REQUIRE(wait_until(
        [&] { return command_line_of(worker_of(agent.pid(), rank)).find("sleep") == 0; }));
    // Not at once: what loads its libraries has one of them open.
    CHECK(wait_until([&] { return descriptors_of(worker_of(agent.pid(), rank)).size() == 3; }));
  }
  agent.signal(SIGTERM);
  CHECK(agent.exit_code() == 1);
}

}  // namespace ddprun::test
