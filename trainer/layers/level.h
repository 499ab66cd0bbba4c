// The level of x86-64 that a source of this folder is compiled for. The sources that hold loops are
// compiled once for each level (CMakeLists.txt), into a namespace of that level's name;
// cpu_layers() takes the best that the processor runs. So they keep to plain memory and to
// functions that are always inlined: what two levels both emitted under one name would be either's
// in the end.
#pragma once

#include <cstddef>

#ifndef DDP_LEVEL
#define DDP_LEVEL level_base
#endif

namespace ddp::DDP_LEVEL {

/// What one instruction works on. Lanes that the level does not have would be taken apart again.
#if defined(__AVX512F__)
inline constexpr std::size_t kVectorBytes = 64;
inline constexpr std::size_t kTileRows = 12;  ///< 24 of 32 registers hold sums
#elif defined(__AVX__)
inline constexpr std::size_t kVectorBytes = 32;
inline constexpr std::size_t kTileRows = 6;  ///< 12 of 16
#else
inline constexpr std::size_t kVectorBytes = 16;
inline constexpr std::size_t kTileRows = 6;
#endif
inline constexpr std::size_t kLanes = kVectorBytes / sizeof(float);
/// Columns of a tile of a product: two vectors.
inline constexpr std::size_t kTileColumns = 2 * kLanes;

}  // namespace ddp::DDP_LEVEL
