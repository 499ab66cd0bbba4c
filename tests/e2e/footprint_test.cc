// What an agent takes from the node that it runs on, beside its workers: hardly any time, and
// nothing of a GPU.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// How often it has gone to sleep since its start.
int sleeps_of(pid_t pid) {
  return std::atoi(
      line_after(read_file("/proc/" + std::to_string(pid) + "/status"), "voluntary_ctxt_switches:")
          .c_str());
}

}  // namespace

TEST_CASE("The agents of an idle job wake for their heartbeats and hardly for anything else") {
  Cluster cluster({.nodes = 2, .program = shell("echo ready; exec sleep 1000")});
  REQUIRE(cluster.start_in_order());
  for (const int node : {0, 1}) {
    REQUIRE(cluster.node(node).wait_for_out("ready", 2));
  }
  const pid_t agents[] = {cluster.agent(0), cluster.agent(1)};
  const int before[] = {sleeps_of(agents[0]), sleeps_of(agents[1])};
  REQUIRE((before[0] > 0 && before[1] > 0));
  const auto awake = [&](int node) { return sleeps_of(agents[node]) - before[node]; };
  // Two heartbeats in the timeout, which is 3 s. For each an agent wakes three or four times: for
  // the beat, for its answer and for timers. Twice the ten that these make.
  constexpr int kMost = 20;
  const auto end = std::chrono::steady_clock::now() + 3s;
  REQUIRE(wait_until([&] { return std::chrono::steady_clock::now() >= end; }));
  for (const int node : {0, 1}) {
    CHECK(awake(node) > 0);
    CHECK(awake(node) <= kMost);
  }
}

TEST_CASE("An agent that looks for GPUs loads nothing that would take memory on them") {
  // Libraries of these names are there to be loaded, on a machine without any GPU too.
  const TempDir dir;
  Dl_info some_library{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(&std::cbrt)),
                   &some_library) != 0);
  for (const char* const name : {"libcuda.so.1", "libcudart.so.12", "libcudart.so.13"}) {
    std::filesystem::copy_file(some_library.dli_fname, dir.file(name));
  }
  Cluster cluster({.nodes = 1,
                   .options = {"--nproc-per-node", "auto"},
                   .program = {"python3", "-c",
                               "import ctypes, os, time\n"
                               "ctypes.CDLL('libcuda.so.1'), ctypes.CDLL('libcudart.so.12')\n"
                               "print('loaded', os.environ['RANK'], flush=True); time.sleep(1000)"},
                   .environment = {{"LD_LIBRARY_PATH", dir.path()}}});
  cluster.start_all();
  REQUIRE(cluster.all_say({0}, "loaded 0"));
  const auto maps_of = [](pid_t pid) {
    return read_file("/proc/" + std::to_string(pid) + "/maps");
  };
  const std::string worker = maps_of(cluster.worker(0));
  CHECK((contains(worker, "/libcuda.so") && contains(worker, "/libcudart.so")));
  const std::string agent = maps_of(cluster.agent(0));
  CHECK(contains(agent, "/ddprun"));
  CHECK_FALSE(contains(agent, "/libcuda"));  // libcudart too
}

}  // namespace ddprun::test
