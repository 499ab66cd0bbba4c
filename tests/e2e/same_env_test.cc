// Nodes whose programs, versions or variables differ: people are told once, or no worker starts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

const std::string kTitle = "the nodes of this job do not all have the same environment:";

/// Nodes with host names of their own: node0 hosts.
class Nodes {
 public:
  explicit Nodes(int count) : network_(count) {}
  [[nodiscard]] LoneAgent agent(int i, std::vector<std::string> options,
                                std::vector<std::string> program) const {
    return {.endpoint = network_.address(0) + ":29400",
            .options = std::move(options),
            .program = std::move(program),
            .environment = {{"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "1"}},
            .network_namespace = network_.name(i),
            .host_name = "node" + std::to_string(i)};
  }

 private:
  NetNamespaces network_;
};

/// The lines from the title on, without what each agent says of other things.
std::string table_in(const std::string& text) {
  const auto begin = text.find(kTitle);
  if (begin == std::string::npos) {
    return {};
  }
  std::string table;
  for (auto at = text.find('\n', begin) + 1; at < text.size() && text.compare(at, 2, "  ") == 0;) {
    const auto end = std::min(text.find('\n', at), text.size() - 1) + 1;
    table += text.substr(at, end - at);
    at = end;
  }
  return table;
}

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("Variables that differ are told once, by the node that hosts, and the job runs") {
  if (no_namespaces()) {
    return;
  }
  const Nodes nodes(3);
  std::vector<std::unique_ptr<ChildProcess>> running;
  for (int i = 0; i < 3; ++i) {
    LoneAgent agent = nodes.agent(i, {"--nnodes", "3"}, shell("echo ran"));
    if (i == 1) {
      agent.environment["NCCL_DEBUG"] = "WARN";
      agent.environment["TORCH_HUB_TOKEN"] = "hunter2";
    }
    agent.environment["SLURM_NODEID"] = std::to_string(i);          // differs by nature
    agent.environment["CUDA_VISIBLE_DEVICES"] = std::to_string(i);  // so does this
    running.push_back(start(agent));
  }
  for (auto& node : running) {
    CHECK(node->exit_code() == 0);
    CHECK(node->out() == "ran\n");
  }
  INFO(running[0]->report() << running[1]->report() << running[2]->report());
  const std::string said = running[0]->err();
  CHECK(times(said, kTitle) == 1);
  const std::string table = table_in(said);
  CHECK(
      table.starts_with("  what             value              nodes\n"
                        "  NCCL_DEBUG       INFO               node0, node2\n"
                        "                   WARN               node1\n"
                        "  TORCH_HUB_TOKEN  <not set>          node0, node2\n"
                        "                   <hidden "));
  CHECK(times(table, "\n") == 5);
  CHECK(table.find("hunter2") == std::string::npos);
  CHECK(times(running[1]->err() + running[2]->err(), kTitle) == 0);
}

TEST_CASE("Nodes that agree are told nothing") {
  if (no_namespaces()) {
    return;
  }
  const Nodes nodes(2);
  const auto first = start(nodes.agent(0, {"--nnodes", "2"}, shell("true")));
  const auto second = start(nodes.agent(1, {"--nnodes", "2"}, shell("true")));
  CHECK(first->exit_code() == 0);
  CHECK(second->exit_code() == 0);
  CHECK(first->err().empty());
  CHECK(second->err().empty());
}

TEST_CASE("Programs of one name and another content are a difference") {
  if (no_namespaces()) {
    return;
  }
  const Nodes nodes(2);
  const TempDir dir;
  std::vector<std::unique_ptr<ChildProcess>> running;
  for (int i = 0; i < 2; ++i) {
    const std::string folder = dir.file("node" + std::to_string(i));
    fs::create_directories(folder);
    const std::string file = folder + "/work.sh";
    std::ofstream(file) << "#!/bin/sh\necho " << i << "\n";
    fs::permissions(file, fs::perms::owner_all);
    running.push_back(start(nodes.agent(i, {"--nnodes", "2"}, {file})));
  }
  CHECK(running[0]->exit_code() == 0);
  CHECK(running[1]->exit_code() == 0);
  const std::string table = table_in(running[0]->err());
  INFO(running[0]->report());
  CHECK(times(table, "\n") == 3);
  CHECK(table.find("  program  work.sh ") != std::string::npos);
  CHECK(table.find("node1") != std::string::npos);
}

TEST_CASE("With --require-same-env no worker starts, and both nodes say which differs in what") {
  const TempDir dir;
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  LoneAgent agent{.endpoint = endpoint,
                  .options = {"--nnodes", "2", "--require-same-env"},
                  .program = shell("touch " + dir.file("started") + "$RANK"),
                  .environment = {{"NCCL_DEBUG", "INFO"}}};
  const auto first = start(agent);
  REQUIRE(listens("127.0.0.1", std::stoi(endpoint.substr(endpoint.find(':') + 1))));
  agent.environment["NCCL_DEBUG"] = "WARN";
  const auto second = start(agent);
  CHECK(first->exit_code() == 78);
  CHECK(second->exit_code() == 78);
  INFO(first->report() << second->report());
  const std::string sentence =
      " in NCCL_DEBUG (WARN, not INFO), and --require-same-env makes that "
      "an error\n";
  for (const auto* node : {&first, &second}) {
    CHECK((*node)->err().find("ddprun: job could not run: node ") != std::string::npos);
    CHECK((*node)->err().find(sentence) != std::string::npos);
  }
  CHECK(times(first->err(), kTitle) == 1);
  CHECK(times(second->err(), kTitle) == 0);
  CHECK(fs::is_empty(fs::path(dir.file("started")).parent_path()));
}

TEST_CASE("What --same-env-ignore names may differ under --require-same-env") {
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  LoneAgent agent{
      .endpoint = endpoint,
      .options = {"--nnodes", "2", "--require-same-env", "--same-env-ignore", "NCCL_DE*,gpu"},
      .program = shell("true"),
      .environment = {{"NCCL_DEBUG", "INFO"}}};
  const auto first = start(agent);
  agent.environment["NCCL_DEBUG"] = "WARN";
  const auto second = start(agent);
  CHECK(first->exit_code() == 0);
  CHECK(second->exit_code() == 0);
  CHECK(first->err().empty());
}

TEST_CASE("With --require-same-env a node that comes later and differs is turned away by name") {
  if (no_namespaces()) {
    return;
  }
  const Nodes nodes(2);
  const TempDir dir;
  const std::vector<std::string> options = {"--nnodes", "1:2", "--require-same-env", "--rdzv-conf",
                                            "last_call_timeout=1"};
  const auto program =
      shell("echo world=$WORLD_SIZE; while [ ! -e " + dir.file("end") + " ]; do sleep 0.02; done");
  const auto first = start(nodes.agent(0, options, program));
  REQUIRE(first->wait_for_out("world=1"));
  LoneAgent other = nodes.agent(1, options, program);
  other.environment["NCCL_DEBUG"] = "WARN";
  const auto second = start(other);
  CHECK(second->exit_code() == 1);
  INFO(first->report() << second->report());
  CHECK(second->err().find("this node differs from the nodes of the job in NCCL_DEBUG (WARN, not "
                           "INFO), and --require-same-env was given") != std::string::npos);
  CHECK(first->wait_for_err("rejected a node at "));
  // Who agrees is let in after that.
  const auto third = start(nodes.agent(1, options, program));
  CHECK(first->wait_for_out("world=2"));
  std::ofstream(dir.file("end")) << "now";
  CHECK(first->exit_code() == 0);
  CHECK(third->exit_code() == 0);
}

}  // namespace ddprun::test
