#include "trainer/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace ddp {

std::string fingerprint(std::span<const std::span<const std::byte>> parts) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& part : parts) {
    XXH3_64bits_update(&state, part.data(), part.size());
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_digest(&state)));
  return text;
}

}  // namespace ddp
