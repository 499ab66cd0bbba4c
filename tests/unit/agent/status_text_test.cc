#include "agent/output/status_text.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

RendezvousStatus table_of_two() {
  RendezvousStatus t;
  t.min_nodes = t.max_nodes = 4;
  t.nodes_here = 2;
  t.workers_here = 3;
  t.waited = 12s;
  t.left = 588s;
  t.here = {{"node0", "", 2, {}, true, 12s}, {"n1", "10.77.0.2", 1, 3, false, 4s}};
  return t;
}

}  // namespace

TEST_CASE("The table says who is here, who is not, and how long it goes on") {
  RendezvousStatus t = table_of_two();
  t.here.push_back({"w", "10.77.0.8", 0, {}, false, 3s});
  t.missing_ranks = {0, 2};
  t.missing_hosts = "n5-n7 (PBS_NODEFILE)";
  t.refused = {{"n3", "10.77.0.4", "--nnodes is '3'", 3, 2s}, {"", "10.77.0.9", "other", 1, 5s}};
  t.refused_more = 7;
  t.lost = {{"n2", "10.77.0.3", "its connection closed", 1, 1s}};
  t.note = "a note";
  CHECK(waiting_lines(t) ==
        std::vector<std::string>{
            "2 of 4 nodes here, waiting for 2 more: for 12 s so far, for up to 9 min 48 s from now",
            "  here     node0  -          2 workers, for 12 s, the coordinator",
            "  here     n1     10.77.0.2  1 worker, for 4 s, node rank 3",
            "  here     w      10.77.0.8  no workers, only votes, for 3 s",
            "  missing  node ranks 0, 2", "  missing  n5-n7 (PBS_NODEFILE)",
            "  refused  n3     10.77.0.4  3 times, last 2 s ago: --nnodes is '3'",
            "  refused  -      10.77.0.9  5 s ago: other", "  refused  7 more before",
            "  lost     n2     10.77.0.3  1 s ago: its connection closed", "  note     a note"});
}

TEST_CASE("Times go on while a table is shown, and never below zero") {
  const auto lines = waiting_lines(table_of_two(), 10s);
  CHECK(lines[0].find("for 22 s so far, for up to 9 min 38 s from now") != std::string::npos);
  CHECK(lines[1].find("for 22 s") != std::string::npos);
  CHECK(waiting_lines(table_of_two(), 900s)[0].find("for up to 0 s") != std::string::npos);
}

TEST_CASE("A last call, and a turn that is waited for") {
  RendezvousStatus t = table_of_two();
  t.waits_for = RendezvousStatus::For::last_call;
  t.min_nodes = 2;
  t.left = 18s;
  CHECK(waiting_lines(t)[0] == "2 of 2:4 nodes here, starting in 18 s unless more come first");
  RendezvousStatus turn;
  turn.waits_for = RendezvousStatus::For::turn;
  turn.note = "this node is a spare";
  CHECK(waiting_lines(turn) == std::vector<std::string>{"this node is a spare"});
}

TEST_CASE("A thousand nodes are one row") {
  RendezvousStatus t;
  t.min_nodes = t.max_nodes = 1001;
  t.nodes_here = 1000;
  t.workers_here = 8000;
  t.left = 10s;
  t.names_here = "n1-n499, n501-n1001";
  const auto lines = waiting_lines(t);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1] == "  here  n1-n499, n501-n1001 (8000 workers)");
}

TEST_CASE("Names of other nodes cannot steer the terminal") {
  RendezvousStatus t = table_of_two();
  t.here[1].host_name = "n1\x1b[2J\n";
  CHECK(waiting_lines(t)[2].find("n1?[2J?") != std::string::npos);
}

TEST_CASE("Durations read as people say them") {
  CHECK(duration_text(0s) == "0 s");
  CHECK(duration_text(1600ms) == "2 s");
  CHECK(duration_text(119s) == "119 s");
  CHECK(duration_text(120s) == "2 min 0 s");
  CHECK(duration_text(7199s) == "119 min 59 s");
  CHECK(duration_text(7500s) == "2 h 5 min");
}
