// for_row_chunks: the rows of a matrix in chunks, over the threads that there are. The chunks
// depend on the number of rows alone, so that sums by chunk have the same bits with any number of
// threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ddp {

inline constexpr std::int64_t kChunksMax = 64;

/// Rows of each chunk but the last.
inline std::int64_t rows_per_chunk(std::int64_t rows) {
  return std::max<std::int64_t>(1, (rows + kChunksMax - 1) / kChunksMax);
}

/// At most kChunksMax.
inline std::int64_t chunk_count(std::int64_t rows) {
  return (rows + rows_per_chunk(rows) - 1) / rows_per_chunk(rows);
}

/// Calls body(chunk, first row, row after the last) for each chunk. `body` must not throw.
template <class Body>
void for_row_chunks(std::int64_t rows, const Body& body) {
  const std::int64_t size = rows_per_chunk(rows);
  const std::int64_t count = chunk_count(rows);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (std::int64_t chunk = 0; chunk < count; ++chunk) {
    body(chunk, chunk * size, std::min(rows, (chunk + 1) * size));
  }
}

}  // namespace ddp
