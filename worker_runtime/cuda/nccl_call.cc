#include "worker_runtime/cuda/nccl_call.h"

namespace ddp::nccl {
namespace {

/// A type that NCCL does not know would travel as bytes and be added wrong: so each has its case.
DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return DataType::float32;
    case DType::f64:
      return DataType::float64;
    case DType::i32:
      return DataType::int32;
    case DType::i64:
      return DataType::int64;
    case DType::bf16:
      return DataType::bfloat16;
    case DType::u8:
      break;
  }
  return DataType::uint8;
}

RedOp reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return RedOp::min;
    case ReduceOp::max:
      return RedOp::max;
    case ReduceOp::product:
      return RedOp::prod;
    case ReduceOp::avg:
      return RedOp::avg;
    case ReduceOp::sum:
      break;
  }
  return RedOp::sum;
}

}  // namespace

/// In place where the operation is: then sending and receiving memory are the same. A barrier has
/// no call of its own: the group waits for the device, then for the other ranks over the CPU.
Result call(const NcclLibrary& library, const Operation& operation, Comm* comm,
            CUstream_st* stream) {
  const Tensor& out = operation.output;
  const Tensor& in = operation.input;
  const auto type = data_type(out.defined() ? out.dtype() : in.dtype());
  switch (operation.kind) {
    case Operation::Kind::all_reduce:
      return library.all_reduce(out.raw(), out.raw(), out.size(), type, reduction(operation.op),
                                comm, stream);
    case Operation::Kind::broadcast:
      return library.broadcast(out.raw(), out.raw(), out.size(), type, operation.peer, comm,
                               stream);
    case Operation::Kind::all_gather:
      return library.all_gather(in.raw(), out.raw(), in.size(), type, comm, stream);
    case Operation::Kind::reduce_scatter:
      return library.reduce_scatter(in.raw(), out.raw(), out.size(), type, reduction(operation.op),
                                    comm, stream);
    case Operation::Kind::send:
      return library.send(in.raw(), in.size(), type, operation.peer, comm, stream);
    case Operation::Kind::recv:
      return library.recv(out.raw(), out.size(), type, operation.peer, comm, stream);
    case Operation::Kind::barrier:
      break;
  }
  return Result::success;
}

}  // namespace ddp::nccl
