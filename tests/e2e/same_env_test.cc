// Nodes whose programs, versions or variables differ: people are told once, or no worker starts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/support/needs.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

const std::string kTitle = "the nodes of this job do not all have the same environment:";

/// Nodes with host names of their own, which agree: node0 hosts.
ClusterRequest alike(int nodes, std::vector<std::string> program) {
  return {.nodes = nodes,
          .workers_per_node = 1,
          .program = std::move(program),
          .environment = {{"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "1"}},
          .namespaces = true};
}

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

}  // namespace

TEST_CASE("Variables that differ are told once, by the node that hosts, and the job runs") {
  NEEDS_NAMESPACES();
  Cluster cluster(alike(3, shell("echo ran")));
  for (int i = 0; i < 3; ++i) {
    // These two differ by nature.
    std::map<std::string, std::string> own{{"SLURM_NODEID", std::to_string(i)},
                                           {"CUDA_VISIBLE_DEVICES", std::to_string(i)}};
    if (i == 1) {
      own.insert({{"NCCL_DEBUG", "WARN"}, {"TORCH_HUB_TOKEN", "hunter2"}});
    }
    cluster.start(i, {.environment = own});
  }
  CHECK(cluster.exit_codes() == std::vector{0, 0, 0});
  INFO(cluster.report());
  CHECK(cluster.out() == "ran\nran\nran\n");
  const std::string said = cluster.node(0).err();
  CHECK(count_of(said, kTitle) == 1);
  const std::string table = table_in(said);
  CHECK(
      table.starts_with("  what             value              nodes\n"
                        "  NCCL_DEBUG       INFO               node0, node2\n"
                        "                   WARN               node1\n"
                        "  TORCH_HUB_TOKEN  <not set>          node0, node2\n"
                        "                   <hidden "));
  CHECK(count_of(table, "\n") == 5);
  CHECK_FALSE(contains(table, "hunter2"));
  CHECK(count_of(cluster.node(1).err() + cluster.node(2).err(), kTitle) == 0);
}

TEST_CASE("Nodes that agree are told nothing") {
  NEEDS_NAMESPACES();
  ClusterRequest request = alike(2, {"true"});
  request.environment.emplace("DDPRUN_JOB_TOKEN", "no line about who may join");
  Cluster cluster(std::move(request));
  cluster.start_all();
  CHECK(cluster.exit_codes() == std::vector{0, 0});
  CHECK(cluster.node(0).err().empty());
  CHECK(cluster.node(1).err().empty());
}

TEST_CASE("Programs of one name and another content are a difference") {
  NEEDS_NAMESPACES();
  const TempDir dir;
  Cluster cluster(alike(2, {}));
  for (int i = 0; i < 2; ++i) {
    const std::string folder = dir.file("node" + std::to_string(i));
    fs::create_directories(folder);
    const std::string file = folder + "/work.sh";
    std::ofstream(file) << "#!/bin/sh\necho " << i << "\n";
    fs::permissions(file, fs::perms::owner_all);
    cluster.start(i, {.program = {file}});
  }
  CHECK(cluster.exit_codes() == std::vector{0, 0});
  const std::string table = table_in(cluster.node(0).err());
  INFO(cluster.report());
  CHECK(count_of(table, "\n") == 3);
  CHECK(contains(table, "  program  work.sh "));
  CHECK(contains(table, "node1"));
}

TEST_CASE("Nodes may run different programs, a server beside a trainer: told once, to the end") {
  NEEDS_NAMESPACES();
  Cluster cluster(alike(2, {}));
  cluster.start(0, {.options = {"--role", "server"}, .program = {"echo", "serves"}});
  cluster.start(
      1, {.options = {"--role", "trainer"}, .program = {"printf", "%s %s", "trains", "--token=x"}});
  CHECK(cluster.exit_codes() == std::vector{0, 0});
  INFO(cluster.report());
  CHECK(cluster.node(0).out() == "serves\n");
  CHECK(cluster.node(1).out() == "trains --token=x");
  const std::string said = cluster.node(0).err();
  CHECK(count_of(said, kTitle) == 1);
  CHECK(count_of(said, "rejected") == 0);
  CHECK(cluster.node(1).err().empty());
  const std::string table = table_in(said);
  CHECK(count_of(table, "\n") == 5);
  CHECK(count_of(table, "\n  program ") == 1);
  CHECK(count_of(table, "\n  arguments  serves") == 1);
  CHECK(count_of(table, " trains --token=<hidden ") == 1);
}

TEST_CASE("With --require-same-env different programs are an error, and what is ignored is none") {
  const TempDir dir;
  for (const bool ignored : {false, true}) {
    ClusterRequest request{.workers_per_node = 1, .options = {"--require-same-env"}};
    if (ignored) {
      request.options.insert(request.options.end(), {"--same-env-ignore", "program,arguments"});
    }
    Cluster cluster(request);
    cluster.start(0, {.program = shell("touch " + dir.file("server"))});
    cluster.start(1, {.program = shell("touch " + dir.file("trainer"))});
    const int code = ignored ? 0 : 78;
    CHECK(cluster.exit_codes() == std::vector{code, code});
    INFO(cluster.report());
    CHECK((ignored || cluster.said(" in arguments (")));
    CHECK(fs::exists(dir.file("server")) == ignored);
    CHECK(fs::exists(dir.file("trainer")) == ignored);
  }
}

TEST_CASE("With --require-same-env no worker starts, and both nodes say which differs in what") {
  const TempDir dir;
  Cluster cluster({.workers_per_node = 1,
                   .options = {"--require-same-env"},
                   .program = shell("touch " + dir.file("started") + "$RANK"),
                   .environment = {{"NCCL_DEBUG", "INFO"}}});
  REQUIRE(cluster.start_in_order(1));
  cluster.start(1, {.environment = {{"NCCL_DEBUG", "WARN"}}});
  CHECK(cluster.exit_codes() == std::vector{78, 78});
  INFO(cluster.report());
  for (const int node : {0, 1}) {
    CHECK(contains(cluster.node(node).err(), "ddprun: job could not run: node "));
    CHECK(
        contains(cluster.node(node).err(),
                 " in NCCL_DEBUG (WARN, not INFO), and --require-same-env makes that an error\n"));
  }
  CHECK(count_of(cluster.node(0).err(), kTitle) == 1);
  CHECK(count_of(cluster.node(1).err(), kTitle) == 0);
  CHECK(fs::is_empty(dir.path()));
}

TEST_CASE("What --same-env-ignore names may differ under --require-same-env") {
  Cluster cluster({.workers_per_node = 1,
                   .options = {"--require-same-env", "--same-env-ignore", "NCCL_DE*,gpu"},
                   .program = {"true"}});
  cluster.start(0, {.environment = {{"NCCL_DEBUG", "INFO"}}});
  cluster.start(1, {.environment = {{"NCCL_DEBUG", "WARN"}}});
  CHECK(cluster.exit_codes() == std::vector{0, 0});
  CHECK(cluster.node(0).err().empty());
}

TEST_CASE("With --require-same-env a node that comes later and differs is turned away by name") {
  NEEDS_NAMESPACES();
  const TempDir dir;
  ClusterRequest request = alike(2, runs_until(dir.file("end")));
  request.options = {"--nnodes", "1:2", "--require-same-env", "--rdzv-conf", "last_call_timeout=1"};
  Cluster cluster(request);
  ChildProcess& first = cluster.start(0);
  REQUIRE(first.wait_for_out("world=1"));
  ChildProcess& second = cluster.start(1, {.environment = {{"NCCL_DEBUG", "WARN"}}});
  CHECK(second.exit_code() == 1);
  INFO(cluster.report());
  CHECK(contains(second.err(),
                 "this node differs from the nodes of the job in NCCL_DEBUG (WARN, not INFO), and "
                 "--require-same-env was given"));
  CHECK(first.wait_for_err("rejected a node at "));
  // One that agrees is let in after that.
  cluster.start(1);
  CHECK(first.wait_for_out("world=2"));
  (void)dir.write("end", "");
  CHECK(cluster.exit_codes() == std::vector{0, 0});
}

}  // namespace ddprun::test
