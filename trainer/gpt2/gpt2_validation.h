// The loss of the samples that are never trained on, shared out over the ranks.
#pragma once

#include <optional>

#include "ddp/ddp.h"
#include "ddp/preemption.h"
#include "trainer/gpt2/gpt2_data.h"
#include "trainer/gpt2/model.h"
#include "trainer/gpt2/token_buffer.h"

namespace ddp {

/// Mean loss per target (nats) of all validation samples, of which there must be one: the same on
/// every rank. None where the ranks were asked to leave, and would have had to wait too long for it
/// (validation_patience.h). Overwrites the buffer. Collective.
std::optional<double> validation_loss(const Context& context, const Preemption& preemption,
                                      const Gpt2Data& data, Gpt2& model, TokenBuffer& buffer);

}  // namespace ddp
