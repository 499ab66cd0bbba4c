// Safetensors: the header of a file in that format, written and read. Pure: no file is opened here.
// The format (huggingface/safetensors, README): 8 bytes, little-endian, the length of a JSON
// object; the object: a name for each tensor with dtype, shape and data_offsets; then the tensors'
// bytes, without gaps.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ddp/export.h"
#include "ddp/tensor.h"

namespace ddp {

/// Bound of a header; the reference reader has the same.
inline constexpr std::size_t kSafetensorsHeaderBytesMax = 100'000'000;

/// A tensor's description, and where its bytes lie in the file. Types that Tensor does not have are
/// described all the same: a reader may convert them, or have no use for the tensor.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< as the format has it: "F32", "BF16", ...
  Shape shape;
  std::size_t byte_count = 0;
  std::size_t first_byte = 0;  ///< from the start of the file; not looked at by the writer
};

/// The first part of a file; the tensors' bytes follow it in the order given, without gaps. Its
/// length is a multiple of 8, so the data is aligned. Throws InvalidArgument where two have one
/// name.
DDP_EXPORT std::string write_safetensors_header(std::span<const SafetensorsEntry> entries);
/// All tensors of a whole file, in file order. Throws Error, without the file's name: a length
/// beyond the file, JSON that is none, a type that the format does not have, gaps, overlaps, bytes
/// left over.
DDP_EXPORT std::vector<SafetensorsEntry> read_safetensors_header(std::span<const std::byte> file);

}  // namespace ddp
