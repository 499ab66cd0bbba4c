// What a worker finds: variables, arguments, store (torchrun contract, sections 1.3, 2).
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/free_port.h"

namespace ddprun::test {
namespace {

std::map<std::string, std::string> variables(const std::string& text) {
  std::map<std::string, std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto equals = line.find('='); equals != std::string::npos) {
      found[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a standalone worker gets every variable of the contract") {
  const auto job = run({.argv = {"ddprun", "--standalone", "--max-restarts", "4", "env"},
                        .environment = {{"OMP_NUM_THREADS", ""}, {"KEPT", "yes"}}});
  INFO(job.err);
  REQUIRE(job.exit_code == 0);
  auto v = variables(job.out);
  const std::map<std::string, std::string> expected{{"LOCAL_RANK", "0"},
                                                    {"RANK", "0"},
                                                    {"GROUP_RANK", "0"},
                                                    {"ROLE_RANK", "0"},
                                                    {"ROLE_NAME", "default"},
                                                    {"LOCAL_WORLD_SIZE", "1"},
                                                    {"WORLD_SIZE", "1"},
                                                    {"GROUP_WORLD_SIZE", "1"},
                                                    {"ROLE_WORLD_SIZE", "1"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                    {"TORCHELASTIC_MAX_RESTARTS", "4"},
                                                    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                    {"KEPT", "yes"}};
  for (const auto& [name, value] : expected) {
    CHECK(name + "=" + v[name] == name + "=" + value);
  }
  CHECK(v["MASTER_ADDR"] == "127.0.0.1");
  CHECK(std::stoi(v["MASTER_PORT"]) > 0);
  CHECK(v["TORCHELASTIC_RUN_ID"].size() == 36);
  CHECK(contains(v["TORCHELASTIC_ERROR_FILE"], "/attempt_0/0/error.json"));
  CHECK(v.count("OMP_NUM_THREADS") == 0);
}

TEST_CASE("arguments have the local rank put in as Python's templates do") {
  const auto job = run({.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "echo",
                                 "a${local_rank}b$local_rank", "$$", "$other"}});
  CHECK(count_of(job.out, "a0b0 $ $other\n") == 1);
  CHECK(count_of(job.out, "a1b1 $ $other\n") == 1);
}

TEST_CASE("the static backend gives workers the endpoint itself as their store") {
  const std::string port = std::to_string(free_port());
  std::unique_ptr<ChildProcess> nodes[2];
  for (int n = 1; n >= 0; --n) {
    nodes[n] = std::make_unique<ChildProcess>(ChildRequest{
        .argv = {"ddprun", "--nnodes", "2", "--node-rank", std::to_string(n), "--master-addr",
                 "127.0.0.1", "--master-port", port, "train", "message-passing"}});
  }
  for (const auto& node : nodes) {
    const int code = node->exit_code();
    INFO(node->report());
    CHECK(code == 0);
  }
  CHECK(contains(nodes[0]->out(), "Rank 0 sent data to Rank 1"));
  CHECK(contains(nodes[1]->out(), "Rank 1 has received data from rank 0"));
}

TEST_CASE("the static backend of one node takes any free port where it is given 0") {
  for (const char* address : {"127.0.0.1", "::1", "localhost"}) {
    const auto job = run({.argv = {"ddprun", "--nproc-per-node", "2", "--master-addr", address,
                                   "--master-port", "0", "train", "message-passing"}});
    INFO(job.out << job.err);
    CHECK(job.exit_code == 0);
    CHECK(contains(job.out, "Rank 1 has received data from rank 0"));
  }
}

}  // namespace ddprun::test
