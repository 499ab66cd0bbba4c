#include "worker_runtime/failure/throw_trace.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "ddp/export.h"

namespace ddp {
namespace {

constexpr int kMaxFrames = 48;

/// Of fixed size: to note a throw allocates nothing, since memory may be what is missing.
struct LastThrow {
  const void* object = nullptr;
  int count = 0;
  void* frames[kMaxFrames];
};

/// Off outside of record(): a program that throws often pays nothing then.
std::atomic<bool> tracing{false};
thread_local LastThrow last_throw;

void note_throw(const void* object) {
  if (tracing.load(std::memory_order_relaxed)) {
    // The address is the key by which a caught exception is found again.
    last_throw.object = object;
    last_throw.count = ::backtrace(last_throw.frames, kMaxFrames);
  }
}

std::string frame_text(void* address) {
  char text[64];
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(text, sizeof(text), "%p", address);
    return text;
  }
  // Module and offset are what addr2line wants.
  const auto offset =
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  std::snprintf(text, sizeof(text), "+0x%zx", static_cast<std::size_t>(offset));
  std::string line = info.dli_fname + std::string(text);
  if (info.dli_sname != nullptr) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> name(
        abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), std::free);
    line += std::string(" ") + (name ? name.get() : info.dli_sname);
  }
  return line;
}

}  // namespace

void trace_throws(bool on) {
  if (on) {
    // The first call loads libgcc_s; better now than in the middle of a disaster.
    void* frame = nullptr;
    ::backtrace(&frame, 1);
  }
  tracing = on;
}

std::string throw_stack(const void* object) {
  // Another exception may have been thrown since, in a destructor for example: its stack would
  // mislead.
  if (last_throw.object == nullptr || last_throw.object != object) {
    return {};
  }
  std::string text;
  for (int i = 0; i < last_throw.count; ++i) {
    text += frame_text(last_throw.frames[i]) + "\n";
  }
  return text;
}

}  // namespace ddp

extern "C" {

// Each compiler declares the function by itself, with a type of its own for the second argument.
#ifdef __clang__
using ThrownType = std::type_info;
#else
using ThrownType = void;
#endif

/// Stands before libstdc++'s for every module of a program that links the runtime.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the C++ ABI's.
DDP_EXPORT void __cxa_throw(void* object, ThrownType* type, void (*destructor)(void*)) {
  using Throw = void (*)(void*, void*, void (*)(void*));
  // dlsym(3): RTLD_NEXT is the function behind this one in the search order, libstdc++'s.
  static const auto next = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  ddp::note_throw(object);
  next(object, type, destructor);
  std::abort();  // not reached; next has no attribute to say so
}

}  // extern "C"
