#include "rendezvous/tls/openssl_library.h"

#include <dlfcn.h>

#include <string>

#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

constexpr const char* kNewest = "libssl.so.3";
constexpr const char* kOldest = "libssl.so.1.1";  // of OpenSSL 1.1.1, which has TLS 1.3
constexpr const char* kInstall = "install OpenSSL 3 or 1.1.1 (Debian: libssl3), or use no TLS";

/// The cast from an object pointer to a function pointer is POSIX's (dlsym(3)), not C++'s.
template <class Function>
bool found(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// The name of the first function that is missing; empty: all are there. A library's handle also
/// finds what it depends on (libcrypto).
std::string missing_of(void* library, OpenSslLibrary& table) {
#define DDP_FIND(function)                          \
  if (!found(library, #function, table.function)) { \
    return #function;                               \
  }
  DDP_OPENSSL_FUNCTIONS(DDP_FIND)
#undef DDP_FIND
  return {};
}

Result<OpenSslLibrary> open() {
  // RTLD_LOCAL: another OpenSSL in this process keeps its names.
  std::string file = kNewest;
  void* library = ::dlopen(kNewest, RTLD_NOW | RTLD_LOCAL);
  // Of the newer one: a file that is there and broken is what people have to know of.
  const std::string why = library == nullptr ? ::dlerror() : "";
  // Two files of one library: the one that a distribution has is the one that it mends.
  if (library == nullptr) {
    file = kOldest;
    library = ::dlopen(kOldest, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return Error{"TLS needs OpenSSL, and neither " + std::string(kNewest) + " nor " + kOldest +
                     " can be opened on this machine (" + printable(why) + ")",
                 {},
                 kInstall};
  }
  OpenSslLibrary table;
  if (const std::string name = missing_of(library, table); !name.empty()) {
    return Error{file + " has no function " + name, {}, kInstall};
  }
  return table;
}

}  // namespace

Result<const OpenSslLibrary*> openssl_library() {
  static const Result<OpenSslLibrary> library = open();
  if (!library) {
    return library.error();
  }
  return &*library;
}

}  // namespace ddprun
