#include "trainer/layers/product.h"

#include <dnnl.h>

#include <new>

#include "trainer/layers/bf16_product.h"
#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/gelu.h"
#include "trainer/layers/team.h"

// oneDNN's product: on AVX-512 and AVX2 a tenth faster than OpenBLAS's at the shapes of GPT-2.
namespace ddp::DDP_LEVEL {
namespace {

/// Floats of the result that are finished at a time: half of a second-level cache of 512 KiB.
constexpr std::size_t kChunkFloats = std::size_t{64} * 1024;

/// Rows from `row` of the epilogue. They have just been computed, and are still in the cache.
void finish_rows(const Product& product, std::size_t row, std::size_t rows) {
  for (std::size_t r = row; r < row + rows; ++r) {
    float* __restrict out = product.out + r * product.out_stride;
    if (product.bias != nullptr && product.activated != nullptr) {
      float* __restrict activated = product.activated + r * product.out_stride;
      for (std::size_t j = 0; j < product.n; ++j) {
        out[j] += product.bias[j];
        activated[j] = gelu(out[j]);
      }
    } else if (product.bias != nullptr) {
      for (std::size_t j = 0; j < product.n; ++j) {
        out[j] += product.bias[j];
      }
    }
    if (product.gelu_at != nullptr) {
      const float* gelu_at = product.gelu_at + r * product.out_stride;
      for (std::size_t j = 0; j < product.n; ++j) {
        out[j] *= gelu_gradient(gelu_at[j]);
      }
    }
  }
}

/// Rows from `row`, without the epilogue, all in f32.
void compute_rows(const Product& product, std::size_t row, std::size_t rows) {
  const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  const float* a = product.a.data + row * (product.a.transposed ? 1 : product.a.stride);
  // It fails without memory for its scratch, and on wrong sizes: those would be a mistake of ours.
  const dnnl_status_t status =
      dnnl_sgemm(product.a.transposed ? 'T' : 'N', product.b.transposed ? 'T' : 'N', size(rows),
                 size(product.n), size(product.k), 1, a, size(product.a.stride), product.b.data,
                 size(product.b.stride), product.add ? 1.0F : 0.0F,
                 product.out + row * product.out_stride, size(product.out_stride));
  if (status == dnnl_out_of_memory) {
    throw std::bad_alloc();
  }
  if (status != dnnl_success) {
    __builtin_trap();
  }
}

/// Calls compute(row, rows) for a part of the rows and does their epilogue, until all are done.
template <class Compute>
void by_chunks(const Product& product, const Compute& compute) {
  const bool epilogue = product.bias != nullptr || product.gelu_at != nullptr;
  // In so few rows the product would be slower than what the cache saves.
  constexpr std::size_t kRowsMin = 96;
  std::size_t chunk = product.m;
  if (epilogue && product.n > 0) {
    const std::size_t rows = kChunkFloats / product.n;
    chunk = rows < kRowsMin ? kRowsMin : rows;
  }
  for (std::size_t row = 0; row < product.m; row += chunk) {
    const std::size_t rows = product.m - row < chunk ? product.m - row : chunk;
    compute(row, rows);
    if (epilogue) {
      share_out(rows, rows_worth_sharing(product.n),
                [&](std::size_t first, std::size_t end, std::size_t) {
                  finish_rows(product, row + first, end - first);
                });
    }
  }
}

}  // namespace

void product(const Product& product, int /*device*/) {
  by_chunks(product, [&](std::size_t row, std::size_t rows) { compute_rows(product, row, rows); });
}

void bf16_product(const Product& product, int /*device*/) {
  const Bf16Product rounded(product);
  by_chunks(product, [&](std::size_t row, std::size_t rows) { rounded.compute_rows(row, rows); });
}

}  // namespace ddp::DDP_LEVEL
