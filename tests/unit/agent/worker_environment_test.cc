#include "agent/process/worker_environment.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

using namespace ddprun;

namespace {

JobSpec job() {
  JobSpec spec;
  spec.job_id = "job7";
  spec.max_restarts = 4;
  spec.local_world_size = 2;
  spec.role = "trainer";
  spec.signals_to_handle_text = "SIGTERM,SIGINT";
  return spec;
}

World world() {
  World world;
  world.attempt = AttemptNumber{5};
  world.group_rank = 1;
  world.group_world_size = 3;
  world.base_rank = 4;
  world.world_size = 9;
  world.role_base_rank = 2;
  world.role_world_size = 7;
  world.attempt = AttemptNumber{3};
  world.restarts_used = 2;
  world.master_addr = "10.0.0.1";
  world.master_port = 41234;
  return world;
}

using Variables = std::map<std::string, std::string>;

Variables variables(const std::vector<std::string>& environment) {
  Variables found;
  for (const auto& entry : environment) {
    const auto equals = entry.find('=');
    REQUIRE(equals != std::string::npos);
    // Every name once: which of two getenv finds is nobody's promise.
    REQUIRE(found.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second);
  }
  return found;
}

Variables make(const std::vector<std::string>& inherited, const JobSpec& spec, int local_rank = 1) {
  const World w = world();
  const auto environment =
      worker_environment(inherited, spec, {w, local_rank, "/logs/error.json", "/proc/1/fd/9"});
  REQUIRE(environment.has_value());
  return variables(*environment);
}

}  // namespace

