// The training of a GPT-2 on every rank of a world: resume, steps, validation, snapshots, the lines
// of progress. docs/gpt2.md lists those lines.
#pragma once

#include "ddp/ddp.h"
#include "trainer/gpt2/gpt2_data.h"
#include "trainer/gpt2/gpt2_options.h"
#include "trainer/gpt2/gpt2_source.h"

namespace ddp {

/// Returns the status for main: 0, or that of an order to leave (Preemption::leave()).
///
/// Trains from the newest snapshot, or from the start, to the last epoch or step. At the same world
/// size, options and data the final weights have the same bits, however often the run was killed
/// and started again. Throws ddp::Error when the ranks' data differ, the snapshot is of another
/// model, seed or text, or the loss is no longer finite; and what the group throws.
int train_gpt2(const Context& context, const Gpt2Options& options, const Gpt2Source& source,
               const Gpt2Data& data);

}  // namespace ddp
