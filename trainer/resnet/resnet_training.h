// The training of a ResNet on every rank of a world: resume, epochs, validation, snapshots.
// docs/resnet.md lists what it prints.
#pragma once

#include "ddp/ddp.h"
#include "trainer/resnet/cifar.h"
#include "trainer/resnet/resnet_options.h"

namespace ddp {

/// Returns the status for main: 0, or that of an order to leave (Preemption::leave()).
///
/// Trains from the newest snapshot, or from the start, to options.epochs. At the same world size,
/// options and number of threads the final weights have the same bits, however often the run was
/// killed and started again, in the middle of an epoch too. Throws ddp::Error when the ranks' data
/// differ, the snapshot is of another model or seed, or the loss is no longer finite; and what the
/// group throws.
int train_resnet(const Context& context, const ResnetOptions& options, const CifarData& data);

}  // namespace ddp
