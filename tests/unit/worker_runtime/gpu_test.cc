// The GPU library. Where there is no GPU it must still load and say so; the rest skips.
#include "worker_runtime/gpu.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/tensor.h"
#include "tests/support/skip.h"
#include "worker_runtime/collectives/single_process_group.h"

using namespace ddp;

TEST_CASE("the GPU library loads without a driver and says why there is no GPU", "[gpu]") {
  // Beside this program's folder: both may have been carried to a machine with a GPU.
  const auto built = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  void* library = ::dlopen((built / "lib" / DDPRUN_CUDA_LIBRARY).c_str(), RTLD_NOW | RTLD_LOCAL);
  INFO((library == nullptr ? ::dlerror() : ""));
  REQUIRE(library != nullptr);
  auto* factory = reinterpret_cast<GpuFactory*>(::dlsym(library, kGpuFactoryName));
  REQUIRE(factory != nullptr);
  std::string why_not;
  Gpu* const gpu = factory(&why_not);
  if (gpu != nullptr) {
    CHECK(why_not.empty());
    CHECK(gpu->device_count() > 0);
  } else if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    CHECK(why_not == "the NVIDIA driver does not answer");
  } else {
    CHECK_FALSE(why_not.empty());  // no device, or none that may be used: CUDA's own words
  }
}

TEST_CASE("tensors on a GPU are filled, divided and copied", "[gpu]") {
  std::string why_not;
  Gpu* gpu = find_gpu(&why_not);
  if (gpu == nullptr) {
    SKIP_TEST("gpu", why_not);
  }
  const Tensor values = Tensor::empty({1000}, DType::f32, Device::cuda(0));
  values.fill(6.0);
  gpu->divide(values.raw(), values.size(), DType::f32, 4.0, 0);
  const Tensor host = Tensor::empty({1000}, DType::f32);
  host.copy_from(values);
  for (const float value : host.values<float>()) {
    REQUIRE(value == 1.5F);
  }
  values.zero();
  host.copy_from(values);
  CHECK(host.values<float>()[999] == 0.0F);
}

TEST_CASE("NCCL with one rank reduces to the same values", "[gpu]") {
  std::string why_not;
  Gpu* gpu = find_gpu(&why_not);
  if (gpu == nullptr) {
    SKIP_TEST("gpu", why_not);
  }
  auto group = gpu->connect_nccl({.device = 0,
                                  .timeout = std::chrono::seconds(60),
                                  .connect_timeout = std::chrono::seconds(60),
                                  .host = make_alone_process_group(),
                                  .watch = nullptr});
  const Tensor tensor = Tensor::empty({4096}, DType::f32, Device::cuda(0));
  tensor.fill(3.0);
  group->all_reduce(tensor);
  group->broadcast(tensor, 0);
  group->barrier();
  const Tensor host = Tensor::empty({4096}, DType::f32);
  host.copy_from(tensor);
  CHECK(host.values<float>()[0] == 3.0F);
  CHECK(host.values<float>()[4095] == 3.0F);
}
