// How an Operation reads in NCCL's words.
#pragma once

#include "worker_runtime/collectives/operation.h"
#include "worker_runtime/cuda/nccl_library.h"

namespace ddp::nccl {

/// Queues it on `stream`, to be called within a group. A barrier is no operation of NCCL's: nothing
/// happens.
Result call(const NcclLibrary& library, const Operation& operation, Comm* comm,
            CUstream_st* stream);

}  // namespace ddp::nccl
