#include "agent/host/compared_variables.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

std::vector<std::string> names(const NodeEnvironment& environment) {
  std::vector<std::string> names;
  for (const EnvironmentFact& fact : environment) {
    names.push_back(fact.name);
  }
  return names;
}

}  // namespace

TEST_CASE("What libraries below a worker read is compared, what is a node's own is not") {
  for (const char* name :
       {"NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS", "PYTHONPATH", "LD_LIBRARY_PATH",
        "PYTORCH_CUDA_ALLOC_CONF", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "GLOO_SOCKET_IFNAME",
        "CUDA_DEVICE_MAX_CONNECTIONS", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"}) {
    INFO(name);
    CHECK(is_compared_variable(name));
  }
  for (const char* name : {"PATH", "HOME", "HOSTNAME", "SLURM_NODEID", "CUDA_VISIBLE_DEVICES",
                           "NVIDIA_VISIBLE_DEVICES", "NCCL_HOSTID", "TORCHELASTIC_ERROR_FILE", "",
                           "nccl_debug", "RANK"}) {
    INFO(name);
    CHECK_FALSE(is_compared_variable(name));
  }
}

TEST_CASE("Variables come by name, the first of a name that is there twice") {
  const NodeEnvironment found =
      compared_variables({"OMP_NUM_THREADS=4", "HOME=/home/me", "NCCL_DEBUG=INFO=x",
                          "NCCL_DEBUG=WARN", "NCCL_ALGO", "NCCL_IB_HCA="},
                         {});
  CHECK(found ==
        NodeEnvironment{{"NCCL_DEBUG", "INFO=x"}, {"NCCL_IB_HCA", ""}, {"OMP_NUM_THREADS", "4"}});
}

TEST_CASE("What may be a secret leaves the machine as 32 bits of a hash") {
  for (const char* name : {"TORCH_HUB_TOKEN", "NCCL_NET_KEY", "PYTORCH_my_secret", "FI_PASSWORD",
                           "TORCH_PASSWD", "UCX_CREDENTIALS"}) {
    INFO(name);
    const auto one = compared_variables({std::string(name) + "=hunter2"}, {});
    const auto other = compared_variables({std::string(name) + "=hunter3"}, {});
    REQUIRE(one.size() == 1);
    CHECK(one[0].value.size() == std::string("<hidden 01234567>").size());
    CHECK(one[0].value.starts_with("<hidden "));
    CHECK(one != other);
    CHECK(one == compared_variables({std::string(name) + "=hunter2"}, {}));
  }
}

TEST_CASE("Of arguments the values of options that may be secret leave the machine as hashes") {
  const std::string text =
      compared_arguments({"--lr", "0.1", "--api-key=hunter2", "--token", "hunter2",
                          "db.password=hunter2", "--key", "--epochs", "5"});
  CHECK(text.find("hunter2") == std::string::npos);
  CHECK(text.starts_with("--lr 0.1 --api-key=<hidden "));
  CHECK(text.find(" --token <hidden ") != std::string::npos);
  CHECK(text.find(" db.password=<hidden ") != std::string::npos);
  CHECK(text.ends_with(" --key --epochs 5"));
  CHECK(text.find(compared_arguments({"--token", "hunter3"})) == std::string::npos);
  CHECK(text.find(compared_arguments({"--token", "hunter2"})) != std::string::npos);
  CHECK(compared_arguments({}) == "<none>");
}

TEST_CASE("Names and beginnings that are ignored are not compared") {
  const std::vector<std::string> all = {"NCCL_DEBUG=1", "NCCL_IB_HCA=2", "NCCL_IB_GID=3"};
  CHECK(names(compared_variables(all, {"NCCL_DEBUG"})) ==
        std::vector<std::string>{"NCCL_IB_GID", "NCCL_IB_HCA"});
  CHECK(names(compared_variables(all, {"NCCL_IB_*", "gpu"})) ==
        std::vector<std::string>{"NCCL_DEBUG"});
  CHECK(compared_variables(all, {"*"}).empty());
  CHECK(compared_variables(all, {"NCCL"}).size() == 3);  // a name, not a beginning
}

TEST_CASE("A name to be ignored that nothing has is known as such") {
  for (const char* name :
       {"gpu", "nccl", "NCCL_DEBUG", "NCCL_*", "NCCL_IB_*", "PYTHON*", "*", "LD_PRELOAD", "NC*"}) {
    INFO(name);
    CHECK(names_a_fact(name));
  }
  for (const char* name : {"gpus", "GPU", "NCCL", "PATH", "", "HOME*", "CUDA_VISIBLE_DEVICES"}) {
    INFO(name);
    CHECK_FALSE(names_a_fact(name));
  }
}

TEST_CASE("Values at their limit stay, longer ones are cut and told apart by a hash") {
  const std::string full(kFactValueBytesMax, 'x');
  CHECK(bounded_value(full) == full);
  const std::string one = bounded_value(full + "1");
  const std::string other = bounded_value(full + "2");
  CHECK(one.size() == kFactValueBytesMax);
  CHECK(one != other);
  CHECK(one.starts_with("xxxx"));
}

TEST_CASE("A thousand variables make a bounded list that still tells any two apart") {
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back("NCCL_" + std::to_string(i) + "=1");
  }
  const NodeEnvironment before = compared_variables(many, {});
  CHECK(before.size() + std::size(kMachineFacts) + std::size(kOptionFacts) <= kFactsMax);
  many.back() = "NCCL_999=2";
  CHECK(compared_variables(many, {}) != before);
}

TEST_CASE("Digests are equal for equal facts alone, and none for none") {
  CHECK_FALSE(digest_of({}).told());
  CHECK(digest_of({{"a", "b"}}).told());
  CHECK(digest_of({{"a", "b"}}) == digest_of({{"a", "b"}}));
  CHECK(digest_of({{"a", "b"}}) != digest_of({{"a", "c"}}));
  CHECK(digest_of({{"a", "bc"}}) != digest_of({{"ab", "c"}}));
  CHECK(digest_of({{"a", ""}, {"b", ""}}) != digest_of({{"a", ""}}));
}
