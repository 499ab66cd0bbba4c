#include "launcher/hosts/passed_environment.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

using Variables = std::vector<std::string>;

Variables passed(const std::vector<const char*>& environment, const Variables& more = {}) {
  const auto result = passed_environment(environment, more, "--pass-env");
  return result ? *result : Variables{result.error().sentence()};
}

}  // namespace

TEST_CASE("Listed variables travel, and those that are asked for", "[launcher][hosts]") {
  const std::vector<const char*> environment = {"PATH=/a",
                                                "PATHS=/b",
                                                "NCCL_DEBUG=INFO",
                                                "HOME=/h",
                                                "PYTHONPATH=x\ny",
                                                "MINE=1",
                                                "OUR_A=2",
                                                "OUR_B=",
                                                "OMP_NUM_THREADS=1",
                                                "SECRET=3",
                                                "=odd",
                                                "PET_NNODES=2",
                                                "LD_LIBRARY_PATH=/l"};
  CHECK(passed(environment) == Variables{"PATH=/a", "NCCL_DEBUG=INFO", "PYTHONPATH=x\ny",
                                         "OMP_NUM_THREADS=1", "LD_LIBRARY_PATH=/l"});
  CHECK(passed({"MINE=1", "OUR_A=2", "OUR_B=", "OURS=4"}, {"MINE", "OUR_*"}) ==
        Variables{"MINE=1", "OUR_A=2", "OUR_B="});
}

TEST_CASE("The GPUs of this host are named to others only where that is asked for",
          "[launcher][hosts]") {
  CHECK(passed({"CUDA_VISIBLE_DEVICES=1", "CUDA_HOME=/c"}) == Variables{"CUDA_HOME=/c"});
  CHECK(passed({"CUDA_VISIBLE_DEVICES=1"}, {"CUDA_VISIBLE_DEVICES"}) ==
        Variables{"CUDA_VISIBLE_DEVICES=1"});
}

TEST_CASE("Where this host finds its cloud's metadata service says nothing of another's",
          "[launcher][hosts]") {
  const std::vector<const char*> own = {"DDPRUN_AZURE_METADATA_HOST=a", "GCE_METADATA_HOST=b",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://c"};
  CHECK(passed(own).empty());
  CHECK(passed(own, {"DDPRUN_AZURE_*"}) == Variables{"DDPRUN_AZURE_METADATA_HOST=a"});
}

TEST_CASE("A name that is none, or is not set, is an error", "[launcher][hosts]") {
  CHECK(passed({"A=1"}, {"B"}) ==
        Variables{"--pass-env: 'B' is not set here; set it, or leave it out"});
  CHECK(passed({"A=1"}, {"B*"}).empty());
  for (const char* name : {"A=1", "1A", "*", "A-B", "A*B"}) {
    CHECK(passed({"A=1"}, {name}) ==
          Variables{"--pass-env: '" + std::string(name) +
                    "' is no name of a variable; give names such as MY_VARIABLE or MY_*"});
  }
}

TEST_CASE("What was passed replaces a host's own, and no agent starts hosts again",
          "[launcher][hosts]") {
  const std::vector<const char*> own = {"PATH=/own", "HOME=/h", "PET_HOSTS=a,b", "PET_HOSTFILE=f",
                                        "PET_MAX_RESTARTS=1"};
  const Variables from_shell = {"PATH=/shell", "NCCL_DEBUG=INFO"};
  CHECK(merged_environment(own, from_shell) ==
        Variables{"PATH=/shell", "NCCL_DEBUG=INFO", "HOME=/h", "PET_MAX_RESTARTS=1"});
  CHECK(passed({"PET_HOSTS=a"}, {"PET_*"}).empty());
}
