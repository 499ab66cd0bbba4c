// What the stand-in for NCCL is told to do wrong, by variables:
//   DDPRUN_STANDIN_NCCL_FAULT=WHAT[@RANK][:N],...   in attempt 0 alone; every rank without RANK
//     version:N        is NCCL N
//     unique-id-fails  gives no id                init-fails    refuses to begin
//     init-error       fails while it connects    init-hangs    connects for ever
//     call-fails:N     refuses the N-th operation
//     async-error:N    fails in the N-th operation, which then never ends
//     hangs:N          never ends the N-th operation, and says nothing
//     busy:N           never takes the N-th group of operations
//     dies:N           ends this process by SIGKILL within the N-th group
//     finalize-hangs   never ends in order        abort-blocks  never returns from an abort
#pragma once

#include <optional>
#include <string>

namespace ddp_standin {

/// N of this fault on this rank (0 without one); nothing where it was not asked for.
std::optional<int> fault(const std::string& what, int rank);

/// Whether it is the N-th of these.
inline bool fault_at(const std::string& what, int rank, int count) {
  return fault(what, rank) == count;
}

}  // namespace ddp_standin
