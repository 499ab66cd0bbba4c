// The times of a preemption: how long workers may save, an early signal, several ones, deadlines
// (docs/preemption.md; what is saved and resumed: departure_test.cc).
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/signal_name.h"
#include "tests/e2e/cluster.h"
#include "tests/support/held_file.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

using Clock = std::chrono::steady_clock;

constexpr int kTryAgain = 75;

/// A script that never ends its saving.
const std::vector<std::string> kSavesForEver = shell(
    "trap 'echo saving; while :; do sleep 0.02; done' TERM; echo ready; "
    "while :; do sleep 0.02; done");

const std::vector<std::string> kPatientOptions{"--standalone", "--shutdown-timeout", "600",
                                               "--preempt-grace", "600"};

}  // namespace

TEST_CASE("A script that is deaf in its save is ended when --preempt-grace is over") {
  const auto agent =
      start({.options = {"--standalone", "--shutdown-timeout", "600", "--preempt-grace", "1s"},
             .program = kSavesForEver});
  REQUIRE(agent->wait_for_out("ready"));
  const auto asked = Clock::now();
  agent->signal(SIGTERM);
  const int code = agent->exit_code();
  INFO(agent->report());
  CHECK(Clock::now() - asked >= 1s);
  CHECK(agent->out() == "ready\nsaving\n");
  CHECK(code == 1);  // it did not save
}

TEST_CASE("A trainer of which one rank does not come to save is ended after both graces, with 75") {
  const TempDir dir;
  Cluster cluster(
      {.nodes = 2,
       .workers_per_node = 1,
       .options = {"--preempt-grace", "1s", "--shutdown-timeout", "1"},
       .program = {"train", "linear", "10000000", "5", "--snapshot-path", dir.file("snapshot")}});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.wait_for("Training snapshot saved"));
  cluster.signal_worker(1, SIGSTOP);
  const auto asked = Clock::now();
  cluster.node(0).signal(SIGTERM);
  const auto codes = cluster.exit_codes();
  INFO(cluster.report());
  CHECK(Clock::now() - asked >= 1s);
  CHECK(codes == std::vector{kTryAgain, kTryAgain});
  CHECK(cluster.said("workers have not left 1 s after they were ordered to save: ending them"));
  CHECK_FALSE(cluster.said("samples done | Training snapshot saved"));
  CHECK(cluster.left_behind().empty());
}

TEST_CASE("A signal that comes before the agent can take it waits, and ends it in order") {
  struct Case {
    int signal;
    int exit_code;
  };
  const auto [signal, exit_code] = GENERATE(Case{SIGTERM, kTryAgain}, Case{SIGUSR1, kTryAgain},
                                            Case{SIGINT, 1}, Case{SIGHUP, 1}, Case{SIGQUIT, 1});
  const TempDir dir;
  std::filesystem::create_directory(dir.file("bin"));
  std::filesystem::create_symlink("/bin/true", dir.file("bin/python3"));
  // The launcher reads the script, before there is an agent; the agent reads the settings of the
  // virtual environment, before there is a loop.
  const bool in_agent = GENERATE(false, true);
  dir.write("script.py", "");
  HeldFile held(dir.file(in_agent ? "pyvenv.cfg" : "held.py"));
  const auto agent =
      start({.endpoint = local_endpoint(),
             .options = {"--nnodes", "2", "--heartbeat-timeout", "0.2", "--legacy-launch"},
             .program = {dir.file(in_agent ? "script.py" : "held.py")},
             .environment = {{"PYTHON_EXEC", dir.file("bin/python3")}}});
  REQUIRE(held.await_reader());
  agent->signal(signal);
  held.let_go();
  const int code = agent->exit_code();
  INFO((in_agent ? "agent, " : "launcher, ") << signal << '\n' << agent->report());
  CHECK(code == exit_code);
  CHECK(contains(agent->err(), signal_name(signal)));
}

TEST_CASE("A start that hangs is ended by a signal, if some seconds late") {
  const TempDir dir;
  HeldFile held(dir.file("held.py"));
  const auto agent = start({.endpoint = local_endpoint(),
                            .options = {"--nnodes", "2", "--legacy-launch"},
                            .program = {held.path()}});
  REQUIRE(held.await_reader());
  agent->signal(SIGINT);
  CHECK(agent->exit_code() == -SIGINT);
  CHECK(agent->err().empty());
}

