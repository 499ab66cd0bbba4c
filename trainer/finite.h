// Whether numbers are numbers: a training whose weights hold an infinity or a NaN has failed.
#pragma once

#include <span>

#include "ddp/snapshot.h"
#include "ddp/tensor.h"

namespace ddp {

/// No element is an infinity or a NaN. Tensors of whole numbers are always finite. From any device.
bool is_finite(const Tensor& tensor);
/// The first tensor that is not; null when all are.
const NamedTensor* first_not_finite(std::span<const NamedTensor> tensors);

}  // namespace ddp
