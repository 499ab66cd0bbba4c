#include "rendezvous/node/search_report.h"

#include <catch2/catch.hpp>

#include "rendezvous/base/network_interfaces.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

const Trouble kRefused{Obstacle::refused, "connection refused"};
const Trouble kFiltered{Obstacle::filtered, "no answer"};
const Trouble kUnresolved{Obstacle::unresolved, "the name cannot be resolved"};

}  // namespace

TEST_CASE("One address is one line: what happens, how long tried, how long it goes on (I-1)") {
  SearchReport report({{"head", 29400}}, 600s, 100s);
  report.resolved(0, {"10.0.0.1"});
  report.tried(0, "10.0.0.1", kRefused, 100s);
  CHECK_FALSE(report.due(101s));
  CHECK(report.due(102s));
  CHECK(report.lines(102s) ==
        std::vector<std::string>{
            "waiting for the coordinator at head (10.0.0.1) port 29400: connection refused, tried "
            "for 2 s, for up to 598 s more; start the agent on that host, or check the endpoint's "
            "host and port"});
}

TEST_CASE("Each address has a row of its own, with what happens there and since when") {
  SearchReport report({{"head", 29400}}, 600s, 0s);
  report.resolved(0, {"10.0.0.1", "fd00::1"});
  report.tried(0, "10.0.0.1", kFiltered, 3s);
  report.tried(0, "fd00::1", kRefused, 4s);
  report.tried(0, "10.0.0.1", kFiltered, 7s);
  CHECK(report.lines(8s) ==
        std::vector<std::string>{
            "waiting for the coordinator at head port 29400: 2 addresses, "
            "tried for 8 s, for up to 592 s more",
            "  10.0.0.1  no answer, for 8 s", "  fd00::1   connection refused, for 4 s",
            "  start the agent on that host, or check the endpoint's host and port"});
  CHECK(report.verdict(600s).sentence() ==
        "head port 29400: cannot reach the coordinator: 10.0.0.1: no answer, fd00::1: connection "
        "refused, tried for 600 s; start the agent on that host, or check the endpoint's host and "
        "port");
}

TEST_CASE("A changed reason is told soon, with its own age, the same one at growing intervals") {
  SearchReport report({{"head", 29400}}, 600s, 0s);
  report.tried(0, "", kUnresolved, 0s);
  REQUIRE(report.due(2s));
  CHECK(report.lines(2s).front().find("head port 29400: the name cannot be resolved, tried for") !=
        std::string::npos);
  CHECK_FALSE(report.due(5s));
  report.resolved(0, {"10.0.0.1"});
  report.tried(0, "10.0.0.1", kRefused, 5s);
  CHECK(report.due(5500ms));
  CHECK(report.lines(6s).size() == 1);
  report.tried(0, "10.0.0.1", kFiltered, 10s);
  CHECK(report.lines(14s).front().find("no answer (for 4 s), tried for 14 s") != std::string::npos);
  int told = 0;
  for (SearchReport::Time now = 15s; now < 600s; now += 1s) {
    told += report.due(now) ? 1 : 0;
  }
  CHECK(told >= 9);
  CHECK(told <= 16);
}

TEST_CASE("Addresses that a name does not have any more are forgotten") {
  SearchReport report({{"head", 29400}}, 600s, 0s);
  report.resolved(0, {"10.0.0.1"});
  report.tried(0, "10.0.0.1", kRefused, 0s);
  report.resolved(0, {"10.0.0.2"});
  report.tried(0, "10.0.0.2", kFiltered, 5s);
  CHECK(report.where() == "head (10.0.0.2) port 29400");
  CHECK(report.worst().obstacle == Obstacle::filtered);
  report.resolved(0, {});
  CHECK(report.worst().obstacle == Obstacle::none);
}

TEST_CASE("An agent that is there is waited for: nobody has to start it") {
  SearchReport report({{"head", 29400}}, 600s, 0s);
  report.resolved(0, {"10.0.0.1"});
  report.tried(0, "10.0.0.1", {Obstacle::leaderless, "an agent is there"}, 0s);
  CHECK(report.lines(2s).front() ==
        "waiting for the coordinator at head (10.0.0.1) port 29400: an agent is there, tried for "
        "2 s, for up to 598 s more; this node joins as soon as that agent has a coordinator");
  CHECK(report.verdict(600s).sentence() ==
        "head (10.0.0.1) port 29400: cannot reach the coordinator: an agent is there, tried for "
        "600 s; start the agents on all nodes of the job: the one there lacks nodes to elect with");
}

