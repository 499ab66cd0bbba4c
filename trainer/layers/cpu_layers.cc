#include "ddp/error.h"
#include "trainer/layers/bf16_product.h"
#include "trainer/layers/layers.h"
#include "trainer/layers/team.h"

namespace ddp {

namespace level_base {
extern const Layers kLayers;
extern const Layers kBf16Layers;
}  // namespace level_base
#ifdef DDP_LEVELS
namespace level_v3 {
extern const Layers kLayers;
}
namespace level_v4 {
extern const Layers kLayers;
extern const Layers kBf16Layers;
}  // namespace level_v4
#endif

const Layers* cpu_layers_of(std::string_view level) {
#ifdef DDP_LEVELS
  // What the levels add and these sources may use; each processor that has the last has them all.
  if (level == "level_v4") {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                   __builtin_cpu_supports("avx512cd") != 0 &&
                   __builtin_cpu_supports("avx512dq") != 0 &&
                   __builtin_cpu_supports("avx512vl") != 0
               ? &level_v4::kLayers
               : nullptr;
  }
  if (level == "level_v3") {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                   __builtin_cpu_supports("bmi2") != 0
               ? &level_v3::kLayers
               : nullptr;
  }
#endif
  return level == "level_base" ? &level_base::kLayers : nullptr;
}

/// The best first. What the processor has is asked once a call; the answer never changes.
const Layers& cpu_layers(Precision precision) {
  if (precision == Precision::bf16) {
    if (!has_bf16_products()) {
      throw Error(
          "--precision bf16: this processor has no instructions for bf16 (avx512_bf16 in "
          "/proc/cpuinfo), and would be slower than with f32; leave --precision out");
    }
#ifdef DDP_LEVELS
    return level_v4::kBf16Layers;  // a processor with these instructions has that level
#else
    return level_base::kBf16Layers;
#endif
  }
  for (const std::string_view level : {"level_v4", "level_v3"}) {
    if (const Layers* layers = cpu_layers_of(level)) {
      return *layers;
    }
  }
  return level_base::kLayers;
}

std::size_t cpu_layer_threads() {
  return level_base::team_size();
}

}  // namespace ddp
