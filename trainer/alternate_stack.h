// Alternate signal stacks for the threads that compute. oneDNN's kernels keep an address of the
// heap in the stack pointer. A signal whose handler runs on the thread's own stack would then
// overwrite what lies below that address; with SA_ONSTACK and one of these it does not.
#pragma once

namespace ddp {

/// Every thread of this process's OpenMP team has one from now on, unless it had one before. To be
/// called from the main thread when the number of threads is chosen, before the first signal.
void give_alternate_stacks();

}  // namespace ddp
