// Bad input that only shows when agents meet or files are touched: one clear sentence, a defined
// exit code, and no harm to others. (What the command line alone can tell: command_line_test.cc.)
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/fd.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

std::unique_ptr<ChildProcess> agent(const std::string& endpoint, std::vector<std::string> options,
                                    std::vector<std::string> program = {"sleep", "1000"}) {
  return start(
      {.endpoint = endpoint, .options = std::move(options), .program = std::move(program)});
}

bool hosts(const std::unique_ptr<ChildProcess>& agent, const std::string& endpoint) {
  return listens("127.0.0.1", port_of(endpoint)) && agent->running();
}

}  // namespace

TEST_CASE("a second job on one endpoint is rejected by its job id, and the first does not notice") {
  const std::string endpoint = local_endpoint();
  auto first = agent(endpoint, {"--nnodes", "2", "--rdzv-id", "alpha"}, {"echo", "ran"});
  REQUIRE(hosts(first, endpoint));
  auto stranger = agent(endpoint, {"--nnodes", "2", "--rdzv-id", "beta"}, {"echo", "ran"});
  CHECK(stranger->exit_code(10s) == 1);
  check_one_sentence(stranger->err());
  CHECK(contains(stranger->err(), "alpha"));
  CHECK(contains(stranger->err(), "beta"));
  auto second = agent(endpoint, {"--nnodes", "2", "--rdzv-id", "alpha"}, {"echo", "ran"});
  CHECK(first->exit_code(10s) == 0);
  CHECK(second->exit_code(10s) == 0);
}

TEST_CASE("a node that disagrees is told about what, and a job that needs it ends with that") {
  struct Case {
    std::vector<std::string> options;
    std::string names;
  };
  const std::vector<Case> cases{{{"--nnodes", "3"}, "--nnodes"},
                                {{"--nnodes", "2", "--max-restarts", "5"}, "--max-restarts"},
                                {{"--nnodes", "2", "--require-same-env"}, "--require-same-env"}};
  for (const auto& wrong : cases) {
    const std::string endpoint = local_endpoint();
    auto first = agent(endpoint, {"--nnodes", "2"}, {"echo", "ran"});
    REQUIRE(hosts(first, endpoint));
    auto other = agent(endpoint, wrong.options, {"echo", "ran"});
    CHECK(other->exit_code() == 1);
    check_one_sentence(other->err());
    INFO(other->err());
    CHECK(contains(other->err(), wrong.names));
    CHECK(first->exit_code() == 1);
    INFO(first->err());
    CHECK(contains(first->err(), "was rejected: its " + wrong.names));
  }
}

TEST_CASE("a standard stream that is closed is /dev/null for the workers, and nothing else's") {
  const TempDir dir;
  // A pipe or a device; not what the agent happened to open first.
  const std::string worker =
      "if [ -p /proc/self/fd/1 ] || [ -c /proc/self/fd/1 ]; then echo fine >" + dir.file("stdout") +
      "; fi; exit 7";
  const auto job = run(
      {.argv = {"sh", "-c",
                "exec " + find_program("ddprun") + " --standalone --event-log " +
                    dir.file("events") + " --max-restarts 1 sh -c '" + worker + "' <&- >&- 2>&-"}});
  CHECK(job.exit_code == 1);
  std::istringstream events(read_file(dir.file("events")));
  int lines = 0;
  for (std::string line; std::getline(events, line); ++lines) {
    CHECK(line.substr(0, 1) == "{");
  }
  CHECK(lines > 0);
  CHECK(read_file(dir.file("stdout")) == "fine\n");
}

TEST_CASE("a port that another program has taken is said to be taken") {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener.get(), 16) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const auto begin = std::chrono::steady_clock::now();
  auto job = agent("127.0.0.1:" + port, {"--join-timeout", "3"});
  CHECK(job->exit_code(20s) == 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  check_one_sentence(job->err());
  INFO(job->err());
  CHECK(contains(job->err(), "port " + port + " is taken by another program"));
  CHECK(contains(job->err(), "127.0.0.1 port " + port + ": "));
  std::smatch tried;
  const std::string err = job->err();
  REQUIRE(std::regex_search(err, tried, std::regex("tried for ([0-9]+) s\\)")));
  CHECK(std::stoi(tried[1]) > 0);
  CHECK(std::stoi(tried[1]) < took.count() + 1);  // it is rounded
}

