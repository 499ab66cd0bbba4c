#include "trainer/resnet/class_totals.h"

namespace ddp {

/// In doubles: counts stay exact, and the order of samples hardly shows.
void ClassTotals::add(const ClassLoss& batch, std::size_t count) {
  loss += batch.sum;
  correct += static_cast<double>(batch.correct);
  samples += static_cast<double>(count);
}

ClassTotals sum_over_ranks(const Context& context, const ClassTotals& mine) {
  // On the CPU, whatever the model's device: three numbers, which the host needs.
  const auto all = Tensor::from({mine.loss, mine.correct, mine.samples});
  context.group().all_reduce(all);
  const auto sums = all.values<double>();
  return {sums[0], sums[1], sums[2]};
}

}  // namespace ddp
