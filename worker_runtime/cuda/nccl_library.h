// NcclLibrary: NCCL's functions, found at run time (DDPRUN_NCCL_LIBRARY, else libnccl.so.2).
#pragma once

#include <string>

#include "worker_runtime/cuda/nccl_abi.h"

namespace ddp::nccl {

/// A table, so that what uses it can also be tried with other functions behind it.
struct NcclLibrary {
  Result (*get_version)(int*);
  Result (*get_unique_id)(UniqueId*);
  Result (*comm_init_rank_config)(Comm**, int, UniqueId, int, Config*);
  Result (*comm_finalize)(Comm*);
  Result (*comm_destroy)(Comm*);
  Result (*comm_abort)(Comm*);
  Result (*comm_get_async_error)(Comm*, Result*);
  const char* (*get_error_string)(Result);
  const char* (*get_last_error)(Comm*);
  Result (*all_reduce)(const void*, void*, std::size_t, DataType, RedOp, Comm*, CUstream_st*);
  Result (*broadcast)(const void*, void*, std::size_t, DataType, int, Comm*, CUstream_st*);
  Result (*all_gather)(const void*, void*, std::size_t, DataType, Comm*, CUstream_st*);
  Result (*reduce_scatter)(const void*, void*, std::size_t, DataType, RedOp, Comm*, CUstream_st*);
  Result (*send)(const void*, std::size_t, DataType, int, Comm*, CUstream_st*);
  Result (*recv)(void*, std::size_t, DataType, int, Comm*, CUstream_st*);
  Result (*group_start)();
  Result (*group_end)();
};

/// Opened once per process. Throws DeviceError: which file was looked for, what is missing.
const NcclLibrary& nccl_library();

}  // namespace ddp::nccl
