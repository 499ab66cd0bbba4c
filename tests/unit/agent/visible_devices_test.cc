#include "agent/host/visible_devices.h"

#include <catch2/catch.hpp>

namespace ddprun {
namespace {

const std::vector<std::string> kFour = {"GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"};

TEST_CASE("an empty list or -1 hides all GPUs", "[agent]") {
  CHECK(visible_devices("", kFour).count == 0);
  CHECK(visible_devices(" ", kFour).count == 0);
  CHECK(visible_devices("-1", kFour).count == 0);
  CHECK(visible_devices("-1,0", kFour).count == 0);
  CHECK(visible_devices("none", kFour).count == 0);
}

TEST_CASE("indices count as far as they are good", "[agent]") {
  CHECK(visible_devices("0", kFour).count == 1);
  CHECK(visible_devices("3,1", kFour).count == 2);
  CHECK(visible_devices(" 0 , 2 ", kFour).count == 2);
  CHECK(visible_devices("0,1,2,3", kFour).count == 4);
  const auto cut = visible_devices("0,4,1", kFour);
  CHECK(cut.count == 1);
  CHECK(cut.rejected == "4");
  CHECK(visible_devices("0,-1,1", kFour).count == 1);
  CHECK(visible_devices("2,", kFour).count == 1);
  CHECK(visible_devices("2,,1", kFour).count == 1);
  CHECK(visible_devices("0,99999999999999999999", kFour).count == 1);
}

TEST_CASE("what follows an index is not looked at, as with strtoul", "[agent]") {
  CHECK(visible_devices("1gpu,2ampere", kFour).count == 2);
  CHECK(visible_devices("+1", kFour).count == 1);
}

TEST_CASE("the same GPU twice leaves none", "[agent]") {
  CHECK(visible_devices("0,1,0", kFour).count == 0);
  CHECK(visible_devices("GPU-cc,GPU-cc44", kFour).count == 0);
}

TEST_CASE("a GPU may be named by the unique beginning of its UUID", "[agent]") {
  CHECK(visible_devices("GPU-bb33", kFour).count == 1);
  CHECK(visible_devices("GPU-b,GPU-c", kFour).count == 2);
  const auto ambiguous = visible_devices("GPU-bb,GPU-aa,GPU-cc", kFour);
  CHECK(ambiguous.count == 1);
  CHECK(ambiguous.rejected == "GPU-aa");
  CHECK(visible_devices("GPU-dd", kFour).count == 0);
  CHECK(visible_devices("GPU-bb,1", kFour).count == 1);
  CHECK(visible_devices("1,GPU-bb", kFour).count == 1);
}

TEST_CASE("where no UUID is known, names count up to the number of GPUs", "[agent]") {
  const std::vector<std::string> two = {"", ""};
  CHECK(visible_devices("GPU-x", two).count == 1);
  CHECK(visible_devices("GPU-x,GPU-y,GPU-z", two).count == 2);
  CHECK(visible_devices("GPU-x,GPU-x", two).count == 0);
  CHECK(visible_devices("0,1", two).count == 2);
}

TEST_CASE("a list of MIG devices is one device to a process", "[agent]") {
  CHECK(visible_devices("MIG-1,MIG-2", kFour).count == 1);
  CHECK(visible_devices("MIG-1", {}).count == 0);
}

}  // namespace
}  // namespace ddprun
