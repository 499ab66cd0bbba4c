#include "trainer/layers/cuda/cudnn_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "ddp/error.h"

namespace ddp::cudnn {
namespace {

/// cuDNN 9.0.0 as it counts: the first that tells its last error in words.
constexpr std::size_t kOldest = 90000;

struct OpenedCudnn {
  std::string file;
  void* handle = nullptr;
};

/// The cast from an object pointer to a function pointer is POSIX's (dlsym(3)), not C++'s.
template <class F>
void find(const OpenedCudnn& library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library.handle, name));
  if (function == nullptr) {
    throw DoNotRetry(library.file + " has no " + name +
                     ": it is no cuDNN 9; name one by DDPRUN_CUDNN_LIBRARY");
  }
}

OpenedCudnn open_cudnn_file() {
  // An empty variable counts as unset.
  const char* chosen = std::getenv("DDPRUN_CUDNN_LIBRARY");
  const std::string file = chosen != nullptr && *chosen != '\0' ? chosen : "libcudnn.so.9";
  // RTLD_LOCAL: a PyTorch in this process may bring one of its own, whose names must not mix.
  if (void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    return {file, handle};
  }
  const char* reason = ::dlerror();
  // The next attempt would find the same files.
  throw DoNotRetry("cuDNN cannot be opened (" + std::string(reason != nullptr ? reason : file) +
                   "); install cuDNN 9, or name its file by DDPRUN_CUDNN_LIBRARY");
}

/// All or nothing: a name that is missing shows here, and not as a crash in training.
CudnnLibrary open_cudnn() {
  const OpenedCudnn library = open_cudnn_file();
  CudnnLibrary table{};
  // The names are cudnn_graph.h's; tests/gpu/vendor_headers.cc compares the types.
  find(library, "cudnnGetVersion", table.get_version);
  find(library, "cudnnGetErrorString", table.get_error_string);
  if (table.get_version() < kOldest) {
    throw DoNotRetry(library.file + " is cuDNN " + std::to_string(table.get_version()) +
                     " as it counts itself, and training takes 9.0 (90000) or later; name a later "
                     "one by DDPRUN_CUDNN_LIBRARY");
  }
  find(library, "cudnnGetLastErrorString", table.get_last_error_string);
  find(library, "cudnnCreate", table.create);
  find(library, "cudnnBackendCreateDescriptor", table.create_descriptor);
  find(library, "cudnnBackendDestroyDescriptor", table.destroy_descriptor);
  find(library, "cudnnBackendSetAttribute", table.set_attribute);
  find(library, "cudnnBackendGetAttribute", table.get_attribute);
  find(library, "cudnnBackendFinalize", table.finalize);
  find(library, "cudnnBackendExecute", table.execute);
  return table;
}

}  // namespace

const CudnnLibrary& cudnn_library() {
  // If open_cudnn() throws the table stays unmade, and the next call tries again.
  static const CudnnLibrary table = open_cudnn();
  return table;
}

}  // namespace ddp::cudnn
