// The memory of this process, for StepRecord::memory_bytes.
#pragma once

#include <cstdint>

namespace ddp {

/// Bytes in memory now (resident set); 0 where /proc does not say.
std::int64_t resident_bytes();

}  // namespace ddp
