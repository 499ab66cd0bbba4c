// The loss of the samples that are never trained on, shared out over the ranks.
#pragma once

#include "ddp/ddp.h"
#include "trainer/gpt2/gpt2_data.h"
#include "trainer/gpt2/model.h"
#include "trainer/gpt2/token_buffer.h"

namespace ddp {

/// Mean loss per target (nats) of all validation samples, of which there must be one: the same on
/// every rank. Overwrites the buffer. Collective.
double validation_loss(const Context& context, const Gpt2Data& data, Gpt2& model,
                       TokenBuffer& buffer);

}  // namespace ddp
