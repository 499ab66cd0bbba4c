#include "trainer/layers/attention.h"

#include <cmath>
#include <type_traits>

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/exponential.h"
#include "trainer/layers/row_sums.h"
#include "trainer/layers/team.h"
#include "trainer/layers/tile.h"

namespace ddp::DDP_LEVEL {
namespace {

constexpr std::size_t padded(std::size_t n) {
  return (n + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
}

constexpr std::size_t smaller(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

/// One head of one sequence: where it lies in the tensors, and its matrices in the scratch memory,
/// each (T, D) padded to (time_padded, size_padded).
struct Head {
  std::size_t time, size, time_padded, size_padded;
  std::size_t sequence, head, channels;
  float* scratch;

  Head(const AttentionShape& shape, std::size_t number, float* memory)
      : time(shape.time),
        size(shape.head_size),
        time_padded(padded(shape.time)),
        size_padded(padded(shape.head_size)),
        sequence(number / shape.heads),
        head(number % shape.heads),
        channels(shape.channels()),
        scratch(memory) {}

  [[nodiscard]] float* matrix(std::size_t i) const {
    return scratch + i * time_padded * size_padded;
  }
  /// (kAttentionStrip, time_padded)
  [[nodiscard]] float* strip(std::size_t i) const {
    return matrix(9) + i * kAttentionStrip * time_padded;
  }
  /// Of queries (0), keys (1) or values (2) in a tensor (B, T, 3, H, D).
  [[nodiscard]] std::size_t place_in_qkv(std::size_t which) const {
    return sequence * time * 3 * channels + which * channels + head * size;
  }
  /// In a tensor (B, T, H, D).
  [[nodiscard]] std::size_t place_in_out() const {
    return sequence * time * channels + head * size;
  }
  /// Columns that a strip of rows up to `end` looks at, up to a whole tile.
  [[nodiscard]] std::size_t columns_until(std::size_t end) const {
    return smaller((end + kTileColumns - 1) / kTileColumns * kTileColumns, time_padded);
  }
};

/// (T, D) out of a tensor whose rows are `stride` apart, times `factor`; padded columns are 0.
void gather(const Head& head, const float* from, std::size_t stride, float factor,
            float* __restrict to) {
  for (std::size_t t = 0; t < head.time; ++t, from += stride, to += head.size_padded) {
    for (std::size_t d = 0; d < head.size; ++d) {
      to[d] = from[d] * factor;
    }
    for (std::size_t d = head.size; d < head.size_padded; ++d) {
      to[d] = 0;
    }
  }
}

/// Some rows, from `t`, as columns of `to`. Their number is known to the compiler where it is a
/// whole block: it then stores them at once.
template <class Count>
void gather_columns(const Head& head, const float* from, std::size_t stride, std::size_t t,
                    Count count, float* __restrict to) {
  for (std::size_t d = 0; d < head.size; ++d) {
    for (std::size_t i = 0; i < count; ++i) {
      to[d * head.time_padded + t + i] = from[(t + i) * stride + d];
    }
  }
}

/// The same as (D, T); padded columns are 0.
void gather_transposed(const Head& head, const float* from, std::size_t stride,
                       float* __restrict to) {
  constexpr std::integral_constant<std::size_t, 8> kBlock;
  std::size_t t = 0;
  for (; t + kBlock <= head.time; t += kBlock) {
    gather_columns(head, from, stride, t, kBlock, to);
  }
  gather_columns(head, from, stride, t, head.time - t, to);
  for (std::size_t d = 0; d < head.size; ++d) {
    for (t = head.time; t < head.time_padded; ++t) {
      to[d * head.time_padded + t] = 0;
    }
  }
}

void scatter(const Head& head, const float* from, float factor, float* __restrict to,
             std::size_t stride) {
  for (std::size_t t = 0; t < head.time; ++t, from += head.size_padded, to += stride) {
    for (std::size_t d = 0; d < head.size; ++d) {
      to[d] = from[d] * factor;
    }
  }
}

/// strip (rows, columns) = left (rows from `row`, D) right (D, T).
void times_transposed(const Head& head, const float* left, const float* right, std::size_t row,
                      std::size_t rows, std::size_t columns, float* strip) {
  // Tile by tile from above, as the tiles below look at more columns.
  for (std::size_t r = 0; r < rows; r += kTileRows) {
    const std::size_t count = smaller(kTileRows, rows - r);
    const std::size_t end = smaller(columns, head.columns_until(row + r + count));
    for (std::size_t j = 0; j < end; j += kTileColumns) {
      compute_tile({.a = left + (row + r) * head.size_padded,
                    .a_row = head.size_padded,
                    .a_step = 1,
                    .b = right + j,
                    .b_step = head.time_padded,
                    .out = strip + r * head.time_padded + j,
                    .out_row = head.time_padded,
                    .k = head.size},
                   count);
    }
  }
}

/// out (rows from `row`, D) = strip (rows, T) right (T, D), of which row t has t + 1 columns.
void times_rows(const Head& head, const float* strip, const float* right, std::size_t row,
                std::size_t rows, float* out) {
  for (std::size_t r = 0; r < rows; r += kTileRows) {
    const std::size_t count = smaller(kTileRows, rows - r);
    for (std::size_t d = 0; d < head.size_padded; d += kTileColumns) {
      compute_tile({.a = strip + r * head.time_padded,
                    .a_row = head.time_padded,
                    .a_step = 1,
                    .b = right + d,
                    .b_step = head.size_padded,
                    .out = out + (row + r) * head.size_padded + d,
                    .out_row = head.size_padded,
                    .k = row + r + count},
                   count);
    }
  }
}

/// out (T, D) += strip (rows, T)^T left (rows from `row`, D). The first strip that reaches a row of
/// `out` overwrites it.
void add_transposed_times(const Head& head, const float* strip, const float* left, std::size_t row,
                          std::size_t rows, float* out) {
  for (std::size_t j = 0; j < row + rows; j += kTileRows) {
    const std::size_t count = smaller(kTileRows, row + rows - j);
    // Rows above j do not look at column j.
    const std::size_t first = j > row ? j - row : 0;
    for (std::size_t d = 0; d < head.size_padded; d += kTileColumns) {
      compute_tile({.a = strip + first * head.time_padded + j,
                    .a_row = 1,
                    .a_step = head.time_padded,
                    .b = left + (row + first) * head.size_padded + d,
                    .b_step = head.size_padded,
                    .out = out + j * head.size_padded + d,
                    .out_row = head.size_padded,
                    .k = rows - first,
                    .add = j < row},
                   count);
    }
  }
}

/// Scores of one row become probabilities, 0 beyond what the row looks at. Returns the log of the
/// sum.
float softmax_row(float* scores, std::size_t count, std::size_t columns) {
  float max = scores[0];
#pragma omp simd reduction(max : max)
  for (std::size_t j = 0; j < count; ++j) {
    max = scores[j] > max ? scores[j] : max;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t j = 0; j < count; ++j) {
    scores[j] = exponential(scores[j] - max);
    sum += scores[j];
  }
  const float inverse = 1.0F / sum;
  for (std::size_t j = 0; j < count; ++j) {
    scores[j] *= inverse;
  }
  for (std::size_t j = count; j < columns; ++j) {
    scores[j] = 0;
  }
  return max + std::log(sum);
}

/// Scores of one row become probabilities; d_probabilities become the gradient by the scores:
/// p (dp - sum(p dp)), where the sum is that of out d_out.
void softmax_row_backward(float* scores, float* d_scores, float log_sum, float out_times_d_out,
                          std::size_t count, std::size_t columns) {
#pragma omp simd
  for (std::size_t j = 0; j < count; ++j) {
    const float probability = exponential(scores[j] - log_sum);
    scores[j] = probability;
    d_scores[j] = probability * (d_scores[j] - out_times_d_out);
  }
  for (std::size_t j = count; j < columns; ++j) {
    scores[j] = 0;
    d_scores[j] = 0;
  }
}

float dot(const float* a, const float* b, std::size_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// Heads from `first`, of all sequences one behind the other, on one thread with its scratch
/// memory.
void forward_heads(const AttentionForward& pass, std::size_t first, std::size_t end,
                   float* scratch) {
  const AttentionShape& shape = pass.shape;
  const std::size_t stride = 3 * shape.channels();
  const float factor = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  for (std::size_t number = first; number < end; ++number) {
    const Head head(shape, number, scratch);
    float* queries = head.matrix(0);
    float* keys_transposed = head.matrix(1);
    float* values = head.matrix(2);
    float* out = head.matrix(3);
    float* scores = head.strip(0);
    gather(head, pass.qkv + head.place_in_qkv(0), stride, factor, queries);
    gather_transposed(head, pass.qkv + head.place_in_qkv(1), stride, keys_transposed);
    gather(head, pass.qkv + head.place_in_qkv(2), stride, 1, values);
    float* log_sum = pass.log_sum + number * shape.time;
    for (std::size_t row = 0; row < shape.time; row += kAttentionStrip) {
      const std::size_t rows = smaller(kAttentionStrip, shape.time - row);
      const std::size_t columns = head.columns_until(row + rows);
      times_transposed(head, queries, keys_transposed, row, rows, columns, scores);
      for (std::size_t r = 0; r < rows; ++r) {
        log_sum[row + r] = softmax_row(scores + r * head.time_padded, row + r + 1, columns);
      }
      times_rows(head, scores, values, row, rows, out);
    }
    scatter(head, out, 1, pass.out + head.place_in_out(), shape.channels());
  }
}

void backward_heads(const AttentionBackward& pass, std::size_t first, std::size_t end,
                    float* scratch) {
  const AttentionShape& shape = pass.shape;
  const std::size_t channels = shape.channels();
  const std::size_t stride = 3 * channels;
  const float factor = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  for (std::size_t number = first; number < end; ++number) {
    const Head head(shape, number, scratch);
    const float* out = pass.out + head.place_in_out();
    const float* d_out = pass.d_out + head.place_in_out();
    const float* log_sum = pass.log_sum + number * shape.time;
    float* queries = head.matrix(0);
    float* keys = head.matrix(1);
    float* keys_transposed = head.matrix(2);
    float* values_transposed = head.matrix(3);
    float* d_out_rows = head.matrix(4);
    float* d_queries = head.matrix(5);
    float* d_keys = head.matrix(6);
    float* d_values = head.matrix(7);
    float* scores = head.strip(0);
    float* d_scores = head.strip(1);
    // The queries carry the factor, so that scores and d_keys have it; d_queries get it at the end.
    gather(head, pass.qkv + head.place_in_qkv(0), stride, factor, queries);
    gather(head, pass.qkv + head.place_in_qkv(1), stride, 1, keys);
    gather_transposed(head, pass.qkv + head.place_in_qkv(1), stride, keys_transposed);
    gather_transposed(head, pass.qkv + head.place_in_qkv(2), stride, values_transposed);
    gather(head, d_out, channels, 1, d_out_rows);
    for (std::size_t row = 0; row < shape.time; row += kAttentionStrip) {
      const std::size_t rows = smaller(kAttentionStrip, shape.time - row);
      const std::size_t columns = head.columns_until(row + rows);
      times_transposed(head, queries, keys_transposed, row, rows, columns, scores);
      times_transposed(head, d_out_rows, values_transposed, row, rows, columns, d_scores);
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t t = row + r;
        softmax_row_backward(scores + r * head.time_padded, d_scores + r * head.time_padded,
                             log_sum[t], dot(out + t * channels, d_out + t * channels, head.size),
                             t + 1, columns);
      }
      times_rows(head, d_scores, keys, row, rows, d_queries);
      add_transposed_times(head, d_scores, queries, row, rows, d_keys);
      add_transposed_times(head, scores, d_out_rows, row, rows, d_values);
    }
    scatter(head, d_queries, factor, pass.d_qkv + head.place_in_qkv(0), stride);
    scatter(head, d_keys, 1, pass.d_qkv + head.place_in_qkv(1), stride);
    scatter(head, d_values, 1, pass.d_qkv + head.place_in_qkv(2), stride);
  }
}

/// Heads have nothing in common: each thread takes some, where all have scratch memory and there is
/// enough to do.
template <class Pass>
void share_out_heads(const Pass& pass,
                     void (*heads)(const Pass&, std::size_t, std::size_t, float*)) {
  const AttentionShape& shape = pass.shape;
  const std::size_t count = shape.batch * shape.heads;
  const bool shared =
      pass.scratches >= team_size() && count * shape.time * shape.time >= 2 * kFloatsWorthSharing;
  share_out(count, shared ? 1 : count, [&](std::size_t first, std::size_t end, std::size_t thread) {
    heads(pass, first, end, pass.scratch + thread * attention_scratch(shape.time, shape.head_size));
  });
}

}  // namespace

void attention_forward(const AttentionForward& pass, int /*device*/) {
  share_out_heads(pass, forward_heads);
}

void attention_backward(const AttentionBackward& pass, int /*device*/) {
  share_out_heads(pass, backward_heads);
  if (pass.d_qkv_sum != nullptr) {
    add_rows(pass.d_qkv, pass.shape.batch * pass.shape.time, 3 * pass.shape.channels(),
             pass.d_qkv_sum);
  }
}

}  // namespace ddp::DDP_LEVEL
