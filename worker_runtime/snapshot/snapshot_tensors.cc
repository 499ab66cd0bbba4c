#include "worker_runtime/snapshot/snapshot_tensors.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kPageBytes = 4096;

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

/// The shape's element count times the element size; nothing when it overflows or is negative.
std::optional<std::size_t> byte_count(const Shape& shape, DType dtype) {
  std::size_t count = size_of(dtype);
  for (const auto size : shape) {
    if (size < 0 || (size > 0 && count > std::numeric_limits<std::size_t>::max() /
                                             static_cast<std::size_t>(size))) {
      return std::nullopt;
    }
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

/// One entry of a safetensors header; `data_first` is where the data part of the file begins.
Result<TensorPlace> decode_place(const std::string& name, const Json& value, std::size_t data_first,
                                 std::size_t data_bytes) {
  const auto dtype_name = value.at("dtype").get<std::string>();
  const auto dtype = dtype_from(dtype_name);
  if (!dtype) {
    return damaged("tensor '" + name + "' has the type " + dtype_name + ", which we do not have");
  }
  TensorPlace place{name, *dtype, value.at("shape").get<Shape>(), 0, 0};
  const auto offsets = value.at("data_offsets").get<std::vector<std::size_t>>();
  const auto expected = byte_count(place.shape, *dtype);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes || !expected ||
      offsets[1] - offsets[0] != *expected) {
    return damaged("tensor '" + name + "' has offsets that do not fit its shape or the file");
  }
  // The format counts from the end of the header, this program from the start of the file.
  place.first_byte = data_first + offsets[0];
  place.byte_count = *expected;
  return place;
}

/// Sorted by place, the tensors must cover the data part without a gap.
Result<void> check_cover(std::vector<TensorPlace>& places, std::size_t data_first,
                         std::size_t file_bytes) {
  // A tensor without bytes begins where the next one does, and comes before it.
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first_byte, a.byte_count) < std::pair(b.first_byte, b.byte_count);
  });
  std::size_t next = data_first;
  for (const auto& place : places) {
    if (place.first_byte != next) {
      return damaged("tensor '" + place.name + "' does not begin where the one before it ends");
    }
    next += place.byte_count;
  }
  if (next != file_bytes) {
    return damaged(std::to_string(file_bytes - next) + " bytes belong to no tensor");
  }
  return {};
}

}  // namespace

std::string encode_tensor_header(std::span<const NamedTensor> tensors) {
  // "pt" is what the Transformers library asks for before it loads a file.
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    // Without gaps and in the order given, as check_cover() demands.
    const std::size_t end = offset + tensor.size_bytes();
    header[name] = {{"dtype", safetensors_name(tensor.dtype())},
                    {"shape", tensor.shape()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string json = header.dump();
  // The format allows blanks behind the JSON: the data then begins with a page, for a reader that
  // maps the file, and for a writer that goes past the page cache.
  json.resize(
      (kLengthBytes + json.size() + kPageBytes - 1) / kPageBytes * kPageBytes - kLengthBytes, ' ');
  // The format's length is little-endian, whatever the order of this machine.
  std::string text(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    text[i] = static_cast<char>(static_cast<unsigned char>(json.size() >> (8 * i)));
  }
  return text + json;
}

Result<std::vector<TensorPlace>> decode_tensor_header(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return damaged("too short for a header");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  }
  // A damaged length must lead neither beyond the file nor to a huge allocation.
  if (length > kTensorHeaderBytesMax || length > file.size() - kLengthBytes) {
    return damaged("its header claims " + std::to_string(length) + " bytes");
  }
  const auto* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  const std::size_t data_first = kLengthBytes + length;
  std::vector<TensorPlace> places;
  try {
    const auto header = Json::parse(text, text + length);
    if (!header.is_object()) {
      return damaged("its header is not a JSON object");
    }
    for (const auto& [name, value] : header.items()) {
      // Texts about the file; no tensor may have this name (check_names).
      if (name == "__metadata__") {
        continue;
      }
      auto place = decode_place(name, value, data_first, file.size() - data_first);
      if (!place) {
        return place.error();
      }
      places.push_back(std::move(*place));
    }
  } catch (const nlohmann::json::exception& problem) {
    return damaged(std::string("its header cannot be read: ") + problem.what());
  }
  if (const auto cover = check_cover(places, data_first, file.size()); !cover) {
    return cover.error();
  }
  return places;
}

}  // namespace ddp
