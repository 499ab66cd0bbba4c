#include "agent/warm/warm_environment.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace ddprun;

using List = std::vector<std::string>;

TEST_CASE("a waiting process has no variable that the next attempt may change", "[agent]") {
  const List worker{"RANK=3",
                    "WORLD_SIZE=8",
                    "MASTER_PORT=29500",
                    "MASTER_ADDR=a",
                    "GROUP_RANK=1",
                    "ROLE_RANK=3",
                    "ROLE_WORLD_SIZE=8",
                    "GROUP_WORLD_SIZE=2",
                    "LOCAL_RANK=1",
                    "OMP_NUM_THREADS=1",
                    "TORCHELASTIC_RESTART_COUNT=0",
                    "TORCHELASTIC_ERROR_FILE=/tmp/e",
                    "DDPRUN_PROGRESS_CHANNEL=/proc/1/fd/9"};
  CHECK(warm_environment(worker, {}) ==
        List{"LOCAL_RANK=1", "OMP_NUM_THREADS=1", "PYTHONPATH=/proc/self/fd/4"});
}

TEST_CASE("a variable that only begins like one of those stays", "[agent]") {
  CHECK(warm_environment({"RANKS=1", "WORLD_SIZE_X=2"}, {}) ==
        List{"RANKS=1", "WORLD_SIZE_X=2", "PYTHONPATH=/proc/self/fd/4"});
}

TEST_CASE("the user's PYTHONPATH follows ours, unless it is empty", "[agent]") {
  CHECK(warm_environment({"PYTHONPATH=/a:/b"}, {}) == List{"PYTHONPATH=/proc/self/fd/4:/a:/b"});
  CHECK(warm_environment({"PYTHONPATH="}, {}) == List{"PYTHONPATH=/proc/self/fd/4"});
}

TEST_CASE("what to import ahead is told, and never taken from outside", "[agent]") {
  CHECK(warm_environment({"DDPRUN_WARM_IMPORTS=evil"}, {"pandas", "scipy"}) ==
        List{"PYTHONPATH=/proc/self/fd/4", "DDPRUN_WARM_IMPORTS=pandas,scipy"});
  CHECK(warm_environment({"DDPRUN_WARM_IMPORTS=evil"}, {}) == List{"PYTHONPATH=/proc/self/fd/4"});
}

TEST_CASE("an environment goes over entry by entry, whatever is in the values", "[agent]") {
  CHECK(environment_text({}).empty());
  CHECK(environment_text({"A=1\n2", "B=", "C==\xff"}) == std::string("A=1\n2\0B=\0C==\xff\0", 14));
}
