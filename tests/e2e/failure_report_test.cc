// What users read after a failure: the same cause on every node, exit codes, the agent's own error
// file (torchrun contract, section 6; field I-19, I-20).
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/contract/error_file.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/free_port.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// `nodes` agents on this machine that run one shell line per worker.
struct ShellJob {
  ShellJob(int node_count, int nproc, const std::string& script,
           std::vector<std::string> more = {}) {
    const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
    for (int n = 0; n < node_count; ++n) {
      std::vector<std::string> argv{"ddprun",
                                    "--nnodes",
                                    std::to_string(node_count),
                                    "--nproc-per-node",
                                    std::to_string(nproc),
                                    "--rdzv-endpoint",
                                    endpoint};
      argv.insert(argv.end(), more.begin(), more.end());
      argv.insert(argv.end(), {"sh", "-c", script});
      error_files.push_back(dir.file("agent" + std::to_string(n) + ".json"));
      nodes.push_back(std::make_unique<ChildProcess>(ChildRequest{
          .argv = argv, .environment = {{"TORCHELASTIC_ERROR_FILE", error_files.back()}}}));
    }
  }
  [[nodiscard]] std::string report() const {
    std::string text;
    for (const auto& node : nodes) {
      text += node->report();
    }
    return text;
  }
  TempDir dir;
  std::vector<std::string> error_files;
  std::vector<std::unique_ptr<ChildProcess>> nodes;
};

std::string after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  return at == std::string::npos ? "" : text.substr(at);
}

}  // namespace

// In an argument $$ stands for one $ (worker_contract_test.cc).
TEST_CASE("every node names the same cause, with its signal and its last line of stderr") {
  ShellJob job(2, 2,
               "echo \"rank $RANK speaks\" >&2; if [ $RANK = 2 ]; then echo 'the disk is on fire' "
               ">&2; kill -SEGV $$$$; fi; exec sleep 1000");
  for (auto& node : job.nodes) {
    const int code = node->exit_code();
    INFO(job.report());
    CHECK(code == 1);
    const std::string cause = after(node->err(), "Root Cause");
    CHECK(cause.find("SIGSEGV") != std::string::npos);
    CHECK(cause.find("2 (local_rank: 0)") != std::string::npos);
    CHECK(cause.find("-11 (pid: ") != std::string::npos);
    CHECK(cause.find("the disk is on fire") != std::string::npos);
  }
  for (const auto& path : job.error_files) {
    const auto record = ddprun::parse_error_record(read_file(path));
    REQUIRE(record.has_value());
    CHECK(record->error_code == -11);
  }
}

TEST_CASE("exit code 9 and SIGKILL are never confused") {
  ShellJob exits(1, 1, "exit 9");
  CHECK(exits.nodes[0]->exit_code() == 1);
  CHECK(after(exits.nodes[0]->err(), "Root Cause").find("9 (pid: ") != std::string::npos);
  CHECK(exits.nodes[0]->err().find("SIGKILL") == std::string::npos);
  ShellJob killed(1, 1, "kill -9 $$$$");
  CHECK(killed.nodes[0]->exit_code() == 1);
  CHECK(after(killed.nodes[0]->err(), "Root Cause").find("-9 (pid: ") != std::string::npos);
  CHECK(killed.nodes[0]->err().find("SIGKILL") != std::string::npos);
}

TEST_CASE("a worker's own error file becomes the agent's, with the exit code added") {
  ShellJob job(
      2, 1,
      "if [ $RANK = 1 ]; then printf '%s' '{\"message\": {\"message\": \"ValueError: no\", "
      "\"extraInfo\": {\"py_callstack\": \"line 1\\nline 2\", \"timestamp\": "
      "\"1700000000\"}}}' > $TORCHELASTIC_ERROR_FILE; exit 5; fi; exec sleep 1000");
  for (std::size_t n = 0; n < job.nodes.size(); ++n) {
    CHECK(job.nodes[n]->exit_code() == 1);
    INFO(job.report());
    const auto record = ddprun::parse_error_record(read_file(job.error_files[n]));
    REQUIRE(record.has_value());
    CHECK(record->message == "ValueError: no");
    CHECK(record->error_code == 5);
    CHECK(job.nodes[n]->err().find("ValueError: no") != std::string::npos);
  }
}

TEST_CASE("SIGINT or SIGTERM to one agent ends the job in order on every node") {
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const std::size_t target : {std::size_t{0}, std::size_t{1}}) {
      ShellJob job(2, 1,
                   "trap 'echo saved; exit 0' TERM INT; echo ready; while :; do sleep 0.02; done");
      REQUIRE(job.nodes[0]->wait_for_out("ready"));
      REQUIRE(job.nodes[1]->wait_for_out("ready"));
      job.nodes[target]->signal(signal);
      for (const auto& node : job.nodes) {
        const int code = node->exit_code(10s);
        INFO(job.report());
        CHECK(code == (signal == SIGINT ? 1 : 75));  // SIGTERM preempts, and they saved
        CHECK(node->out().find("saved") != std::string::npos);
      }
    }
  }
}

TEST_CASE("the restart budget is one for the whole job, and attempts are numbered job-wide") {
  // Rank 0 fails in attempts 0 and 2, rank 1 (the other node) in attempt 1.
  ShellJob job(2, 1,
               "echo \"rank $RANK attempt $TORCHELASTIC_RESTART_COUNT\"; "
               "case $RANK$TORCHELASTIC_RESTART_COUNT in 00|11|02) exit 7;; esac; "
               "[ $TORCHELASTIC_RESTART_COUNT = 3 ] || exec sleep 1000",
               {"--max-restarts", "3"});
  for (auto& node : job.nodes) {
    const int code = node->exit_code();
    INFO(job.report());
    CHECK(code == 0);
    CHECK(count_of(node->out(), "attempt 3") == 1);
    // Whoever was stopped may not have come to speak; both nodes tell the same story at the end.
    CHECK(node->err().find("restarts used: 3 of 3") != std::string::npos);
    for (const char* line : {"attempt 0 ended: rank 0 on", "attempt 1 ended: rank 1 on",
                             "attempt 2 ended: rank 0 on"}) {
      CHECK(count_of(node->err(), line) == 1);
    }
  }
}

TEST_CASE("nodes with different numbers of workers get prefix sums as ranks") {
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  const std::string script =
      "echo \"$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE group "
      "$GROUP_RANK/$GROUP_WORLD_SIZE\"";
  const auto start = [&](const std::string& nproc, const std::string& node_rank) {
    return std::make_unique<ChildProcess>(
        ChildRequest{.argv = {"ddprun", "--nnodes", "2", "--nproc-per-node", nproc, "--node-rank",
                              node_rank, "--rdzv-endpoint", endpoint, "sh", "-c", script}});
  };
  auto first = start("1", "0");
  REQUIRE(wait_until([&] { return !descendants_of(first->pid()).empty(); }));
  auto second = start("3", "1");
  CHECK(first->exit_code() == 0);
  CHECK(second->exit_code() == 0);
  const std::string all = first->out() + second->out();
  INFO(all << first->report() << second->report());
  CHECK(count_of(all, "/4 local") == 4);
  for (const char* rank : {"0/4", "1/4", "2/4", "3/4"}) {
    CHECK(count_of(all, rank) == 1);
  }
}