TEST_CASE("a worker gets every variable of the contract", "[agent]") {
  const Variables expected{{"LOCAL_RANK", "1"},
                           {"RANK", "5"},
                           {"GROUP_RANK", "1"},
                           {"ROLE_RANK", "3"},
                           {"ROLE_NAME", "trainer"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"WORLD_SIZE", "9"},
                           {"GROUP_WORLD_SIZE", "3"},
                           {"ROLE_WORLD_SIZE", "7"},
                           {"MASTER_ADDR", "10.0.0.1"},
                           {"MASTER_PORT", "41234"},
                           {"TORCHELASTIC_RESTART_COUNT", "3"},
                           {"TORCHELASTIC_MAX_RESTARTS", "4"},
                           {"TORCHELASTIC_RUN_ID", "job7"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                           {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                           {"TORCHELASTIC_ERROR_FILE", "/logs/error.json"},
                           {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT"},
                           {"DDPRUN_PROGRESS_CHANNEL", "/proc/1/fd/9"},
                           {"OMP_NUM_THREADS", "1"}};
  CHECK(make({}, job()) == expected);
}

TEST_CASE("the agent's environment is inherited, and the contract's variables win", "[agent]") {
  const Variables v = make({"PATH=/bin", "EMPTY=", "EQUALS=a=b", "RANK=77", "MASTER_ADDR=old",
                            "TORCHELASTIC_RUN_ID=old", "no equals sign", "=odd"},
                           job());
  CHECK(v.at("PATH") == "/bin");
  CHECK(v.at("EMPTY").empty());
  CHECK(v.at("EQUALS") == "a=b");
  CHECK(v.at("RANK") == "5");
  CHECK(v.at("MASTER_ADDR") == "10.0.0.1");
  CHECK(v.at("TORCHELASTIC_RUN_ID") == "job7");
  CHECK(v.count("") == 0);
}

TEST_CASE("a worker without log files or channel is told so, whatever is inherited", "[agent]") {
  const World w = world();
  const auto environment = worker_environment(
      {"DDPRUN_PROGRESS_CHANNEL=/proc/2/fd/3", "TORCHELASTIC_ERROR_FILE=/agents.json"}, job(),
      {w, 0, "", ""});
  REQUIRE(environment.has_value());
  const Variables v = variables(*environment);
  CHECK(v.at("TORCHELASTIC_ERROR_FILE").empty());
  CHECK(v.count("DDPRUN_PROGRESS_CHANNEL") == 0);
}

TEST_CASE("Gloo and NCCL are told the interface to the other nodes, unless the user did (I-4)",
          "[agent]") {
  const World w = world();
  const WorkerPlace place{w, 0, "", "", "eth1"};
  const auto made = [&](const std::vector<std::string>& inherited) {
    const auto environment = worker_environment(inherited, job(), place);
    REQUIRE(environment.has_value());
    return variables(*environment);
  };
  CHECK(made({}).at("GLOO_SOCKET_IFNAME") == "eth1");
  CHECK(made({"GLOO_SOCKET_IFNAME=ib0"}).at("GLOO_SOCKET_IFNAME") == "ib0");
  CHECK(make({}, job()).count("GLOO_SOCKET_IFNAME") == 0);
  CHECK(made({}).at("NCCL_SOCKET_IFNAME") == "=eth1");
  CHECK(made({"NCCL_SOCKET_IFNAME=ib"}).at("NCCL_SOCKET_IFNAME") == "ib");
  CHECK(made({"NCCL_SOCKET_IFNAME="}).at("NCCL_SOCKET_IFNAME").empty());
  CHECK(make({}, job()).count("NCCL_SOCKET_IFNAME") == 0);
}

TEST_CASE("OMP_NUM_THREADS becomes 1 only where it is unset and workers share a node", "[agent]") {
  JobSpec several = job();
  JobSpec alone = job();
  alone.local_world_size = 1;
  CHECK(make({}, several).at("OMP_NUM_THREADS") == "1");
  CHECK(make({"OMP_NUM_THREADS=8"}, several).at("OMP_NUM_THREADS") == "8");
  CHECK(make({"OMP_NUM_THREADS="}, several).at("OMP_NUM_THREADS").empty());
  CHECK(make({}, alone, 0).count("OMP_NUM_THREADS") == 0);
  CHECK(make({"OMP_NUM_THREADS=8"}, alone, 0).at("OMP_NUM_THREADS") == "8");
  CHECK(sets_omp_threads({"PATH=/bin"}, several));
  CHECK(!sets_omp_threads({"OMP_NUM_THREADS=8"}, several));
  CHECK(!sets_omp_threads({"OMP_NUM_THREADS="}, several));
  CHECK(!sets_omp_threads({}, alone));
}

TEST_CASE("the agent's store is used unless TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 1", "[agent]") {
  const auto value = [](const std::string& setting) {
    return make({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE=" + setting}, job())
        .at("TORCHELASTIC_USE_AGENT_STORE");
  };
  CHECK(value("1") == "False");
  CHECK(value("0") == "True");
  CHECK(value("") == "True");
}

TEST_CASE("NCCL's error handling is on unless the user says otherwise", "[agent]") {
  CHECK(make({"TORCH_NCCL_ASYNC_ERROR_HANDLING=0"}, job()).at("TORCH_NCCL_ASYNC_ERROR_HANDLING") ==
        "0");
}

TEST_CASE("with virtual local ranks every worker is 0 and sees one GPU", "[agent]") {
  JobSpec spec = job();
  spec.virtual_local_rank = true;
  const auto gpu = [&](const std::vector<std::string>& inherited, int local_rank) {
    const Variables v = make(inherited, spec, local_rank);
    CHECK(v.at("LOCAL_RANK") == "0");
    CHECK(v.at("RANK") == std::to_string(4 + local_rank));
    return v.at("CUDA_VISIBLE_DEVICES");
  };
  CHECK(gpu({}, 0) == "0");
  CHECK(gpu({}, 1) == "1");
  CHECK(gpu({"CUDA_VISIBLE_DEVICES="}, 0).empty());  // all are hidden, and stay so
  CHECK(gpu({"CUDA_VISIBLE_DEVICES=6,4"}, 1) == "4");
  CHECK(gpu({"CUDA_VISIBLE_DEVICES=6, 4 ,2"}, 1) == "4");
  CHECK(gpu({"CUDA_VISIBLE_DEVICES=GPU-abc,MIG-def"}, 1) == "MIG-def");
}

TEST_CASE("virtual local ranks with too few visible GPUs are an error that counts them",
          "[agent]") {
  JobSpec spec = job();
  spec.virtual_local_rank = true;
  const World w = world();
  const auto environment = worker_environment({"CUDA_VISIBLE_DEVICES=3"}, spec, {w, 1, "", ""});
  REQUIRE(!environment);
  const std::string sentence = environment.error().sentence();
  CHECK(sentence.find("CUDA_VISIBLE_DEVICES='3'") != std::string::npos);
  CHECK(sentence.find("--nproc-per-node") != std::string::npos);
  const auto hidden = worker_environment({"CUDA_VISIBLE_DEVICES="}, spec, {w, 1, "", ""});
  REQUIRE(!hidden);
  CHECK(hidden.error().what == "it names 0 GPUs, and local rank 1 needs one of its own");
}

TEST_CASE("without virtual local ranks the visible GPUs are left alone", "[agent]") {
  CHECK(make({"CUDA_VISIBLE_DEVICES=3"}, job()).at("CUDA_VISIBLE_DEVICES") == "3");
  CHECK(make({}, job()).count("CUDA_VISIBLE_DEVICES") == 0);
}

TEST_CASE("an argument gets the local rank and nothing else", "[agent]") {
  CHECK(substitute_local_rank("--device=cuda:${local_rank}", 7) == "--device=cuda:7");
  CHECK(substitute_local_rank("$local_rank $rank $$ ${role_name}", 7) == "7 $rank $ ${role_name}");
}

TEST_CASE("of two variables with one name the worker gets the first, as getenv does", "[agent]") {
  CHECK(make({"NCCL_DEBUG=INFO", "NCCL_DEBUG=WARN"}, job()).at("NCCL_DEBUG") == "INFO");
  CHECK(make({"OMP_NUM_THREADS=", "OMP_NUM_THREADS=4"}, job()).at("OMP_NUM_THREADS").empty());
  CHECK(
      make({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE=0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"}, job())
          .at("TORCHELASTIC_USE_AGENT_STORE") == "True");
  CHECK(make({"RANK=7", "RANK=8"}, job()).at("RANK") == "5");  // the contract's own come last
}
