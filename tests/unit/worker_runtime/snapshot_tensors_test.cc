#include "worker_runtime/snapshot/snapshot_tensors.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <span>
#include <string>

#include "ddp/safetensors.h"
#include "tests/support/result_text.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

std::vector<NamedTensor> some_tensors() {
  return {
      {"weight", Tensor::from<float>({1.5F, -2.0F, 0.25F, 8.0F, 1e-30F, 3.0F}).reshaped({2, 3})},
      {"steps", Tensor::from<std::int64_t>({-7})},
      {"mask", Tensor::from<std::uint8_t>({1, 0, 255})},
      {"none", Tensor::zeros({0, 4}, DType::f64)}};
}

std::vector<std::byte> tensor_file(const std::vector<NamedTensor>& tensors) {
  const auto header = encode_tensor_header(tensors);
  std::vector<std::byte> file(header.size());
  std::memcpy(file.data(), header.data(), header.size());
  for (const auto& [name, tensor] : tensors) {
    const auto* bytes = static_cast<const std::byte*>(tensor.raw());
    file.insert(file.end(), bytes, bytes + tensor.size_bytes());
  }
  return file;
}

/// A file with this header and so many bytes of data.
std::vector<std::byte> file_with(const std::string& json, std::size_t data_bytes) {
  std::vector<std::byte> file(8 + json.size() + data_bytes);
  for (std::size_t i = 0; i < 8; ++i) {
    file[i] = static_cast<std::byte>(json.size() >> (8 * i));
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    file[8 + i] = static_cast<std::byte>(json[i]);
  }
  return file;
}

std::string refusal_of(const std::vector<std::byte>& file) {
  const auto places = decode_tensor_header(file);
  return places ? std::string("accepted") : places.error().sentence();
}

}  // namespace

TEST_CASE("tensors come back from a safetensors file with name, type, shape and bytes",
          "[snapshot]") {
  const auto tensors = some_tensors();
  const auto file = tensor_file(tensors);
  const auto places = decode_tensor_header(file);
  REQUIRE(places);
  REQUIRE(places->size() == tensors.size());
  for (const auto& place : *places) {
    const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const auto& t) { return t.name == place.name; });
    REQUIRE(tensor != tensors.end());
    CHECK(place.dtype == tensor->tensor.dtype());
    CHECK(place.shape == tensor->tensor.shape());
    REQUIRE(place.byte_count == tensor->tensor.size_bytes());
    const auto* bytes = static_cast<const std::byte*>(tensor->tensor.raw());
    CHECK(std::equal(bytes, bytes + place.byte_count,
                     file.begin() + static_cast<std::ptrdiff_t>(place.first_byte)));
  }
}

TEST_CASE("the safetensors header is laid out as the format asks", "[snapshot]") {
  const std::vector<NamedTensor> tensors = {{"w", Tensor::zeros({1, 2})}};
  const auto header = encode_tensor_header(tensors);
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  CHECK(header.size() == 4096);  // the data begins with a page
  CHECK(header.substr(0, 2) == "\xf8\x0f");
  CHECK(header.substr(2, 6) == std::string(6, '\0'));
  CHECK(header.substr(8, json.size()) == json);
  CHECK(header.find_first_not_of(' ', 8 + json.size()) == std::string::npos);
}

TEST_CASE("a safetensors file that is not whole and consistent is refused with a reason",
          "[snapshot]") {
  CHECK_THAT(refusal_of({}), Contains("too short"));
  CHECK_THAT(refusal_of(std::vector<std::byte>(8, std::byte{0xFF})), Contains("header claims"));
  CHECK_THAT(refusal_of(file_with("[]", 0)), Contains("not a JSON object"));
  CHECK_THAT(refusal_of(file_with("{\"a\":", 0)), Contains("cannot be read"));
  CHECK_THAT(refusal_of(file_with("{}", 3)), Contains("3 bytes belong to no tensor"));
  const auto entry = [](const std::string& rest) { return "{\"a\":{" + rest + "}}"; };
  CHECK_THAT(refusal_of(file_with(entry(R"("dtype":"F16","shape":[1],"data_offsets":[0,2])"), 2)),
             Contains("F16"));
  for (const auto* bad :
       {R"("dtype":"F32","shape":[1],"data_offsets":[0,8])",
        R"("dtype":"F32","shape":[2],"data_offsets":[0,8])",
        R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])",
        R"("dtype":"F32","shape":[1],"data_offsets":[4,0])",
        R"("dtype":"F32","shape":[1],"data_offsets":[0])",
        R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"}) {
    CHECK_THAT(refusal_of(file_with(entry(bad), 4)), Contains("do not fit"));
  }
  CHECK_THAT(refusal_of(file_with(entry(R"("shape":[1],"data_offsets":[0,4])"), 4)),
             Contains("cannot be read"));
  CHECK_THAT(refusal_of(file_with(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                                  3)),
             Contains("does not begin where"));
  CHECK_THAT(refusal_of(file_with(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                  R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                  2)),
             Contains("two tensors of the name 'a'"));
  CHECK_THAT(refusal_of(file_with(R"({"a":[1]})", 0)), Contains("says nothing of a tensor"));
}

TEST_CASE("a header of a hundred thousand tensors takes no longer than its length asks",
          "[snapshot]") {
  // Where each name is looked for among all others this takes a minute, and ctest's timeout ends
  // it.
  std::vector<SafetensorsEntry> entries;
  for (int i = 100'000; i > 0; --i) {
    entries.push_back({"experts." + std::to_string(i) + ".weight", "U8", {0}, 0, 0});
  }
  const auto header = write_safetensors_header(entries);
  const auto read = read_safetensors_header(std::as_bytes(std::span(header)));
  REQUIRE(read.size() == entries.size());
  CHECK(std::equal(read.begin(), read.end(), entries.begin(),
                   [](const auto& a, const auto& b) { return a.name == b.name; }));
}

}  // namespace ddp
