// ClassTotals: losses and right answers, summed over samples of this rank or of all.
#pragma once

#include <cstddef>

#include "ddp/ddp.h"
#include "trainer/layers/class_loss.h"

namespace ddp {

struct ClassTotals {
  double loss = 0;
  double correct = 0;
  double samples = 0;

  void add(const ClassLoss& batch, std::size_t count);
};

/// Collective; the same on every rank.
ClassTotals sum_over_ranks(const Context& context, const ClassTotals& mine);

}  // namespace ddp
