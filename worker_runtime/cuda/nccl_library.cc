#include "worker_runtime/cuda/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "ddp/error.h"

namespace ddp::nccl {
namespace {

/// Non-blocking communicators with an own thread's abort need 2.18.
constexpr int kOldestVersion = 21800;

/// The cast from an object pointer to a function pointer is POSIX's (dlsym(3)), not C++'s.
template <class F>
void find(void* library, const char* name, F& function, const std::string& file) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr) {
    throw DeviceError(file + " has no " + name + ": it is no NCCL of 2.18 or later");
  }
}

NcclLibrary open() {
  // An empty variable counts as unset.
  const char* chosen = std::getenv("DDPRUN_NCCL_LIBRARY");
  const std::string file = chosen != nullptr && *chosen != '\0' ? chosen : "libnccl.so.2";
  // RTLD_LOCAL: a PyTorch in this process may bring an NCCL of its own, whose names must not mix
  // with these.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  // dlerror(3) names the file, or the library that it misses.
  if (library == nullptr) {
    const char* reason = ::dlerror();
    throw DeviceError("NCCL cannot be opened (" +
                      std::string(reason != nullptr ? reason : "unknown reason") +
                      "); install it, or name its file by DDPRUN_NCCL_LIBRARY");
  }
  // All or nothing: a name that is missing shows here with its file, and not as a crash in
  // training.
  NcclLibrary table{};
  // The names are nccl.h's; tests/gpu/vendor_headers.cc compares the types.
  find(library, "ncclGetVersion", table.get_version, file);
  find(library, "ncclGetUniqueId", table.get_unique_id, file);
  find(library, "ncclCommInitRankConfig", table.comm_init_rank_config, file);
  find(library, "ncclCommFinalize", table.comm_finalize, file);
  find(library, "ncclCommDestroy", table.comm_destroy, file);
  find(library, "ncclCommAbort", table.comm_abort, file);
  find(library, "ncclCommGetAsyncError", table.comm_get_async_error, file);
  find(library, "ncclGetErrorString", table.get_error_string, file);
  find(library, "ncclGetLastError", table.get_last_error, file);
  find(library, "ncclAllReduce", table.all_reduce, file);
  find(library, "ncclBroadcast", table.broadcast, file);
  find(library, "ncclAllGather", table.all_gather, file);
  find(library, "ncclReduceScatter", table.reduce_scatter, file);
  find(library, "ncclSend", table.send, file);
  find(library, "ncclRecv", table.recv, file);
  find(library, "ncclGroupStart", table.group_start, file);
  find(library, "ncclGroupEnd", table.group_end, file);
  // Since 2.9 NCCL counts major * 10000 + minor * 100 + patch.
  int version = 0;
  if (table.get_version(&version) != Result::success || version < kOldestVersion) {
    throw DeviceError(file + " is NCCL " + std::to_string(version) + "; 2.18 or later is needed");
  }
  return table;
}

}  // namespace

const NcclLibrary& nccl_library() {
  // If open() throws the table stays unmade, and the next call tries again.
  static const NcclLibrary table = open();
  return table;
}

}  // namespace ddp::nccl
