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
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/free_port.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

std::string local_endpoint() {
  return "127.0.0.1:" + std::to_string(free_port());
}

std::unique_ptr<ChildProcess> agent(const std::string& endpoint, std::vector<std::string> options,
                                    std::vector<std::string> program = {"sleep", "1000"}) {
  std::vector<std::string> argv{"ddprun", "--rdzv-endpoint", endpoint};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.insert(argv.end(), program.begin(), program.end());
  return std::make_unique<ChildProcess>(ChildRequest{.argv = argv});
}

bool hosts(const std::unique_ptr<ChildProcess>& agent, const std::string& endpoint) {
  return wait_until([&] {
    const int port = std::stoi(endpoint.substr(endpoint.find(':') + 1));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const ddprun::Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return agent->running() &&
           ::connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  });
}

/// One sentence: one line that begins with our name.
void check_one_sentence(const std::string& err) {
  INFO(err);
  CHECK(count_of(err, "\n") == 1);
  CHECK(err.find("ddprun: ") == 0);
}

}  // namespace

TEST_CASE("a second job on one endpoint is rejected by its job id, and the first does not notice") {
  const std::string endpoint = local_endpoint();
  auto first = agent(endpoint, {"--nnodes", "2", "--rdzv-id", "alpha"}, {"echo", "ran"});
  REQUIRE(hosts(first, endpoint));
  auto stranger = agent(endpoint, {"--nnodes", "2", "--rdzv-id", "beta"}, {"echo", "ran"});
  CHECK(stranger->exit_code(10s) == 1);
  check_one_sentence(stranger->err());
  CHECK(stranger->err().find("alpha") != std::string::npos);
  CHECK(stranger->err().find("beta") != std::string::npos);
  auto second = agent(endpoint, {"--nnodes", "2", "--rdzv-id", "alpha"}, {"echo", "ran"});
  CHECK(first->exit_code(10s) == 0);
  CHECK(second->exit_code(10s) == 0);
}

TEST_CASE("nodes that disagree are told about what, and the job goes on without them") {
  struct Case {
    std::vector<std::string> options;
    std::vector<std::string> program;
    std::string names;
  };
  const std::vector<Case> cases{
      {{"--nnodes", "3"}, {"echo", "ran"}, "--nnodes"},
      {{"--nnodes", "2", "--max-restarts", "5"}, {"echo", "ran"}, "--max-restarts"},
      {{"--nnodes", "2"}, {"printf", "other"}, "program"}};
  const std::string endpoint = local_endpoint();
  auto first = agent(endpoint, {"--nnodes", "2"}, {"echo", "ran"});
  REQUIRE(hosts(first, endpoint));
  for (const auto& wrong : cases) {
    auto other = agent(endpoint, wrong.options, wrong.program);
    CHECK(other->exit_code(10s) == 1);
    check_one_sentence(other->err());
    INFO(other->err());
    CHECK(other->err().find(wrong.names) != std::string::npos);
  }
  auto second = agent(endpoint, {"--nnodes", "2"}, {"echo", "ran"});
  CHECK(second->exit_code(10s) == 0);
  CHECK(first->exit_code(10s) == 0);
}

TEST_CASE("a port that another program has taken is said to be taken") {
  const ddprun::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener.get(), 16) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  auto job = agent("127.0.0.1:" + port, {"--join-timeout", "3"});
  CHECK(job->exit_code(20s) == 1);
  check_one_sentence(job->err());
  CHECK(job->err().find(port) != std::string::npos);
  CHECK(job->err().find("another program") != std::string::npos);
}

TEST_CASE("an endpoint that refuses is named with its address, port and how long was tried") {
  auto job =
      agent(local_endpoint(), {"--nnodes", "2", "--rdzv-conf", "is_host=0", "--join-timeout", "1"});
  CHECK(job->exit_code(20s) == 1);
  INFO(job->err());
  CHECK(job->err().find("refused") != std::string::npos);
  CHECK(job->err().find("127.0.0.1") != std::string::npos);
  CHECK(job->err().find("1 s") != std::string::npos);
}

TEST_CASE("a host name that does not resolve is said not to resolve") {
  auto job = agent("no-such-host.invalid:29400", {"--nnodes", "2", "--join-timeout", "1"});
  CHECK(job->exit_code(30s) == 1);
  INFO(job->err());
  CHECK(job->err().find("no-such-host.invalid") != std::string::npos);
  CHECK(job->err().find("resolve") != std::string::npos);
}

TEST_CASE("too few nodes in time end the job with who was there") {
  auto job = agent(local_endpoint(), {"--nnodes", "3", "--join-timeout", "1"});
  CHECK(job->exit_code(20s) == 1);
  INFO(job->err());
  CHECK(job->err().find("1 of 3") != std::string::npos);
}

TEST_CASE("a log directory that is a file, or cannot be made, ends the job with one sentence") {
  const TempDir dir;
  const std::string file = dir.file("plain");
  std::ofstream(file) << "text";
  for (const std::string& path : {file, file + "/below", std::string("/proc/nowhere")}) {
    ChildProcess job(ChildRequest{
        .argv = {"ddprun", "--standalone", "--log-dir", path, "-r", "3", "echo", "ran"}});
    CHECK(job.exit_code(10s) == 1);
    check_one_sentence(job.err());
    INFO(job.err());
    CHECK(job.err().find(path) != std::string::npos);
    CHECK(job.out().empty());
  }
}

TEST_CASE("a wrong log directory on one node ends the job on the other with that reason") {
  const std::string endpoint = local_endpoint();
  auto good = agent(endpoint, {"--nnodes", "2"});
  REQUIRE(hosts(good, endpoint));
  auto bad = agent(endpoint, {"--nnodes", "2", "--log-dir", "/proc/nowhere", "-r", "3"});
  CHECK(bad->exit_code(10s) == 1);
  good->signal(SIGINT);  // where the bad one never joined, the good one waits for another
  CHECK(good->exit_code(10s) == 1);
}
