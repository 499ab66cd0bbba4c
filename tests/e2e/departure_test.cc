// A job that is asked to go: preempted, left by a node in order, joined by another. What counts is
// that nothing is lost: the tests compare with a run that nobody disturbed.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rendezvous/base/signal_name.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

constexpr int kResume = 75;

std::vector<std::string> training(const std::string& epochs, const std::string& snapshot) {
  // No snapshot but those that are ordered.
  return {"train", "linear", epochs, "1000000", "--batch-size", "16", "--snapshot-path", snapshot};
}

/// How far a run says to have saved, as in "Epoch 11 | 1008 samples done".
std::string where_left(const std::string& out) {
  const auto end = out.find(" samples done | Training snapshot saved");
  const auto begin = out.rfind("Epoch ", end);
  return end == std::string::npos ? "" : out.substr(begin, end - begin);
}

/// And how far one says to go on from, in the same words.
std::string where_resumed(const std::string& out) {
  const std::string mark = "Resuming training from snapshot at Epoch ";
  const auto begin = out.rfind(mark);
  if (begin == std::string::npos) {
    return "";
  }
  const auto end = out.find('\n', begin);
  const std::string epoch = out.substr(begin + mark.size(), end - begin - mark.size());
  const std::string rest = out.substr(end + 1);
  const auto samples = rest.find(" samples of it are done");
  return "Epoch " + epoch + " | " + (samples < 20 ? rest.substr(0, samples) : "0");
}

}  // namespace

TEST_CASE("I-18: a warning that reaches one node makes all save at the same step and go on later") {
  const TempDir dir;
  const std::string epochs = "200";
  Cluster calm({.program = training(epochs, dir.file("calm"))});
  calm.start_all();
  REQUIRE(calm.exit_codes() == std::vector<int>{0, 0});

  std::string left;
  std::string snapshot;
  for (int tries = 0; tries < 5 && left.empty(); ++tries) {
    snapshot = dir.file("warned" + std::to_string(tries));
    Cluster warned({.program = training(epochs, snapshot)});
    REQUIRE(warned.start_in_order());
    if (!warned.wait_for("Epoch 3 ")) {
      FAIL(warned.report());
    }
    warned.node(1).signal(SIGUSR1);
    const auto codes = warned.exit_codes();
    INFO(warned.report());
    if (warned.said("Training finished: ")) {
      continue;  // this test was so late that there was nothing left to leave
    }
    CHECK(codes == std::vector<int>{kResume, kResume});
    CHECK(warned.said("job preempted after 1 attempt: SIGUSR1 was sent to the agent of node"));
    CHECK_FALSE(warned.said("restarts used"));  // there was no incident
    left = where_left(warned.node(0).out());
    REQUIRE(!left.empty());
  }
  REQUIRE(!left.empty());

  Cluster again({.program = training(epochs, snapshot)});
  REQUIRE(again.start_in_order());
  CHECK(again.exit_codes() == std::vector<int>{0, 0});
  CHECK(where_resumed(again.node(0).out()) == left);
  const std::string calm_weights = weights_in(calm.out());
  REQUIRE(!calm_weights.empty());
  CHECK(weights_in(again.out()) == calm_weights);
}

TEST_CASE("I-17: a preempted script has the long grace to save, a restart the short one") {
  const TempDir dir;
  const std::string saves = "trap 'sleep 1; echo saved; exit 0' TERM; echo ready; ";
  const std::vector<std::string> options{"--standalone", "--shutdown-timeout", "0",
                                         "--max-restarts", "1"};
  SECTION("preempted") {
    auto agent =
        start({.options = options, .program = shell(saves + "while :; do sleep 0.02; done")});
    REQUIRE(agent->wait_for_out("ready"));
    agent->signal(SIGTERM);
    CHECK(agent->exit_code() == kResume);
    CHECK(contains(agent->out(), "saved"));
  }
  SECTION("restarted") {
    std::vector<std::string> two = options;
    two.insert(two.end(), {"--nproc-per-node", "2"});
    auto agent =
        start({.options = two,
               .program = shell(saves +
                                "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; if [ $RANK = 1 ]; "
                                "then while [ ! -e " +
                                dir.file("fail") +
                                " ]; do sleep 0.02; done; exit 1; fi; "
                                "while :; do sleep 0.02; done")});
    REQUIRE(agent->wait_for_out("ready", 2));
    (void)dir.write("fail", "");
    CHECK(agent->exit_code() == 0);
    CHECK_FALSE(contains(agent->out(), "saved"));
  }
}

TEST_CASE("A scheduler that signals every process of a step has asked once") {
  auto agent = start({.options = {"--standalone"},
                      .program = shell("trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; "
                                       "while :; do sleep 0.02; done")});
  REQUIRE(agent->wait_for_out("ready"));
  const pid_t behind_the_guardian = descendants_of(agent->pid()).front();
  agent->signal(SIGTERM);
  ::kill(behind_the_guardian, SIGTERM);
  CHECK(agent->exit_code() == kResume);
  INFO(agent->report());
  CHECK(contains(agent->out(), "saved"));
}

