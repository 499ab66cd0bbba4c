#include "trainer/layers/classifier.h"

#include <dnnl.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <string>

#include "ddp/error.h"

namespace ddp {
namespace {

/// How a matrix goes into a product: as it lies in memory, or transposed.
enum class Side : char { plain = 'N', transposed = 'T' };

struct Matrix {
  const float* data;
  std::int64_t columns;  // as it lies in memory
  Side side = Side::plain;
};

/// c (M, N) = a (M, K) b (K, N) + keep c, row by row in memory.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
              float keep, float* c) {
  const auto status = dnnl_sgemm(static_cast<char>(a.side), static_cast<char>(b.side), m, n, k, 1,
                                 a.data, a.columns, b.data, b.columns, keep, c, n);
  if (status == dnnl_out_of_memory) {
    throw std::bad_alloc();
  }
  if (status != dnnl_success) {
    throw Error("oneDNN's matrix product failed with status " + std::to_string(status));
  }
}

}  // namespace

void dense_forward(const DenseShape& shape, std::int64_t batch, const float* x, const float* weight,
                   const float* bias, float* y) {
  for (std::int64_t n = 0; n < batch; ++n) {
    std::copy_n(bias, shape.outputs, y + n * shape.outputs);
  }
  multiply(batch, shape.outputs, shape.features, {x, shape.features},
           {weight, shape.features, Side::transposed}, 1, y);
}

void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackward& pass) {
  multiply(shape.outputs, shape.features, batch, {pass.d_y, shape.outputs, Side::transposed},
           {pass.x, shape.features}, 1, pass.d_weight);
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t k = 0; k < shape.outputs; ++k) {
      pass.d_bias[k] += pass.d_y[n * shape.outputs + k];
    }
  }
  multiply(batch, shape.features, shape.outputs, {pass.d_y, shape.outputs},
           {pass.weight, shape.features}, 0, pass.d_x);
}

ClassLoss class_loss(std::int64_t classes, std::int64_t batch, const float* scores,
                     const std::int64_t* labels, float* d_scores) {
  ClassLoss loss;
  for (std::int64_t n = 0; n < batch; ++n, scores += classes) {
    // Without the largest score the exponentials of large ones would be infinite.
    const float* largest = std::max_element(scores, scores + classes);
    double sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) {
      sum += std::exp(static_cast<double>(scores[k] - *largest));
    }
    loss.sum += std::log(sum) - static_cast<double>(scores[labels[n]] - *largest);
    loss.correct += largest - scores == labels[n] ? 1 : 0;
    for (std::int64_t k = 0; d_scores != nullptr && k < classes; ++k) {
      const double share = std::exp(static_cast<double>(scores[k] - *largest)) / sum;
      d_scores[n * classes + k] = static_cast<float>(share - (k == labels[n] ? 1 : 0));
    }
  }
  return loss;
}

}  // namespace ddp
