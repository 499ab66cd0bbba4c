// The tensors' file of a snapshot, in the safetensors format (ddp/safetensors.h), with the types
// that a Tensor has. Pure: no file is opened here.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ddp/snapshot.h"
#include "ddp/tensor.h"
#include "rendezvous/base/result.h"

namespace ddp {

using ddprun::Result;

inline constexpr char kTensorsFile[] = "tensors.safetensors";

/// A tensor's description, and where its bytes lie in the file.
struct TensorPlace {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t first_byte = 0;  ///< from the start of the file
  std::size_t byte_count = 0;
};

/// The first part of tensors.safetensors; the tensors' bytes follow it in the order given, without
/// gaps. Its length is a multiple of 4096, so the data begins with a page.
std::string encode_tensor_header(std::span<const NamedTensor> tensors);
/// The places of all tensors of a whole file, in file order. An Error says what is wrong: a length
/// beyond the file, JSON that is none, a type we do not have, gaps, overlaps or bytes left over.
Result<std::vector<TensorPlace>> decode_tensor_header(std::span<const std::byte> file);

}  // namespace ddp
