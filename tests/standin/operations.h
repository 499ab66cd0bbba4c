// The operations of the stand-in for NCCL on host memory, piece by piece over a Seat.
#pragma once

#include <functional>

#include "tests/standin/board.h"
#include "worker_runtime/cuda/nccl_abi.h"

namespace ddp_standin {

std::size_t size_of(ddp::nccl::DataType type);

/// What a rank has to do, of `count` elements; each returns false when it was stopped.
struct Values {
  const void* in;
  void* out;
  std::size_t count;
  ddp::nccl::DataType type;
};
bool all_reduce(Seat& seat, const Values& values, ddp::nccl::RedOp op, int size);
bool broadcast(Seat& seat, const Values& values, int root);
/// count: of `in`.
bool all_gather(Seat& seat, const Values& values);
/// count: of `out`.
bool reduce_scatter(Seat& seat, const Values& values, ddp::nccl::RedOp op, int rank, int size);
bool send(Seat& seat, const Values& values, int to);
bool receive(Seat& seat, const Values& values, int from);

}  // namespace ddp_standin
