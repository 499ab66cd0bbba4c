// NCCL's binary interface, as far as we use it, so that the build needs no NCCL and the newest one
// on the machine is used at run time. Names and numbers are those of nccl.h (2.18 and later); each
// structure that NCCL may extend carries its own size and version. tests/gpu/vendor_headers.cc
// compares all of it with that header.
#pragma once

#include <climits>
#include <cstddef>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace ddp::nccl {

struct Comm;  // ncclComm, opaque

/// ncclResult_t.
enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// ncclDataType_t.
enum class DataType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

/// ncclRedOp_t.
enum class RedOp : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t as of 2.18; newer libraries take what follows as unset, by `size` and `version`.
/// (The last field is 2.27's: it fills what would be padding within `size`.)
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
};

}  // namespace ddp::nccl
