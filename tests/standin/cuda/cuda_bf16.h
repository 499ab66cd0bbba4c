// In place of CUDA's header of this name: the type alone, which the tensor cores' interface takes.
#pragma once

#include <cstdint>

struct __nv_bfloat16 {  // allowed: CUDA's own name
  std::uint16_t bits;
};
