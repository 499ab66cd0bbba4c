// The training of a linear model on every rank of a world: resume, epochs, snapshots, the lines
// that the tutorials print. docs/train.md lists those lines.
#pragma once

#include "ddp/ddp.h"
#include "trainer/dataset.h"
#include "trainer/options.h"

namespace ddp {

/// Returns the status for main: 0, or that of an order to leave (Preemption::leave()).
///
/// Trains from the newest snapshot, or from the start, to options.total_epochs. At the same world
/// size, options and data the final weights have the same bits, however often the run was killed
/// and started again. Throws ddp::Error when the ranks' data differ, the snapshot is of another
/// model or seed, or the loss is no longer finite; and what the group throws.
int train_linear(const Context& context, const LinearOptions& options, const Dataset& data);

}  // namespace ddp
