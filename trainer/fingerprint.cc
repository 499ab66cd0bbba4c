#include "trainer/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace ddp {

/// Hidden here, because xxhash.h is inline as a whole: 5,000 lines for each file that would see it.
struct Fingerprint::State {
  XXH3_state_t hash;
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->hash);
}

Fingerprint::~Fingerprint() = default;

void Fingerprint::add(const void* bytes, std::size_t size) {
  XXH3_64bits_update(&state_->hash, bytes, size);
}

std::string Fingerprint::text() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_digest(&state_->hash)));
  return text;
}

}  // namespace ddp
