#include "trainer/gpt2/gpt2_validation.h"

#include "trainer/validation_patience.h"

namespace ddp {

std::optional<double> validation_loss(const Context& context, const Preemption& preemption,
                                      const Gpt2Data& data, Gpt2& model, TokenBuffer& buffer) {
  const Phase before = context.progress().phase();
  context.progress().enter(Phase::evaluating);
  const auto world = static_cast<std::size_t>(context.world_size());
  double loss = 0;
  ValidationPatience patience(context, preemption);
  // Each rank takes every world-th sample; the sums are added up over ranks, whatever each has.
  for (auto next = static_cast<std::size_t>(context.rank());
       next < data.validation_samples() && !patience.over();) {
    const TokenBatch batch = buffer.validation(next, world);
    loss += model.loss(batch);
    next += batch.batch * world;
    context.progress().alive();
  }
  const bool given_up = patience.over_anywhere();
  const auto total = Tensor::from<double>({loss});
  context.group().all_reduce(total);
  context.progress().enter(before);
  if (given_up) {
    return std::nullopt;
  }
  return total.item<double>() / static_cast<double>(data.validation_samples() * data.time());
}

}  // namespace ddp
