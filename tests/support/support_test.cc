// The helpers themselves: a helper that lies makes every test above it lie.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/free_port.h"
#include "tests/support/needs.h"
#include "tests/support/net_namespaces.h"
#include "tests/support/processes.h"

namespace ddprun::test {
namespace {

ChildRequest shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}};
}

TEST_CASE("an exit code and a signal of the same number are told apart", "[support]") {
  ChildProcess exits(shell("exit 9"));
  ChildProcess killed(shell("kill -9 $$"));
  CHECK(exits.wait() == Ended{9, std::nullopt});
  CHECK(killed.wait() == Ended{std::nullopt, 9});
}

TEST_CASE("both streams are captured apart, and the environment and directory are as asked",
          "[support]") {
  const TempDir dir;
  ChildRequest request = shell("echo out $MARK $HOME; pwd; echo err >&2");
  request.environment = {{"MARK", "here"}, {"HOME", ""}};
  request.directory = dir.path();
  const Finished finished = run(request);
  CHECK(finished.out == "out here\n" + dir.path().string() + "\n");
  CHECK(finished.err == "err\n");
}

TEST_CASE("a program that is not there exits with 127 and says its name", "[support]") {
  const Finished finished = run({.argv = {"/no/such/program"}});
  CHECK(finished.exit_code == 127);
  CHECK(finished.err.find("/no/such/program") != std::string::npos);
}

TEST_CASE("waiting ends at the text, at the end of the program, or at the deadline", "[support]") {
  ChildProcess speaks(shell("echo ready; read line"));
  CHECK(speaks.wait_for_out("ready"));
  ChildProcess silent(shell("exit 0"));
  CHECK_FALSE(silent.wait_for_out("ready"));
  ChildProcess sleeps({.argv = {"sleep", "1000"}});
  CHECK_FALSE(sleeps.wait_for_out("ready", 1, std::chrono::milliseconds(20)));
  CHECK(sleeps.exit_code(std::chrono::milliseconds(0)) == ChildProcess::kStillRuns);
}

TEST_CASE("a child that still runs is gone with all below it when its object is", "[support]") {
  const std::string mark = "support-" + std::to_string(::getpid());
  {
    ChildRequest request = shell("setsid sleep 1000 & sleep 1000 & echo ready; wait");
    request.environment = {{"DDPRUN_TEST_MARK", mark}};
    ChildProcess parent(request);
    REQUIRE(parent.wait_for_out("ready"));
    CHECK(wait_until([&] { return processes_with("DDPRUN_TEST_MARK", mark).size() == 3; }));
    CHECK(descendants_of(parent.pid()).size() == 2);
  }
  CHECK(wait_until([&] { return processes_with("DDPRUN_TEST_MARK", mark).empty(); }));
}

TEST_CASE("a worker is found by its rank, and its children are not taken for it", "[support]") {
  ChildRequest request = shell("RANK=1 sh -c 'sleep 1000 & echo ready; wait' & wait");
  ChildProcess agent(request);
  REQUIRE(agent.wait_for_out("ready"));
  const pid_t worker = worker_of(agent.pid(), 1);
  REQUIRE(worker != 0);
  CHECK(wait_until([&] { return descendants_of(worker).size() == 1; }));
  CHECK(worker_of(agent.pid(), 1) == worker);
  CHECK(worker_of(agent.pid(), 0) == 0);
}

TEST_CASE("free ports differ", "[support]") {
  CHECK(free_port() != free_port());
}

TEST_CASE("nodes reach each other unless one is cut off, and again when it is healed",
          "[support]") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(2);
  // A listener on node 1 that answers each connection with one line.
  ChildRequest listener;
  listener.argv = {
      "python3", "-c",
      "import socket\ns = socket.create_server(('', 7000))\nprint('ready', flush=True)\n"
      "while True: s.accept()[0].sendall(b'hello')"};
  listener.network_namespace = nodes.name(1);
  listener.host_name = "node1";
  ChildProcess server(listener);
  REQUIRE(server.wait_for_out("ready"));
  ChildRequest connect;
  connect.argv = {"python3", "-c",
                  "import socket, sys\n"
                  "print(socket.create_connection((sys.argv[1], 7000), 0.5).recv(9))",
                  nodes.address(1)};
  connect.network_namespace = nodes.name(0);
  CHECK(run(connect).out == "b'hello'\n");
  nodes.cut(1);
  CHECK(run(connect).exit_code == 1);
  nodes.heal(1);
  CHECK(wait_until([&] { return run(connect).exit_code == 0; }));
}

}  // namespace
}  // namespace ddprun::test