TEST_CASE("A second signal during a preemption means now, but not within half a second") {
  const auto agent = start({.options = kPatientOptions, .program = kSavesForEver});
  REQUIRE(agent->wait_for_out("ready"));
  agent->signal(SIGTERM);
  REQUIRE(agent->wait_for_out("saving"));
  agent->signal(SIGTERM);  // as a scheduler that signals every process of a step
  const auto asked = Clock::now();
  CHECK_FALSE(wait_until([&] { return !agent->running(); }, 100ms));
  REQUIRE(wait_until([&] { return Clock::now() - asked > 600ms; }));
  agent->signal(SIGTERM);
  const int code = agent->exit_code(10s);
  INFO(agent->report());
  CHECK(code == 1);
}

TEST_CASE("Signals of two kinds at once are one wish: workers have their time to save") {
  struct Row {
    int one;
    int other;
    int code;
  };
  const Row row =
      GENERATE(Row{SIGHUP, SIGTERM, 1}, Row{SIGTERM, SIGUSR1, kTryAgain}, Row{SIGINT, SIGQUIT, 1});
  const auto agent = start(
      {.options = kPatientOptions,
       .program = shell("trap 'echo saving; sleep 0.3; echo saved; exit 0' HUP INT TERM USR1; "
                        "echo ready; while :; do sleep 0.02; done")});
  REQUIRE(agent->wait_for_out("ready"));
  agent->signal(row.one);
  agent->signal(row.other);
  const int code = agent->exit_code(10s);
  INFO(row.one << " " << row.other << agent->report());
  CHECK(code == row.code);
  CHECK(contains(agent->out(), "saved"));
}

TEST_CASE("A second signal after SIGUSR1 ends the agent now, and the job is still to go on later") {
  struct Row {
    int first;
    int second;
    int code;
  };
  const Row row = GENERATE(Row{SIGUSR1, SIGUSR1, kTryAgain}, Row{SIGUSR1, SIGTERM, kTryAgain},
                           Row{SIGTERM, SIGUSR1, kTryAgain}, Row{SIGUSR1, SIGINT, 1});
  const auto agent = start(
      {.options = kPatientOptions,
       .program = shell("trap 'echo saving; while :; do sleep 0.02; done' TERM USR1; echo ready; "
                        "while :; do sleep 0.02; done")});
  REQUIRE(agent->wait_for_out("ready"));
  agent->signal(row.first);
  REQUIRE(agent->wait_for_out("saving"));
  const auto asked = Clock::now();
  REQUIRE(wait_until([&] { return Clock::now() - asked > 600ms; }));
  agent->signal(row.second);
  const int code = agent->exit_code(10s);
  INFO(row.first << " " << row.second << agent->report());
  CHECK(code == row.code);
}

TEST_CASE("However many signals come to whichever agents, all end with one code") {
  struct Sent {
    int node;
    int number;
  };
  struct Row {
    Sent first;
    Sent second;  ///< while all save
    int code;
  };
  const Row row = GENERATE(
      Row{{1, SIGUSR2}, {1, SIGTERM}, kTryAgain}, Row{{0, SIGUSR2}, {2, SIGUSR1}, kTryAgain},
      Row{{1, SIGUSR2}, {0, SIGINT}, 1}, Row{{1, SIGTERM}, {0, SIGUSR1}, kTryAgain},
      Row{{1, SIGTERM}, {1, SIGUSR1}, kTryAgain}, Row{{0, SIGTERM}, {0, SIGTERM}, 1},
      Row{{1, SIGTERM}, {1, SIGTERM}, 1}, Row{{2, SIGTERM}, {2, SIGTERM}, kTryAgain},
      Row{{0, SIGUSR1}, {0, SIGUSR2}, kTryAgain});
  const std::string endpoint = local_endpoint();
  const TempDir dir;
  const std::string program = "trap 'echo saving; while [ ! -e " + dir.file("saved") +
                              " ]; do sleep 0.02; done; exit 0' TERM USR1; echo ready; "
                              "while :; do sleep 0.02; done";
  const auto agent = [&](const std::string& is_host) {
    return start({.endpoint = endpoint,
                  .options = {"--nnodes", "2", "--heartbeat-timeout", "1", "--rdzv-conf",
                              "is_host=" + is_host},
                  .program = shell(program),
                  .environment = {{"LOGLEVEL", "INFO"}}});
  };
  std::vector<std::unique_ptr<ChildProcess>> agents;
  agents.push_back(agent("1"));
  agents.push_back(agent("0"));
  REQUIRE(agents[1]->wait_for_out("ready"));
  REQUIRE(agents[0]->wait_for_out("ready"));
  agents.push_back(
      start({.endpoint = endpoint,
             .options = {"--witness", "--heartbeat-timeout", "1", "--rdzv-conf", "is_host=0"},
             .program = {},
             .environment = {{"LOGLEVEL", "INFO"}}}));
  REQUIRE(agents[2]->wait_for_err("may take over"));
  agents[row.first.node]->signal(row.first.number);
  const auto asked = Clock::now();
  REQUIRE(agents[0]->wait_for_out("saving"));
  REQUIRE(agents[1]->wait_for_out("saving"));
  if (row.first.node == row.second.node) {  // else it would be the same wish
    REQUIRE(wait_until([&] { return Clock::now() - asked > 600ms; }));
  }
  agents[row.second.node]->signal(row.second.number);
  const bool again = row.first.node == row.second.node && row.first.number == row.second.number;
  REQUIRE(agents[row.second.node]->wait_for_err("got " + signal_name(row.second.number),
                                                again ? 2 : 1));
  (void)dir.write("saved", "");
  for (const auto& one : agents) {
    const int code = one->exit_code(30s);
    INFO(row.first.node << ": " << row.first.number << ", " << row.second.node << ": "
                        << row.second.number << one->report());
    CHECK(code == row.code);
  }
}

