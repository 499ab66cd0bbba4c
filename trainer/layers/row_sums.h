// Sums over the rows of a matrix, column by column: what a bias gets.
#pragma once

#include <cstddef>

#include "trainer/layers/team.h"

namespace ddp::DDP_LEVEL {

/// Adds the rows of a matrix (rows, columns) to `sums`, each column from the first row to the last.
inline __attribute__((always_inline)) void add_rows(const float* matrix, std::size_t rows,
                                                    std::size_t columns, float* sums) {
  share_out(columns, columns_worth_sharing(rows, columns),
            [&](std::size_t first, std::size_t end, std::size_t) {
              float* __restrict to = sums;
              for (std::size_t row = 0; row < rows; ++row) {
                const float* from = matrix + row * columns;
                for (std::size_t c = first; c < end; ++c) {
                  to[c] += from[c];
                }
              }
            });
}

}  // namespace ddp::DDP_LEVEL
