// ThrowTrace: where the last exception of this thread was thrown from. C++ forgets that while it
// unwinds, and the error file should say it; so __cxa_throw is interposed (throw_trace.cc), and
// notes the return addresses while a record() is on.
#pragma once

#include <string>

namespace ddp {

/// Turns the noting on or off for all threads.
void trace_throws(bool on);

/// The stack at the throw of the exception object at `object` (dynamic_cast<const void*> of a
/// caught one), a line for each frame, names demangled. Empty when it was not thrown by this thread
/// in the usual way, for example by std::rethrow_exception.
std::string throw_stack(const void* object);

}  // namespace ddp
