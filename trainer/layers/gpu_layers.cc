#include "ddp/tensor.h"
#include "trainer/layers/gpu_library.h"
#include "trainer/layers/layers.h"

namespace ddp {

// The kernels are in the library that only a machine with a GPU opens (gpu_library.h): a program
// without one neither links nor loads anything of CUDA. Two functions and no template: each kind of
// numbers has a name of its own in the library.

template <>
const LayersOf<float>& gpu_layers<float>() {
  return *reinterpret_cast<GpuLayersFactory<float>*>(gpu_library_symbol(kGpuLayersF32))();
}

template <>
const LayersOf<BFloat16>& gpu_layers<BFloat16>() {
  return *reinterpret_cast<GpuLayersFactory<BFloat16>*>(gpu_library_symbol(kGpuLayersBf16))();
}

const Layers& f32_layers(Device device) {
  return device.is_cuda() ? gpu_layers<float>() : cpu_layers();
}

}  // namespace ddp
