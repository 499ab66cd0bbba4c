#include "trainer/layers/cuda/cublaslt_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "ddp/error.h"

namespace ddp::cublaslt {
namespace {

struct Opened {
  std::string file;
  void* handle = nullptr;
};

/// The cast from an object pointer to a function pointer is POSIX's (dlsym(3)), not C++'s.
template <class F>
void find(const Opened& library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library.handle, name));
  if (function == nullptr) {
    throw DoNotRetry(library.file + " has no " + name +
                     ": it is no cuBLASLt of CUDA 12 or 13; name one by DDPRUN_CUBLASLT_LIBRARY");
  }
}

Opened open_file() {
  std::vector<std::string> files = {"libcublasLt.so.13", "libcublasLt.so.12"};
  // An empty variable counts as unset.
  const char* chosen = std::getenv("DDPRUN_CUBLASLT_LIBRARY");
  if (chosen != nullptr && *chosen != '\0') {
    files = {chosen};
  }
  // Of each file: which library it misses is what a person needs to know.
  std::string reasons;
  for (const std::string& file : files) {
    // RTLD_LOCAL: a PyTorch in this process may bring one of its own, whose names must not mix.
    if (void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return {file, handle};
    }
    const char* reason = ::dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : file);
  }
  // The next attempt would find the same files.
  throw DoNotRetry("cuBLASLt cannot be opened (" + reasons +
                   "); install it, or name its file by DDPRUN_CUBLASLT_LIBRARY");
}

/// All or nothing: a name that is missing shows here, and not as a crash in training.
CublasLtLibrary open() {
  const Opened library = open_file();
  CublasLtLibrary table{};
  // The names are cublasLt.h's; tests/gpu/vendor_headers.cc compares the types.
  find(library, "cublasLtCreate", table.create);
  find(library, "cublasLtMatmulDescCreate", table.matmul_desc_create);
  find(library, "cublasLtMatmulDescSetAttribute", table.matmul_desc_set_attribute);
  find(library, "cublasLtMatmulDescDestroy", table.matmul_desc_destroy);
  find(library, "cublasLtMatrixLayoutCreate", table.matrix_layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", table.matrix_layout_destroy);
  find(library, "cublasLtMatmulPreferenceCreate", table.preference_create);
  find(library, "cublasLtMatmulPreferenceSetAttribute", table.preference_set_attribute);
  find(library, "cublasLtMatmulPreferenceDestroy", table.preference_destroy);
  find(library, "cublasLtMatmulAlgoGetHeuristic", table.get_heuristic);
  find(library, "cublasLtMatmul", table.matmul);
  return table;
}

}  // namespace

const CublasLtLibrary& cublaslt_library() {
  // If open() throws the table stays unmade, and the next call tries again.
  static const CublasLtLibrary table = open();
  return table;
}

}  // namespace ddp::cublaslt
