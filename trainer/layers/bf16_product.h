// A product whose factors are rounded to bf16 and whose sums are f32, by oneDNN: what
// torch.autocast does to a linear layer. A processor with AVX-512 BF16 or AMX does it twice as fast
// as in f32, and faster. What is stored stays f32: the activations, and the weights, whose small
// updates would vanish in 8 significant bits.
#pragma once

#include <cstddef>

#include "trainer/layers/product.h"

namespace ddp {

/// Whether this processor has instructions for it. Without them it would be slower than f32.
bool has_bf16_products();

/// Made for one product and used at once: the rounded factors lie in this thread's memory, which
/// the next one takes over.
class Bf16Product {
 public:
  /// Rounds b, and an a that is transposed. `product` must outlive it.
  explicit Bf16Product(const Product& product);
  /// Rows from `row`, without the epilogue. All at once where a is transposed.
  void compute_rows(std::size_t row, std::size_t rows) const;

 private:
  const Product* product_;
};

}  // namespace ddp