TEST_CASE("an endpoint that refuses is named with its address, port and how long was tried") {
  auto job =
      agent(local_endpoint(), {"--nnodes", "2", "--rdzv-conf", "is_host=0", "--join-timeout", "1"});
  CHECK(job->exit_code(20s) == 1);
  INFO(job->err());
  CHECK(contains(job->err(), "refused"));
  CHECK(contains(job->err(), "127.0.0.1"));
  CHECK(contains(job->err(), "1 s"));
}

TEST_CASE("a host name that does not resolve is said not to resolve") {
  auto job = agent("no-such-host.invalid:29400", {"--nnodes", "2", "--join-timeout", "1"});
  CHECK(job->exit_code(30s) == 1);
  INFO(job->err());
  CHECK(contains(job->err(), "no-such-host.invalid"));
  CHECK(contains(job->err(), "resolve"));
}

TEST_CASE("too few nodes in time end the job with who was there") {
  auto job = agent(local_endpoint(), {"--nnodes", "3", "--join-timeout", "1"});
  CHECK(job->exit_code(20s) == 1);
  INFO(job->err());
  CHECK(contains(job->err(), "1 of 3"));
}

TEST_CASE("a log directory that is a file, or cannot be made, ends the job with one sentence") {
  const TempDir dir;
  const std::string file = dir.file("plain");
  std::ofstream(file) << "text";
  for (const std::string& path : {file, file + "/below", std::string("/proc/nowhere")}) {
    const Finished job =
        run({.argv = {"ddprun", "--standalone", "--log-dir", path, "-r", "3", "echo", "ran"}});
    CHECK(job.exit_code == 1);
    check_one_sentence(job.err);
    CHECK_THAT(job.err, Catch::Contains(path));
    CHECK(job.out.empty());
  }
}

TEST_CASE("a wrong log directory on one node ends the job on the other with that reason") {
  const std::string endpoint = local_endpoint();
  auto good = agent(endpoint, {"--nnodes", "2"});
  REQUIRE(hosts(good, endpoint));
  auto bad = agent(endpoint, {"--nnodes", "2", "--log-dir", "/proc/nowhere", "-r", "3"});
  CHECK(bad->exit_code() == 1);
  check_one_sentence(bad->err());
  CHECK(good->exit_code() == 1);
  INFO(good->err());
  CHECK(
      contains(good->err(), "was rejected: it cannot run workers: log directory '/proc/nowhere'"));
  CHECK(contains(good->err(), "cannot have the 2 nodes that it needs"));
}

TEST_CASE("a wrong log directory on one node leaves the others at work where they are enough") {
  const std::string endpoint = local_endpoint();
  // Nobody else is expected: the last call is not waited for.
  auto good = agent(endpoint, {"--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=600"},
                    {"bash", "-c", "echo world=$WORLD_SIZE"});
  REQUIRE(hosts(good, endpoint));
  auto bad = agent(endpoint, {"--nnodes", "1:2", "--log-dir", "/proc/nowhere", "-r", "3"},
                   {"bash", "-c", "echo world=$WORLD_SIZE"});
  CHECK(bad->exit_code() == 1);
  check_one_sentence(bad->err());
  CHECK(good->exit_code() == 0);
  INFO(good->err());
  CHECK(contains(good->out(), "world=1"));
  CHECK(contains(good->err(), "it cannot run workers: log directory '/proc/nowhere'"));
}

TEST_CASE(
    "a node whose log directory is gone when the first attempt begins leaves with its reason") {
  const bool enough = GENERATE(true, false);
  const TempDir dir;
  const std::string nnodes = enough ? "2:3" : "3";
  const std::string endpoint = local_endpoint();
  const auto start = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--nnodes", nnodes, "--rdzv-conf", "last_call_timeout=600"});
    return agent(endpoint, more,
                 {"bash", "-c", "echo world=$WORLD_SIZE; [ $WORLD_SIZE = 2 ] || sleep 1000"});
  };
  auto first = start({});
  REQUIRE(hosts(first, endpoint));
  const std::string logs = dir.file("logs");
  auto bad = start({"--log-dir", logs, "-r", "3"});
  REQUIRE(first->wait_for_err("2 of "));
  std::filesystem::remove_all(logs);
  std::ofstream(logs) << "a file";
  auto third = start({});
  CHECK(bad->exit_code() == 1);
  CHECK(first->exit_code() == (enough ? 0 : 1));
  CHECK(third->exit_code() == (enough ? 0 : 1));
  for (ChildProcess* const one : {bad.get(), first.get(), third.get()}) {
    INFO(one->err());
    CHECK(contains(one->err(), logs));
  }
  CHECK(contains(first->out(), "world=2") == enough);
}

}  // namespace ddprun::test
