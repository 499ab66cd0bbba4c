// Two jobs of one id, at one endpoint: each stays what it is. Nodes are network namespaces.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/needs.h"
#include "tests/support/net_namespaces.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// A leader calls its endpoints and its voters every two seconds.
constexpr auto kCallsPatience = 5s;

/// A job of three nodes lost the host of its endpoint, and goes on with two. On that host, and on
/// one more node, another job is started, which has no id either.
class TwoJobs {
 public:
  explicit TwoJobs(const std::string& nnodes) {
    auto first = agent(0, "2:3", network_.address(0));
    REQUIRE(listens(network_.address(0), 29400, network_.name(0)));
    one = agent(1, "2:3", network_.address(0));
    two = agent(2, "2:3", network_.address(0));
    REQUIRE(one->wait_for_out("world=3"));
    REQUIRE(two->wait_for_out("world=3"));
    first = nullptr;
    REQUIRE(one->wait_for_out("world=2"));
    REQUIRE(two->wait_for_out("world=2"));
    // Both nodes of the other job meet before anybody of this one reaches them.
    network_.cut(0);
    network_.connect_directly(0, 3);
    other_host = agent(0, nnodes, network_.address(0));
    other = agent(3, nnodes, network_.second_address(0));
    REQUIRE(other_host->wait_for_out("world=2"));
    REQUIRE(other->wait_for_out("world=2"));
    network_.heal(0);
  }

  /// The coordinator of the first job, and its other node.
  [[nodiscard]] ChildProcess& leader() const { return leads(*one) ? *one : *two; }
  [[nodiscard]] ChildProcess& follower() const { return leads(*one) ? *two : *one; }
  void end() const { std::ofstream(dir_.file("end")) << "now"; }
  [[nodiscard]] std::string report() const {
    return one->report() + two->report() + other_host->report() + other->report();
  }
  void check_other_job() const {
    for (ChildProcess* const node : {other_host.get(), other.get()}) {
      CHECK(node->exit_code() == 0);
      CHECK(count_of(node->out(), "world=") == 1);
    }
  }

 private:
  [[nodiscard]] std::unique_ptr<ChildProcess> agent(int node, const std::string& nnodes,
                                                    const std::string& host) const {
    return start(on_node(network_, node,
                         {.endpoint = host + ":29400",
                          .options = {"--nnodes", nnodes, "--heartbeat-timeout", "3", "--rdzv-conf",
                                      "last_call_timeout=1"},
                          .program = shell("echo world=$WORLD_SIZE; while [ ! -e " +
                                           dir_.file("end") + " ]; do sleep 0.02; done"),
                          .environment = {{"LOGLEVEL", "INFO"}}}));
  }
  static bool leads(ChildProcess& node) {
    return contains(node.err(), "this node is the coordinator from here on");
  }

  TempDir dir_;
  NetNamespaces network_{4};

 public:
  std::unique_ptr<ChildProcess> one;  ///< these end before their network does
  std::unique_ptr<ChildProcess> two;
  std::unique_ptr<ChildProcess> other_host;
  std::unique_ptr<ChildProcess> other;
};

}  // namespace

TEST_CASE("A job that runs at the endpoint of another one of its id is not deposed by its leader") {
  NEEDS_NAMESPACES();
  const TwoJobs jobs(GENERATE("2", "2:3"));
  CHECK_FALSE(jobs.other_host->wait_for_err("took over", 1, kCallsPatience));
  jobs.end();
  INFO(jobs.report());
  CHECK(jobs.one->exit_code() == 0);
  CHECK(jobs.two->exit_code() == 0);
  jobs.check_other_job();
}

TEST_CASE("A node that lost its coordinator does not join another job of its id") {
  NEEDS_NAMESPACES();
  const TwoJobs jobs("2:3");
  ChildProcess& left = jobs.follower();
  jobs.leader().signal(SIGKILL);
  const bool told = left.wait_for_err("another job of this id is there");
  INFO(jobs.report());
  CHECK(told);
  CHECK(count_of(left.out(), "world=3") == 1);
  left.signal(SIGTERM);
  CHECK(left.exit_code() != 0);
  jobs.end();
  jobs.check_other_job();
}

}  // namespace ddprun::test
