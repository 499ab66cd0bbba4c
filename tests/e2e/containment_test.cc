// Nothing that a worker started outlives its agent, whoever is killed how (field I-13 to I-15).
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// Each worker has a child, a child in a session of its own, and a daemon (double fork).
constexpr char kFamily[] =
    "trap '' TERM; sleep 1000 & setsid sleep 1001 & (setsid sh -c 'trap \"\" TERM HUP; sleep 1002' "
    "&) "
    "; echo ready; while :; do sleep 1003; done";

struct Family {
  explicit Family(const std::string& name)
      : mark(name + std::to_string(::getpid())),
        agent(ChildRequest{.argv = {"ddprun", "--standalone", "--nproc-per-node", "2",
                                    "--shutdown-timeout", "1", "sh", "-c", kFamily},
                           .environment = {{"DDPRUN_TEST_MARK", mark}}}) {}
  [[nodiscard]] std::size_t left() const { return processes_with("DDPRUN_TEST_MARK", mark).size(); }
  /// Two workers with four processes each, the agent and its guardian.
  [[nodiscard]] bool complete() {
    return agent.wait_for_out("ready", 2) && wait_until([&] { return left() >= 10; });
  }
  std::string mark;
  ChildProcess agent;
};

pid_t agent_below(pid_t guardian) {
  for (const pid_t pid : descendants_of(guardian)) {
    if (environment_of(pid, "RANK").empty()) {
      return pid;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("kill -9 of the process that the user started leaves nothing within a second") {
  Family family("guardian");
  REQUIRE(family.complete());
  ::kill(family.agent.pid(), SIGKILL);
  CHECK(wait_until([&] { return family.left() == 0; }, 1s));
}

TEST_CASE("kill -9 of the agent below it leaves nothing within a second") {
  Family family("agent");
  REQUIRE(family.complete());
  const pid_t agent = agent_below(family.agent.pid());
  REQUIRE(agent != 0);
  ::kill(agent, SIGKILL);
  CHECK(wait_until([&] { return family.left() == 0; }, 1s));
  CHECK(family.agent.exit_code() == 128 + SIGKILL);
  CHECK(family.agent.err().find("SIGKILL") != std::string::npos);
}

TEST_CASE("a stop request ends workers that ignore it, and all below them, after the timeout") {
  Family family("stop");
  REQUIRE(family.complete());
  family.agent.signal(SIGTERM);
  CHECK(family.agent.exit_code(10s) == 1);
  CHECK(family.left() == 0);
}

TEST_CASE("a second signal does not wait for the shutdown timeout") {
  ChildProcess agent(
      ChildRequest{.argv = {"ddprun", "--standalone", "--shutdown-timeout", "600", "sh", "-c",
                            "trap 'echo asked' INT; echo ready; while :; do sleep 0.05; done"}});
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
