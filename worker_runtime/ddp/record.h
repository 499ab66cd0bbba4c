// record: the last act of a failing worker. Whatever ends it — an exception, a failed check, a
// fatal signal — is written to the error file that the launcher named (TORCHELASTIC_ERROR_FILE),
// with message, stack and time, so that the job's summary can say what happened.
#pragma once

#include <functional>

#include "ddp/export.h"

namespace ddp {

/// Runs `main_function(argc, argv)` and returns its value. An exception that leaves it: error file,
/// the message on stderr, return 1 (DoNotRetry: its own status). SIGSEGV, SIGBUS, SIGFPE, SIGILL,
/// SIGABRT: error file, then the process dies by that very signal, as it would have without.
/// std::exit inside is not recorded. Without TORCHELASTIC_ERROR_FILE only stderr is written. Call
/// it once, from main.
DDP_EXPORT int record(int argc, char** argv, int (*main_function)(int, char**));
/// The same for a function without arguments, such as a lambda.
DDP_EXPORT int record(const std::function<int()>& main_function);

/// What DDP_ASSERT calls: says so on stderr and aborts, with `message` in the error file.
[[noreturn]] DDP_EXPORT void fail_assertion(const char* condition, const char* message,
                                            const char* file, int line) noexcept;

}  // namespace ddp

/// A condition that holds unless the program has a bug. On in every build.
#define DDP_ASSERT(condition, message) \
  ((condition) ? static_cast<void>(0)  \
               : ::ddp::fail_assertion(#condition, message, __FILE__, __LINE__))