TEST_CASE("A node that is asked to leave again goes at once, and the others go on") {
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:2", "--heartbeat-timeout", "1", "--shutdown-timeout",
                               "600", "--rdzv-conf", "last_call_timeout=1"},
                   .program = shell("[ $WORLD_SIZE = 1 ] && exit 0; "
                                    "trap 'echo saving; [ $RANK = 0 ] && exit 0; while :; do "
                                    "sleep 0.02; done' TERM; echo ready; "
                                    "while :; do sleep 0.02; done")});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1}, "ready"));
  cluster.node(1).signal(SIGUSR2);
  const auto asked = Clock::now();
  REQUIRE(cluster.node(1).wait_for_out("saving"));
  REQUIRE(wait_until([&] { return Clock::now() - asked > 600ms; }));
  cluster.node(1).signal(SIGUSR2);
  const auto codes = cluster.exit_codes(30s);
  INFO(cluster.report());
  CHECK(codes == std::vector{0, 1});
}

TEST_CASE("A node that is lost while scripts save for SIGTERM leaves the others their 75") {
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--heartbeat-timeout", "1"},
                   .program = shell("trap 'echo saving; sleep 0.5; exit 0' TERM; echo ready; "
                                    "while :; do sleep 0.02; done")});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1}, "ready"));
  cluster.node(1).signal(SIGTERM);
  REQUIRE(cluster.node(0).wait_for_out("saving"));
  ::kill(cluster.agent(1), SIGKILL);
  const auto codes = cluster.exit_codes(30s);
  INFO(cluster.report());
  CHECK(codes == std::vector{kTryAgain, 128 + SIGKILL});
}

TEST_CASE("An agent that hosts, and waits for others in vain, preempts the job if asked to leave") {
  const auto agent =
      start({.endpoint = local_endpoint(),
             .options = {"--nnodes", "2", "--heartbeat-timeout", "1", "--rdzv-conf", "is_host=1"}});
  REQUIRE(agent->wait_for_err("waiting for"));
  agent->signal(SIGUSR2);
  CHECK(agent->exit_code(30s) == kTryAgain);
  INFO(agent->report());
  CHECK(contains(agent->err(), "was asked to leave, and no other was here"));
}

TEST_CASE("A preemption survives the coordinator that is killed during the save") {
  // Warned is another agent, or the very one that is killed: then the others have its order.
  const int warned = GENERATE(1, 0);
  const int signal = warned == 0 ? SIGUSR1 : SIGTERM;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:3"},
                   .program = shell("trap 'echo saving; sleep 2; exit 75' TERM USR1; echo ready; "
                                    "while :; do sleep 0.02; done")});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "ready"));
  cluster.node(warned).signal(signal);
  REQUIRE(cluster.node(1).wait_for_out("saving"));
  ::kill(cluster.agent(0), SIGKILL);
  const auto codes = cluster.exit_codes(30s);
  INFO(cluster.report());
  CHECK(codes == std::vector{128 + SIGKILL, kTryAgain, kTryAgain});
  CHECK(contains(cluster.node(2).err(), "job preempted"));
  CHECK(cluster.left_behind().empty());
}

