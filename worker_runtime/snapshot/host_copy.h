// HostCopy: a training state in plain host memory, so that training may go on to change its tensors
// while they are written. The memory is kept from one copy to the next.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "ddp/snapshot.h"

namespace ddp {

class HostCopy {
 public:
  /// Overwrites the copy before. Takes memory when this state is larger than any before it: as a
  /// rule only the first time. Tensors on a GPU are copied straight into it.
  void take(std::span<const NamedTensor> tensors);

  /// The begin of a safetensors file of these tensors.
  [[nodiscard]] const std::string& header() const { return header_; }
  /// The rest of that file, from the begin of a page.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.get(), size_bytes_}; }

 private:
  std::string header_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_{nullptr, std::free};
  std::size_t capacity_bytes_ = 0;
  std::size_t size_bytes_ = 0;
};

}  // namespace ddp
