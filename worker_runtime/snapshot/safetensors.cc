#include "ddp/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "ddp/error.h"

namespace ddp {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kPageBytes = 4096;
/// Of a header's JSON: its own names are in the outermost object.
constexpr int kTensorDepth = 1;

struct ElementSize {
  std::string_view dtype;
  std::size_t bytes;
};
/// All types of the format (safetensors, tensor.rs) that take whole bytes.
constexpr ElementSize kElementSizes[] = {{"F32", 4}, {"BF16", 2},    {"F16", 2},    {"F64", 8},
                                         {"I64", 8}, {"I32", 4},     {"I16", 2},    {"I8", 1},
                                         {"U8", 1},  {"BOOL", 1},    {"U16", 2},    {"U32", 4},
                                         {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

std::optional<std::size_t> element_size(std::string_view dtype) {
  for (const auto& [name, bytes] : kElementSizes) {
    if (name == dtype) {
      return bytes;
    }
  }
  return std::nullopt;
}

/// The shape's element count times the element size; nothing when it overflows or is negative.
std::optional<std::size_t> byte_count(const Shape& shape, std::size_t element_bytes) {
  std::size_t count = element_bytes;
  for (const auto size : shape) {
    if (size < 0 || (size > 0 && count > std::numeric_limits<std::size_t>::max() /
                                             static_cast<std::size_t>(size))) {
      return std::nullopt;
    }
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

/// One entry of a header; `data_first` is where the data part of the file begins.
SafetensorsEntry read_entry(const std::string& name, const OrderedJson& value,
                            std::size_t data_first, std::size_t data_bytes) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = value.at("dtype").get<std::string>();
  const auto element_bytes = element_size(entry.dtype);
  if (!element_bytes) {
    throw Error("tensor '" + name + "' has the type " + entry.dtype + ", which we do not have");
  }
  entry.shape = value.at("shape").get<Shape>();
  const auto offsets = value.at("data_offsets").get<std::vector<std::size_t>>();
  const auto expected = byte_count(entry.shape, *element_bytes);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes || !expected ||
      offsets[1] - offsets[0] != *expected) {
    throw Error("tensor '" + name + "' has offsets that do not fit its shape or the file");
  }
  // The format counts from the end of the header, this program from the start of the file.
  entry.first_byte = data_first + offsets[0];
  entry.byte_count = *expected;
  return entry;
}

/// Sorted by place, the tensors must cover the data part without a gap.
void check_cover(std::vector<SafetensorsEntry>& entries, std::size_t data_first,
                 std::size_t file_bytes) {
  // A tensor without bytes begins where the next one does, and comes before it.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first_byte, a.byte_count) < std::pair(b.first_byte, b.byte_count);
  });
  std::size_t next = data_first;
  for (const auto& entry : entries) {
    if (entry.first_byte != next) {
      throw Error("tensor '" + entry.name + "' does not begin where the one before it ends");
    }
    next += entry.byte_count;
  }
  if (next != file_bytes) {
    throw Error(std::to_string(file_bytes - next) + " bytes belong to no tensor");
  }
}

}  // namespace

std::string write_safetensors_header(std::span<const SafetensorsEntry> entries) {
  // "pt" is what the Transformers library asks for before it loads a file.
  OrderedJson header = {{"__metadata__", {{"format", "pt"}}}};
  auto& fields = header.get_ref<OrderedJson::object_t&>();
  std::set<std::string_view> names;
  std::size_t offset = 0;
  for (const auto& entry : entries) {
    if (!names.insert(entry.name).second) {
      throw InvalidArgument("safetensors: tensor name '" + entry.name + "' is given twice");
    }
    // Without gaps and in the order given, as check_cover() demands.
    const std::size_t end = offset + entry.byte_count;
    // By subscript each name would be looked for among all before it.
    fields.emplace_back(entry.name, OrderedJson{{"dtype", entry.dtype},
                                                {"shape", entry.shape},
                                                {"data_offsets", {offset, end}}});
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

std::vector<SafetensorsEntry> read_safetensors_header(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    throw Error("too short for a header");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  }
  // A damaged length must lead neither beyond the file nor to a huge allocation.
  if (length > kSafetensorsHeaderBytesMax || length > file.size() - kLengthBytes) {
    throw Error(fmt::format("its header claims {} bytes", length));
  }
  const auto* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  const std::size_t data_first = kLengthBytes + length;
  std::vector<SafetensorsEntry> entries;
  // Each tensor is taken as it is read, and not kept as JSON: among kept ones each name would be
  // looked for.
  std::string name;
  std::set<std::string> names;
  const auto keep = [&](int depth, nlohmann::json::parse_event_t event, const OrderedJson& parsed) {
    if (depth != kTensorDepth) {
      return true;
    }
    if (event == nlohmann::json::parse_event_t::key) {
      name = parsed.get<std::string>();
      if (!names.insert(name).second) {
        throw Error("its header has two tensors of the name '" + name + "'");
      }
    }
    // Texts about the file; no tensor may have this name.
    if (event != nlohmann::json::parse_event_t::object_end || name == "__metadata__") {
      return true;
    }
    entries.push_back(read_entry(name, parsed, data_first, file.size() - data_first));
    return false;
  };
  try {
    const auto header = OrderedJson::parse(text, text + length, keep);
    if (!header.is_object()) {
      throw Error("its header is not a JSON object");
    }
    for (const auto& [other, value] : header.items()) {
      if (other != "__metadata__") {
        throw Error("its header says nothing of a tensor under '" + other + "'");
      }
    }
  } catch (const nlohmann::json::exception& problem) {
    throw Error(std::string("its header cannot be read: ") + problem.what());
  }
  check_cover(entries, data_first, file.size());
  return entries;
}

}  // namespace ddp