TEST_CASE("A warning that comes when the coordinator was just killed is for all nodes, too") {
  const TempDir dir;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:3"},
                   .program = runs_until(dir.file("end"))});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  ::kill(cluster.agent(0), SIGKILL);
  REQUIRE(cluster.node(1).wait_for_err("the coordinator was lost"));
  cluster.node(1).signal(SIGUSR1);
  const auto codes = cluster.exit_codes(30s);
  INFO(cluster.report());
  CHECK(codes == std::vector{128 + SIGKILL, kTryAgain, kTryAgain});
}

TEST_CASE("An agent that was asked and finds no coordinator says so, and ends with 75") {
  const TempDir dir;
  Cluster cluster(
      {.nodes = 2,
       .workers_per_node = 1,
       .options = {"--nnodes", "1:2", "--heartbeat-timeout", "1", "--preempt-grace", "600"},
       .program = runs_until(dir.file("end"))});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1}, "world=2"));
  ::kill(cluster.agent(0), SIGKILL);
  REQUIRE(cluster.node(1).wait_for_err("the coordinator was lost"));
  cluster.node(1).signal(SIGTERM);
  const auto codes = cluster.exit_codes(30s);
  INFO(cluster.report());
  CHECK(codes == std::vector{128 + SIGKILL, kTryAgain});
  CHECK(contains(cluster.node(1).err(), "may not have been asked"));
}

TEST_CASE("An agent that joins when it is warned asks the coordinator that it finds then") {
  const TempDir dir;
  const std::string endpoint = local_endpoint();
  const auto agent = [&](const std::string& is_host) {
    return start({.endpoint = endpoint,
                  .options = {"--nnodes", "2", "--heartbeat-timeout", "30", "--rdzv-conf",
                              "is_host=" + is_host},
                  // The job may have begun by the time that the coordinator is asked.
                  .program = runs_until(dir.file("end"))});
  };
  const auto joins = agent("0");
  REQUIRE(joins->wait_for_err("waiting for the coordinator"));
  joins->signal(SIGUSR1);
  const auto hosts = agent("1");
  CHECK(hosts->exit_code() == kTryAgain);
  CHECK(joins->exit_code() == kTryAgain);
  INFO(hosts->report() << joins->report());
  CHECK(contains(hosts->err(), "SIGUSR1 was sent to the agent of node"));
}

TEST_CASE("An agent that joins when it is told to end, and finds nobody, says so within a second") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  const auto agent =
      start({.endpoint = local_endpoint(),
             .options = {"--nnodes", "2", "--heartbeat-timeout", "1", "--rdzv-conf", "is_host=0"}});
  REQUIRE(agent->wait_for_err("waiting for the coordinator"));
  agent->signal(signal);
  CHECK(agent->exit_code() == (signal == SIGINT ? 1 : kTryAgain));
  INFO(agent->report());
  CHECK(contains(agent->err(), "may not have been asked"));
}

TEST_CASE("A --deadline is a time from now or an instant, and the job saves when it comes") {
  const TempDir dir;
  const bool absolute = GENERATE(false, true);
  const std::time_t begun = std::time(nullptr);
  const std::string deadline = absolute ? "@" + std::to_string(begun + 6) : "6s";
  const auto began = Clock::now();
  const auto agent = start({.options = {"--standalone", "--deadline", deadline},
                            .program = {"train", "linear", "10000000", "1000000", "--snapshot-path",
                                        dir.file("snapshot")}});
  CHECK(agent->exit_code() == kTryAgain);
  INFO(deadline << "\n" << agent->report());
  CHECK((absolute ? std::time(nullptr) >= begun + 6 : Clock::now() - began >= 6s));
  CHECK(contains(agent->err(), "job preempted after 1 attempt: the deadline of node"));
  CHECK(contains(agent->out(), "samples done | Training snapshot saved"));
}

TEST_CASE("A deadline that is over, or is no time, is refused before anything starts") {
  for (const std::string wrong : {"@1", "@soon", "soon"}) {
    const Finished job =
        run({.argv = {"ddprun", "--standalone", "--deadline", wrong, "echo", "ran"}});
    CHECK(job.exit_code == 1);
    CHECK(job.out.empty());
    check_one_sentence(job.err);
    CHECK_THAT(job.err, Catch::StartsWith("ddprun: --deadline: ") && Catch::Contains("'"));
  }
}

}  // namespace ddprun::test
