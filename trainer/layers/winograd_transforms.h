// The four transforms of Winograd's F(2x2, 3x3) (winograd.h), each of as many channels as a vector
// has lanes. `load(row, column)` gives a vector, `store(row, column, vector)` takes one.
#pragma once

#include <cstddef>

#include "trainer/layers/tile.h"

namespace ddp::DDP_LEVEL {

inline __attribute__((always_inline)) Vector load_vector(const float* from) {
  return *reinterpret_cast<const LooseVector*>(from);
}
inline __attribute__((always_inline)) void store_vector(float* to, Vector vector) {
  *reinterpret_cast<LooseVector*>(to) = vector;
}

/// B^T d B, 4 x 4 of 4 x 4.
template <class Load, class Store>
inline __attribute__((always_inline)) void transform_input(const Load& load, const Store& store) {
  Vector rows[4][4];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    const Vector d[4] = {load(0, j), load(1, j), load(2, j), load(3, j)};
    rows[0][j] = d[0] - d[2];
    rows[1][j] = d[1] + d[2];
    rows[2][j] = d[2] - d[1];
    rows[3][j] = d[1] - d[3];
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    store(i, 0, rows[i][0] - rows[i][2]);
    store(i, 1, rows[i][1] + rows[i][2]);
    store(i, 2, rows[i][2] - rows[i][1]);
    store(i, 3, rows[i][1] - rows[i][3]);
  }
}

/// A^T m A, 2 x 2 of 4 x 4.
template <class Load, class Store>
inline __attribute__((always_inline)) void transform_output(const Load& load, const Store& store) {
  Vector rows[2][4];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    const Vector m[4] = {load(0, j), load(1, j), load(2, j), load(3, j)};
    rows[0][j] = m[0] + m[1] + m[2];
    rows[1][j] = m[1] - m[2] - m[3];
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
    store(i, 0, rows[i][0] + rows[i][1] + rows[i][2]);
    store(i, 1, rows[i][1] - rows[i][2] - rows[i][3]);
  }
}

/// A d A^T, 4 x 4 of 2 x 2: the transpose of transform_output().
template <class Load, class Store>
inline __attribute__((always_inline)) void transform_gradient(const Load& load,
                                                              const Store& store) {
  Vector rows[4][2];
#pragma GCC unroll 2
  for (std::size_t j = 0; j < 2; ++j) {
    const Vector d[2] = {load(0, j), load(1, j)};
    rows[0][j] = d[0];
    rows[1][j] = d[0] + d[1];
    rows[2][j] = d[0] - d[1];
    rows[3][j] = -d[1];
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    store(i, 0, rows[i][0]);
    store(i, 1, rows[i][0] + rows[i][1]);
    store(i, 2, rows[i][0] - rows[i][1]);
    store(i, 3, -rows[i][1]);
  }
}

/// G g G^T, 4 x 4 of 3 x 3.
template <class Load, class Store>
inline __attribute__((always_inline)) void transform_weight(const Load& load, const Store& store) {
  Vector rows[4][3];
#pragma GCC unroll 3
  for (std::size_t j = 0; j < 3; ++j) {
    const Vector g[3] = {load(0, j), load(1, j), load(2, j)};
    const Vector outer = 0.5F * (g[0] + g[2]);
    const Vector middle = 0.5F * g[1];
    rows[0][j] = g[0];
    rows[1][j] = outer + middle;
    rows[2][j] = outer - middle;
    rows[3][j] = g[2];
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const Vector outer = 0.5F * (rows[i][0] + rows[i][2]);
    const Vector middle = 0.5F * rows[i][1];
    store(i, 0, rows[i][0]);
    store(i, 1, outer + middle);
    store(i, 2, outer - middle);
    store(i, 3, rows[i][2]);
  }
}

/// G^T u G, 3 x 3 of 4 x 4: the transpose of transform_weight().
template <class Load, class Store>
inline __attribute__((always_inline)) void transform_weight_gradient(const Load& load,
                                                                     const Store& store) {
  Vector rows[3][4];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    const Vector u[4] = {load(0, j), load(1, j), load(2, j), load(3, j)};
    const Vector sum = 0.5F * (u[1] + u[2]);
    rows[0][j] = u[0] + sum;
    rows[1][j] = 0.5F * (u[1] - u[2]);
    rows[2][j] = u[3] + sum;
  }
#pragma GCC unroll 3
  for (std::size_t i = 0; i < 3; ++i) {
    const Vector sum = 0.5F * (rows[i][1] + rows[i][2]);
    store(i, 0, rows[i][0] + sum);
    store(i, 1, 0.5F * (rows[i][1] - rows[i][2]));
    store(i, 2, rows[i][3] + sum);
  }
}

}  // namespace ddp::DDP_LEVEL
