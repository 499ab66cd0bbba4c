// VisibleDevices: what CUDA_VISIBLE_DEVICES leaves of a machine's GPUs, by the rules of the CUDA
// driver as PyTorch reads them too (torch.cuda._parse_visible_devices).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct VisibleDevices {
  int count = 0;
  /// The first entry that hides itself and all after it; empty when all were good.
  std::string rejected;
};

/// `uuids`: of each GPU in order, "GPU-...", "" where unknown; a GPU-name in the list is the unique
/// beginning of one of them (where none is known, any name counts, up to the number of GPUs).
///   indices    leading digits count ("1gpu" is 1); one that is too large or negative ends the list
///   GPU-name   decided by the first entry; an unknown or ambiguous one ends the list
///   MIG-name   the same; a process uses one MIG device at most, so the answer is 1 or 0
///   twice      the same device twice: none is visible
VisibleDevices visible_devices(std::string_view list, const std::vector<std::string>& uuids);

}  // namespace ddprun
