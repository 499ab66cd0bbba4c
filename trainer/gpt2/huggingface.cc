#include "trainer/gpt2/huggingface.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "ddp/error.h"
#include "ddp/safetensors.h"
#include "trainer/text/file_aside.h"
#include "trainer/text/json_reason.h"
#include "trainer/text/mapped_file.h"

namespace ddp {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr char kConfigFile[] = "config.json";
constexpr char kWeightsFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr std::string_view kPrefix = "transformer.";
/// What a tensor is called by GPT2Model.
std::string_view own_name(std::string_view name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

bool is_left_alone(std::string_view name) {
  return name == "lm_head.weight" || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

[[noreturn]] void fail(const Path& path, const std::string& what) {
  throw Error(path.string() + ": " + what);
}

/// Runs `read`; what it throws gets the path in front.
template <class Read>
auto with_path(const Path& path, Read read) {
  try {
    return read();
  } catch (const Error& problem) {
    fail(path, problem.what());
  } catch (const json::exception& problem) {
    fail(path, "is not laid out as expected: " + json_reason(problem));
  }
}

/// The files that hold the folder's tensors.
std::set<Path> weight_files(const Path& folder) {
  const Path index = folder / kIndexFile;
  if (std::filesystem::exists(folder / kWeightsFile) || !std::filesystem::exists(index)) {
    return {folder / kWeightsFile};
  }
  const MappedFile map(index);
  return with_path(index, [&] {
    std::set<Path> files;
    const auto root = json::parse(map.text());
    for (const auto& [tensor, file] : root.at("weight_map").items()) {
      const Path name = file.get<std::string>();
      // An index names its neighbours, and nothing anywhere else on the machine.
      if (name.empty() || name != name.filename() || name == "..") {
        throw Error("the tensor '" + tensor + "' is in '" + name.string() +
                    "', which is no file of this folder");
      }
      files.insert(folder / name);
    }
    if (files.empty()) {
      throw Error("names no file");
    }
    return files;
  });
}

/// The tensor's elements as floats.
std::vector<float> floats_of(std::span<const std::byte> file, const SafetensorsEntry& entry) {
  const auto* bytes = file.data() + entry.first_byte;
  const bool is_f32 = entry.dtype == "F32";
  const bool is_f16 = entry.dtype == "F16";
  if (!is_f32 && !is_f16 && entry.dtype != "BF16") {
    throw Error("tensor '" + entry.name + "' has the type " + entry.dtype +
                ", and only F32, F16 and BF16 are supported");
  }
  std::vector<float> values(entry.byte_count / (is_f32 ? sizeof(float) : sizeof(std::uint16_t)));
  if (is_f32) {
    std::memcpy(values.data(), bytes, entry.byte_count);
    return values;
  }
  for (auto& value : values) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    bytes += sizeof bits;
    value = is_f16 ? float_of_f16(bits) : float_of_bf16(bits);
  }
  return values;
}

/// Fills those of `missing` that the file has, and takes them out.
void read_file(const Path& path, std::map<std::string, Tensor, std::less<>>& missing,
               std::set<std::string, std::less<>>& done) {
  const MappedFile map(path);
  with_path(path, [&] {
    for (const auto& entry : read_safetensors_header(map.bytes())) {
      const auto name = own_name(entry.name);
      const auto wanted = missing.find(name);
      if (wanted == missing.end()) {
        if (is_left_alone(name)) {
          continue;
        }
        throw Error("tensor '" + entry.name + "' " +
                    (done.contains(name) ? "is there twice"
                                         : "is none of a GPT-2 of the sizes in config.json"));
      }
      if (entry.shape != wanted->second.shape()) {
        throw Error("tensor '" + entry.name + "' has the shape " + to_text(entry.shape) +
                    ", and config.json asks for " + to_text(wanted->second.shape()));
      }
      const auto values = floats_of(map.bytes(), entry);
      if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
        throw Error("tensor '" + entry.name + "' has a number that is not finite");
      }
      wanted->second.copy_from_host(values.data());
      done.insert(std::string(name));
      missing.erase(wanted);
    }
  });
}

}  // namespace

float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    // Zero and the subnormal numbers: the fraction counts units of 2^-24.
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  // Infinity and NaN have the largest exponent in both types; of all others the bias grows by 112.
  const std::uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23U | fraction << 13U);
}

HuggingFaceConfig read_huggingface_config(const Path& folder) {
  const Path path = folder / kConfigFile;
  const MappedFile map(path);
  return with_path(path, [&] { return parse_huggingface_config(map.text()); });
}

void read_huggingface_tensors(const Path& folder, std::span<const NamedTensor> tensors) {
  std::map<std::string, Tensor, std::less<>> missing;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype() != DType::f32) {
      throw InvalidArgument("the tensor '" + name + "' to be filled must be f32");
    }
    missing.emplace(name, tensor);
  }
  std::set<std::string, std::less<>> done;
  for (const auto& path : weight_files(folder)) {
    read_file(path, missing, done);
  }
  if (!missing.empty()) {
    fail(folder, "has no tensor '" + missing.begin()->first + "'");
  }
}

void write_huggingface_folder(const Path& folder, const HuggingFaceConfig& config,
                              std::span<const NamedTensor> tensors,
                              std::span<const Path> tokenizer_files) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) {
    fail(folder, "cannot make the directory: " + problem.message());
  }
  for (const auto& file : tokenizer_files) {
    const MappedFile map(file);
    FileAside copy(folder / file.filename());
    copy.append(map.bytes());
    copy.finish();
  }
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype() != DType::f32) {
      throw InvalidArgument("the tensor '" + name + "' to be written must be f32");
    }
    entries.push_back({std::string(kPrefix) + name, "F32", tensor.shape(), tensor.size_bytes()});
  }
  FileAside weights(folder / kWeightsFile);
  const auto header = write_safetensors_header(entries);
  weights.append(std::as_bytes(std::span(header)));
  for (const auto& named : tensors) {
    const auto values = named.tensor.to_vector<float>();
    weights.append(std::as_bytes(std::span(values)));
  }
  weights.finish();
  // Last: a folder with a config.json is complete.
  FileAside text(folder / kConfigFile);
  const auto config_text = write_huggingface_config(config);
  text.append(std::as_bytes(std::span(config_text)));
  text.finish();
}

}  // namespace ddp
