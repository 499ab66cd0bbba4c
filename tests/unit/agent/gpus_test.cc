#include "agent/host/gpus.h"

#include <stdlib.h>

#include <catch2/catch.hpp>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// Empty places, so that the machine's own GPUs do not matter.
class Machine {
 public:
  void with_nvml(const char* gpus) {
    ::setenv("FAKE_NVML", gpus, 1);
    places_.nvml = FAKE_NVML;
  }
  void write(const std::string& path, const std::string& text) { dir_.write(path, text); }
  [[nodiscard]] GpuCount count(const char* visible = nullptr) const {
    return count_gpus(visible, places_);
  }

 private:
  test::TempDir dir_;
  GpuPlaces places_{dir_.path() / "libnvidia-ml.so.1", dir_.path() / "gpus", dir_.path() / "dev"};
};

TEST_CASE("a machine without a GPU says where it looked", "[agent]") {
  const Machine machine;
  const auto gpus = machine.count("0,1");
  CHECK(gpus.count == 0);
  CHECK_THAT(gpus.how, Catch::Contains("libnvidia-ml.so.1") && Catch::Contains("is not installed"));
  CHECK_THAT(gpus.how, Catch::Contains("nothing in ") && Catch::Contains("/gpus"));
  CHECK_THAT(gpus.how, Catch::Contains("/dev/nvidia<number>"));
}

TEST_CASE("NVML counts the GPUs that this process may use", "[agent]") {
  Machine machine;
  machine.with_nvml("GPU-aa,GPU-bb,forbidden,GPU-cc");
  CHECK(machine.count().count == 3);
  CHECK(machine.count().how == "NVML found 3 GPUs");
}

TEST_CASE("CUDA_VISIBLE_DEVICES limits what NVML found, and the answer says so", "[agent]") {
  Machine machine;
  machine.with_nvml("GPU-aa,GPU-bb,GPU-cc,GPU-dd");
  CHECK(machine.count("").count == 0);
  CHECK(machine.count("2,0").count == 2);
  CHECK(machine.count("GPU-bb,GPU-d").count == 2);
  const auto cut = machine.count("1,7,2");
  CHECK(cut.count == 1);
  CHECK_THAT(cut.how,
             Catch::Contains("CUDA_VISIBLE_DEVICES='1,7,2' leaves 1") && Catch::Contains("'7'"));
}

TEST_CASE("without a driver behind NVML the next places are asked", "[agent]") {
  Machine machine;
  machine.with_nvml("no driver");
  CHECK_THAT(machine.count().how, Catch::Contains("Driver Not Loaded"));
  machine.write("gpus/0000:18:00.0/information", "Model: \t H200\nGPU UUID: \t GPU-aa \nIRQ: 1\n");
  machine.write("gpus/0000:2a:00.0/information", "GPU UUID: \t GPU-bb\n");
  CHECK(machine.count().count == 2);
  CHECK(machine.count("GPU-b").count == 1);
  CHECK(machine.count("GPU-c").count == 0);
}

TEST_CASE("device files count where there is nothing better", "[agent]") {
  Machine machine;
  for (const char* name : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia",
                           "nvidia3x", "null"}) {
    machine.write(std::string("dev/") + name, "");
  }
  CHECK(machine.count().count == 3);
  CHECK(machine.count("0,2").count == 2);
}

TEST_CASE("a library that is not NVML is named, not trusted", "[agent]") {
  const auto gpus = count_gpus(nullptr, {"libm.so.6", "/nonexistent", "/nonexistent"});
  CHECK(gpus.count == 0);
  CHECK_THAT(gpus.how, Catch::Contains("lacks the functions"));
}

}  // namespace
}  // namespace ddprun