TEST_CASE("No more addresses are told than people read") {
  SearchReport report({{"head", 29400}}, 600s, 0s);
  for (int i = 0; i < 100; ++i) {
    report.tried(0, "10.0.0." + std::to_string(i), kRefused, 0s);
  }
  CHECK(report.lines(1s).size() == 1 + SearchReport::kAddressesMax + 1);  // and what to do
}

TEST_CASE("Of several endpoints each address is told with its own name and port") {
  SearchReport report({{"n1", 29400}, {"n2", 29401}, {"10.0.0.3", 29400}}, 600s, 0s);
  report.resolved(0, {"10.0.0.1"});
  report.tried(0, "10.0.0.1", kFiltered, 3s);
  report.tried(1, "", kUnresolved, 3s);
  report.resolved(2, {"10.0.0.3"});  // of the others nothing is forgotten
  report.tried(2, "10.0.0.3", kRefused, 4s);
  const auto lines = report.lines(8s);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] ==
        "waiting for the coordinator at n1 port 29400 and 2 other endpoints: 3 addresses, "
        "tried for 8 s, for up to 592 s more");
  CHECK(lines[1] == "  n1 (10.0.0.1) port 29400  no answer, for 8 s");
  CHECK(lines[2] == "  n2 port 29401             the name cannot be resolved, for 5 s");
  CHECK(lines[3] == "  10.0.0.3 port 29400       connection refused, for 4 s");
  CHECK(lines[4] == "  start the agent on that host, or check the endpoint's host and port");
  CHECK(
      report.verdict(600s).sentence() ==
      "n1 port 29400 and 2 other endpoints: cannot reach the coordinator: n1 (10.0.0.1) port "
      "29400: no answer, n2 port 29401: the name cannot be resolved, 10.0.0.3 port 29400: "
      "connection refused, tried for 600 s; start the agent on that host, or check the endpoint's "
      "host and port");
}

TEST_CASE("Where the network may be at fault, people read which networks this node is on") {
  SearchReport report({{"head", 29400}}, 600s, 0s, "10.0.0.2 (eth0) and 10.1.0.2 (hsn0)");
  report.resolved(0, {"10.0.0.1"});
  report.tried(0, "10.0.0.1", kFiltered, 0s);
  const std::string networks =
      "; this node is at 10.0.0.2 (eth0) and 10.1.0.2 (hsn0): an endpoint on a network of these "
      "can "
      "be reached";
  CHECK(report.lines(2s).front().ends_with(search_advice(Obstacle::filtered) + networks));
  CHECK(report.verdict(600s).sentence().ends_with(networks));
  report.tried(0, "10.0.0.1", was_closed(), 3s);
  CHECK(report.lines(4s).front().ends_with(search_advice(Obstacle::closed)));
}

TEST_CASE("A node without a network is not told which of its networks to use") {
  SearchReport report({{"head", 29400}}, 600s, 0s, addresses_text({}));
  report.tried(0, "", kUnresolved, 0s);
  CHECK(report.lines(2s).front().ends_with(search_advice(Obstacle::unresolved) +
                                           "; this node is at no address but loopback"));
}

TEST_CASE("A firewall that refuses does not say so each time") {
  SearchReport report({{"head", 29400}}, 600s, 0s);
  report.tried(0, "10.0.0.1", connect_trouble(false, "No route to host"), 0s);
  report.tried(0, "10.0.0.1", kFiltered, 1s);
  CHECK(report.worst().what == "no route to host");
  report.tried(0, "10.0.0.1", kRefused, 2s);
  CHECK(report.worst().obstacle == Obstacle::refused);
}

TEST_CASE("What is there counts from the first try that saw it to the last one that did") {
  SearchReport report({{"head", 29400}}, 600s, 0s);
  report.resolved(0, {"10.0.0.1", "10.0.0.2"});
  const Trouble stranger{Obstacle::stranger, "an SSH server listens there"};
  // This process was stopped before its first word, and between the two.
  report.tried(0, "10.0.0.1", stranger, 20s);
  CHECK(report.worst_for(20s) == 0s);
  report.tried(0, "10.0.0.2", kRefused, 40s);
  CHECK(report.worst_for(40s) == 0s);
  report.tried(0, "10.0.0.1", stranger, 41s);
  CHECK(report.worst_for(41s) == 21s);
  report.tried(0, "10.0.0.1", kFiltered, 42s);
  report.tried(0, "10.0.0.1", stranger, 43s);
  CHECK(report.worst_for(43s) == 0s);
  CHECK(report.lines(43s)[1].ends_with("an SSH server listens there, for 0 s"));
}
