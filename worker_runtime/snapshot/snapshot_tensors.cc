#include "worker_runtime/snapshot/snapshot_tensors.h"

#include <optional>
#include <string_view>
#include <utility>

#include "ddp/error.h"
#include "ddp/safetensors.h"

namespace ddp {
namespace {

ddprun::Error damaged(std::string what) {
  return {std::move(what), kTensorsFile, ""};
}

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName kDTypeNames[] = {{DType::f32, "F32"}, {DType::f64, "F64"},
                                     {DType::i32, "I32"}, {DType::i64, "I64"},
                                     {DType::u8, "U8"},   {DType::bf16, "BF16"}};

/// Every DType has an entry, so the empty text is never written.
std::string safetensors_name(DType dtype) {
  for (const auto& entry : kDTypeNames) {
    if (entry.dtype == dtype) {
      return entry.name;
    }
  }
  return "";
}

std::optional<DType> dtype_from(std::string_view name) {
  for (const auto& entry : kDTypeNames) {
    if (name == entry.name) {
      return entry.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string encode_tensor_header(std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    entries.push_back(
        {name, safetensors_name(tensor.dtype()), tensor.shape(), tensor.size_bytes()});
  }
  return write_safetensors_header(entries);
}

Result<std::vector<TensorPlace>> decode_tensor_header(std::span<const std::byte> file) {
  std::vector<TensorPlace> places;
  try {
    for (const auto& entry : read_safetensors_header(file)) {
      const auto dtype = dtype_from(entry.dtype);
      // The format has more types than a Tensor.
      if (!dtype) {
        return damaged("tensor '" + entry.name + "' has the type " + entry.dtype +
                       ", which we do not have");
      }
      places.push_back({entry.name, *dtype, entry.shape, entry.first_byte, entry.byte_count});
    }
  } catch (const Error& problem) {
    return damaged(problem.what());
  }
  return places;
}

}  // namespace ddp
