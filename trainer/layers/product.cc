#include "trainer/layers/product.h"

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/gelu.h"
#include "trainer/layers/tile.h"

// The way of GotoBLAS (Goto, van de Geijn 2008): b is copied in blocks of depth x width, panel by
// panel, into memory that the second-level cache holds; strips of a of kTileRows rows, which the
// first-level cache holds, are multiplied with one panel after the other. a is copied only where
// its rows are not what a strip reads.
namespace ddp::DDP_LEVEL {
namespace {

constexpr std::size_t kDepthMax = 384;
constexpr std::size_t kBlockFloats = std::size_t{128} * 1024;  // of b

constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

/// One block of the loops below: columns from `column`, depth from `k`.
struct Block {
  std::size_t column = 0, width = 0;
  std::size_t k = 0, depth = 0;
  bool first = false, last = false;  ///< of those along k
};

/// Columns of b as panels (depth, kTileColumns), one after the other; beyond the width zeros.
void pack_panel(const Factor& b, const Block& block, std::size_t column, std::size_t width,
                float* __restrict panel) {
  if (!b.transposed) {
    const float* from = b.data + block.k * b.stride + column;
    if (width == kTileColumns) {
      for (std::size_t k = 0; k < block.depth; ++k, from += b.stride, panel += kTileColumns) {
        for (std::size_t j = 0; j < kTileColumns; ++j) {
          panel[j] = from[j];
        }
      }
      return;
    }
    for (std::size_t k = 0; k < block.depth; ++k, from += b.stride, panel += kTileColumns) {
      for (std::size_t j = 0; j < kTileColumns; ++j) {
        panel[j] = j < width ? from[j] : 0;
      }
    }
    return;
  }
  // Lies as (N, K): each column of the panel is a row there.
  constexpr std::size_t kRun = 16;
  for (std::size_t k0 = 0; k0 < block.depth; k0 += kRun) {
    const std::size_t run = block.depth - k0 < kRun ? block.depth - k0 : kRun;
    for (std::size_t j = 0; j < width; ++j) {
      const float* from = b.data + (column + j) * b.stride + block.k + k0;
      for (std::size_t k = 0; k < run; ++k) {
        panel[(k0 + k) * kTileColumns + j] = from[k];
      }
    }
    for (std::size_t k = 0; k < run; ++k) {
      for (std::size_t j = width; j < kTileColumns; ++j) {
        panel[(k0 + k) * kTileColumns + j] = 0;
      }
    }
  }
}

/// What comes after the sums of `rows` rows are complete: they are still in the cache.
void finish_rows(const Product& product, const Block& block, std::size_t row, std::size_t rows) {
  const std::size_t width = block.width;
  for (std::size_t r = row; r < row + rows; ++r) {
    const std::size_t at = r * product.out_stride + block.column;
    float* __restrict out = product.out + at;
    if (product.bias != nullptr) {
      const float* bias = product.bias + block.column;
      if (product.activated != nullptr) {
        float* __restrict activated = product.activated + at;
        for (std::size_t j = 0; j < width; ++j) {
          out[j] += bias[j];
          activated[j] = gelu(out[j]);
        }
        continue;
      }
      for (std::size_t j = 0; j < width; ++j) {
        out[j] += bias[j];
      }
    }
    if (product.gelu_at != nullptr) {
      const float* gelu_at = product.gelu_at + at;
      for (std::size_t j = 0; j < width; ++j) {
        out[j] *= gelu_gradient(gelu_at[j]);
      }
    }
  }
}

/// A tile at the right edge, where the row of `out` ends within it.
void compute_edge(Tile tile, std::size_t rows, std::size_t width) {
  alignas(64) float sums[kTileRows * kTileColumns];
  float* out = tile.out;
  const std::size_t out_row = tile.out_row;
  const bool add = tile.add;
  tile.out = sums;
  tile.out_row = kTileColumns;
  tile.add = false;
  compute_tile(tile, rows);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < width; ++j) {
      const float sum = sums[r * kTileColumns + j];
      out[r * out_row + j] = add ? out[r * out_row + j] + sum : sum;
    }
  }
}

/// kTileRows rows of `out` (or the last ones), over the whole width of a block.
void compute_strip(const Product& product, const Block& block, std::size_t row, std::size_t rows,
                   const float* panels, float* strip) {
  Tile tile{.b_step = kTileColumns,
            .out_row = product.out_stride,
            .k = block.depth,
            .add = product.add || !block.first};
  if (product.a.transposed) {
    // Lies as (K, M): neighbours in a column are far apart, and each would be a miss of its own for
    // every panel.
    const float* from = product.a.data + block.k * product.a.stride + row;
    for (std::size_t k = 0; k < block.depth; ++k, from += product.a.stride) {
      for (std::size_t r = 0; r < rows; ++r) {
        strip[k * rows + r] = from[r];
      }
    }
    tile.a = strip;
    tile.a_row = 1;
    tile.a_step = rows;
  } else {
    tile.a = product.a.data + row * product.a.stride + block.k;
    tile.a_row = product.a.stride;
    tile.a_step = 1;
  }
  for (std::size_t j = 0; j < block.width; j += kTileColumns) {
    tile.b = panels + j * block.depth;
    tile.out = product.out + row * product.out_stride + block.column + j;
    if (block.width - j < kTileColumns) {
      compute_edge(tile, rows, block.width - j);
    } else {
      compute_tile(tile, rows);
    }
  }
  if (block.last) {
    finish_rows(product, block, row, rows);
  }
}

void compute_block(const Product& product, const Block& block) {
  float* panels = product.scratch;
  float* strip = product.scratch + kBlockFloats;
  for (std::size_t j = 0; j < block.width; j += kTileColumns) {
    const std::size_t width = block.width - j < kTileColumns ? block.width - j : kTileColumns;
    pack_panel(product.b, block, block.column + j, width, panels + j * block.depth);
  }
  for (std::size_t row = 0; row < product.m; row += kTileRows) {
    const std::size_t rows = product.m - row < kTileRows ? product.m - row : kTileRows;
    compute_strip(product, block, row, rows, panels, strip);
  }
}

}  // namespace

void product(const Product& product, int /*device*/) {
  // Blocks along k of nearly the same depth: a last one of a few steps would be all overhead.
  const std::size_t block_count = (product.k + kDepthMax - 1) / kDepthMax;
  const std::size_t depth = (product.k + block_count - 1) / block_count;
  const std::size_t width_max = kBlockFloats / depth / kTileColumns * kTileColumns;
  const std::size_t width_count = (product.n + width_max - 1) / width_max;
  const std::size_t width = round_up((product.n + width_count - 1) / width_count, kTileColumns);
  for (std::size_t column = 0; column < product.n; column += width) {
    for (std::size_t k = 0; k < product.k; k += depth) {
      const Block block{.column = column,
                        .width = product.n - column < width ? product.n - column : width,
                        .k = k,
                        .depth = product.k - k < depth ? product.k - k : depth,
                        .first = k == 0,
                        .last = k + depth >= product.k};
      compute_block(product, block);
    }
  }
}

}  // namespace ddp::DDP_LEVEL