TEST_CASE("Signals that still come at the end change nothing of it") {
  const TempDir dir;
  auto agent = start({.endpoint = local_endpoint(),
                      // It waits that long for the node that may be starting.
                      .options = {"--nnodes", "2", "--heartbeat-timeout", "0.1"},
                      .environment = {{"TORCHELASTIC_ERROR_FILE", dir.file("error.json")}}});
  REQUIRE(agent->wait_for_err("1 of 2 nodes here"));
  const pid_t behind_the_guardian = descendants_of(agent->pid()).front();
  while (agent->running()) {  // it has half a second for this
    agent->signal(SIGTERM);
    ::kill(behind_the_guardian, SIGTERM);
  }
  INFO(agent->report());
  CHECK(agent->exit_code() == kResume);
  CHECK(contains(agent->err(), "job preempted"));
}

TEST_CASE("only the loop's thread of an agent takes signals") {
  // Asio asks for a name on a thread of its own. A signal that it took while the agent ends, when
  // no handler is left, would kill the agent before its outcome is written.
  const TempDir dir;
  const auto agent =
      start({.endpoint = "127.1:" + std::to_string(port_of(local_endpoint())),  // a name
             .options = {"--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=1"},
             .program = runs_until(dir.file("end"))});
  REQUIRE(agent->wait_for_out("world=1"));
  const pid_t behind_the_guardian = descendants_of(agent->pid()).front();
  int others = 0;
  for (const auto& thread : std::filesystem::directory_iterator(
           "/proc/" + std::to_string(behind_the_guardian) + "/task")) {
    if (thread.path().filename() == std::to_string(behind_the_guardian)) {
      continue;
    }
    ++others;
    const std::string blocked = line_after(read_file(thread.path() / "status"), "SigBlk:\t");
    const auto mask = std::stoull(blocked, nullptr, 16);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
      INFO(signal_name(number) << " of " << blocked);
      CHECK((mask >> (number - 1) & 1) == 1);
    }
  }
  CHECK(others > 0);
  std::ofstream(dir.file("end")) << "now";
  CHECK(agent->exit_code() == 0);
}

TEST_CASE("SIGUSR1 reaches the scripts of all nodes that handle it, and all agents end with 75") {
  Cluster cluster({.workers_per_node = 1,
                   .program = shell("trap 'echo rank=$RANK saved; exit 75' USR1; echo ready; "
                                    "while :; do sleep 0.02; done")});
  cluster.start_all();
  REQUIRE(cluster.node(0).wait_for_out("ready"));
  REQUIRE(cluster.node(1).wait_for_out("ready"));
  cluster.node(1).signal(SIGUSR1);
  const auto codes = cluster.exit_codes();
  INFO(cluster.report());
  CHECK(codes == std::vector<int>{kResume, kResume});
  CHECK(cluster.said("rank=0 saved"));
  CHECK(cluster.said("rank=1 saved"));
}

TEST_CASE("a signal to a worker of the runtime preempts the job as one to its agent does") {
  const TempDir dir;
  Cluster cluster({.program = training("100000", dir.file("snapshot"))});
  cluster.start_all();
  REQUIRE(cluster.wait_for("Epoch 1 "));
  cluster.signal_worker(2, SIGTERM);
  const auto codes = cluster.exit_codes();
  INFO(cluster.report());
  CHECK(codes == std::vector<int>{kResume, kResume});
  CHECK(cluster.said("job preempted after 1 attempt: its workers were signalled to save and end"));
  CHECK(cluster.said("samples done | Training snapshot saved"));
}

TEST_CASE("a node leaves in order and comes back, no step is done twice and nothing is spent") {
  const TempDir dir;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:3"},
                   .program = training("1000", dir.file("snapshot"))});
  REQUIRE(cluster.start_in_order());
  if (!cluster.node(0).wait_for_out("Epoch 1 ")) {
    FAIL(cluster.report());
  }
  cluster.node(2).signal(SIGUSR2);
  CHECK(cluster.node(2).exit_code() == 0);
  CHECK(contains(cluster.node(2).err(), "this node has left the job, which goes on"));
  if (!cluster.node(0).wait_for_out("Resuming training from snapshot")) {
    FAIL(cluster.report());
  }
  const std::string left = where_left(cluster.node(0).out());
  REQUIRE(!left.empty());
  CHECK(where_resumed(cluster.node(0).out()) == left);
  cluster.start(2);  // and back: growth saves first, too
  if (!cluster.node(0).wait_for_out("Resuming training from snapshot", 2)) {
    FAIL(cluster.report());
  }
  const std::string out = cluster.node(0).out();
  const std::string second = out.substr(out.find("Resuming training from snapshot"));
  CHECK(where_resumed(second) == where_left(second));
  cluster.node(1).signal(SIGINT);
  const auto codes = cluster.exit_codes();
  INFO(cluster.report());
  CHECK(codes == std::vector<int>{1, 1, 1});
  CHECK(cluster.said("restarts used: 0 of 0"));
  CHECK(cluster.said("leaves in order"));
}

TEST_CASE("a witness leaves in order, its vote goes to others, and the job goes on") {
  const TempDir dir;
  const std::string endpoint = local_endpoint();
  const auto node = [&](const std::string& is_host) {
    return start({.endpoint = endpoint,
                  .options = {"--nnodes", "2", "--rdzv-conf", "is_host=" + is_host},
                  .program = runs_until(dir.file("end"))});
  };
  const auto first = node("1");
  const auto witness = start({.endpoint = endpoint,
                              .options = {"--witness", "--rdzv-conf", "is_host=0"},
                              .program = {},
                              .environment = {{"LOGLEVEL", "INFO"}}});
  REQUIRE(first->wait_for_err("no workers, only votes"));
  CHECK(contains(first->err(), "1 of 2 nodes here, waiting for 1 more"));
  const auto second = node("0");
  REQUIRE(second->wait_for_out("world=2"));
  witness->signal(SIGUSR2);
  CHECK(witness->exit_code() == 0);
  INFO(first->report() << second->report() << witness->report());
  CHECK(contains(witness->err(), "this node has left the job, which goes on"));
  CHECK(count_of(witness->err(), "may take over") == 1);
  (void)dir.write("end", "");
  CHECK(first->exit_code() == 0);
  CHECK(second->exit_code() == 0);
}

TEST_CASE(
    "with --scale-up never a node that comes later is a spare, and takes a lost one's place") {
  const TempDir dir;
  Cluster cluster(
      {.nodes = 3,
       .workers_per_node = 1,
       .options = {"--nnodes", "1:3", "--scale-up", "never", "--rdzv-conf", "last_call_timeout=1"},
       .program = runs_until(dir.file("end"))});
  REQUIRE(cluster.start_in_order(2));
  REQUIRE(cluster.node(1).wait_for_out("world=2"));
  cluster.start(2);
  CHECK(cluster.node(2).wait_for_err("--scale-up never keeps it as it is"));
  ::kill(cluster.node(1).pid(), SIGKILL);
  CHECK(cluster.node(2).wait_for_out("world=2"));
  (void)dir.write("end", "");
  CHECK(cluster.node(0).exit_code() == 0);
  CHECK(cluster.node(2).exit_code() == 0);
}

TEST_CASE("with --scale-up now a node that comes later is taken in at once, without a save") {
  const TempDir dir;
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:2", "--scale-up", "now", "--max-restarts", "0",
                               "--rdzv-conf", "last_call_timeout=1"},
                   .program = training("100000", dir.file("snapshot"))});
  REQUIRE(cluster.start_in_order(1));
  REQUIRE(cluster.node(0).wait_for_out("Epoch 3 "));
  cluster.start(1);
  REQUIRE(cluster.node(1).wait_for_out("Epoch 2 "));
  cluster.node(0).signal(SIGINT);
  CHECK(cluster.exit_codes() == std::vector{1, 1});
  INFO(cluster.report());
  CHECK(cluster.said("job stopped by SIGINT after 2 attempts"));
  CHECK(cluster.said("restarts used: 0 of 0"));
  // No save was ordered: the larger world goes on from the one snapshot that there is.
  CHECK(count_of(cluster.out(), "Training snapshot saved") == 1);
  CHECK(where_resumed(cluster.node(0).out()) == "Epoch 1 | 0");
}

TEST_CASE("the coordinator's node that leaves in order runs no more workers, but stays") {
  const TempDir dir;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:3"},
                   .program = runs_until(dir.file("end"))});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  cluster.node(0).signal(SIGUSR2);
  REQUIRE(cluster.all_say({1, 2}, "world=2"));
  CHECK(cluster.node(0).running());
  CHECK(cluster.workers_of(0).empty());
  (void)dir.write("end", "");
  CHECK(cluster.exit_codes() == std::vector{0, 0, 0});
  INFO(cluster.report());
  CHECK_FALSE(contains(cluster.node(0).out(), "world=2"));
  CHECK_FALSE(cluster.said("the coordinator was lost"));
}

TEST_CASE("a node that was asked to leave leaves the successor of a coordinator that is killed") {
  const TempDir dir;
  Cluster cluster(
      {.nodes = 3,
       .workers_per_node = 1,
       .options = {"--nnodes", "1:3"},
       .program = shell("trap 'echo saving; sleep 2; exit 0' TERM; echo world=$WORLD_SIZE; while [ "
                        "! -e " +
                        dir.file("end") + " ]; do sleep 0.02; done")});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  cluster.node(2).signal(SIGUSR2);
  REQUIRE(cluster.node(2).wait_for_out("saving"));
  ::kill(cluster.agent(0), SIGKILL);
  INFO(cluster.report());
  // One of the two is elected; the node that leaves stays then, but runs no workers.
  CHECK(cluster.node(1).wait_for_out("world=1"));
  CHECK(cluster.workers_of(2).empty());
  if (!contains(cluster.node(2).err(), "this node is the coordinator")) {
    CHECK(cluster.node(2).exit_code() == 0);
    CHECK(contains(cluster.node(2).err(), "this node has left the job, which goes on"));
  }
  (void)dir.write("end", "");
  CHECK(cluster.exit_codes() == std::vector<int>{128 + SIGKILL, 0, 0});
}

}  // namespace ddprun::test
