#include "worker_runtime/snapshot_format.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

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
  const auto head = bytes_of(header);
  std::vector<std::byte> file(head.begin(), head.end());
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

SnapshotState some_state() {
  SnapshotState state;
  state.model = "linear \"toy\" é";
  state.epochs_run = 11;
  state.samples_done = 96;
  state.attempt = 2;
  state.scalars = {{"lr", 0.1},
                   {"tiny", std::numeric_limits<double>::denorm_min()},
                   {"up", std::numeric_limits<double>::infinity()},
                   {"down", -std::numeric_limits<double>::infinity()},
                   {"third", 1.0 / 3.0},
                   {"minus zero", -0.0}};
  state.notes = {{"seed", "18446744073709551615"}, {"empty", ""}};
  return state;
}

Manifest some_manifest() {
  return {12, 3, {{kStateFile, 210, 0x0123456789abcdef}, {kTensorsFile, 4096, 0}}};
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
  CHECK(header.size() % 8 == 0);
  CHECK(static_cast<unsigned char>(header[0]) == header.size() - 8);
  CHECK(header.substr(1, 7) == std::string(7, '\0'));
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
  CHECK_THAT(refusal_of(file_with(entry(R"("dtype":"BF16","shape":[1],"data_offsets":[0,2])"), 2)),
             Contains("BF16"));
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
}

TEST_CASE("the state comes back with every bit of its numbers", "[snapshot]") {
  const auto state = some_state();
  const auto decoded = decode_state(encode_state(state));
  REQUIRE(decoded);
  CHECK(*decoded == state);
  CHECK(std::signbit(decoded->scalars.at("minus zero")));
}

TEST_CASE("a NaN in the state stays a NaN", "[snapshot]") {
  SnapshotState state;
  state.scalars = {{"loss", std::nan("")}};
  const auto decoded = decode_state(encode_state(state));
  REQUIRE(decoded);
  CHECK(std::isnan(decoded->scalars.at("loss")));
}

TEST_CASE("a state that lacks a field or counts below zero is refused", "[snapshot]") {
  CHECK_FALSE(decode_state(""));
  CHECK_FALSE(decode_state("{}"));
  auto text = encode_state(some_state());
  text.replace(text.find("11"), 2, "-1");
  CHECK_FALSE(decode_state(text));
}

TEST_CASE("a manifest comes back as it was written", "[snapshot]") {
  const auto decoded = decode_manifest(encode_manifest(some_manifest()));
  REQUIRE(decoded);
  CHECK(*decoded == some_manifest());
}

TEST_CASE("a manifest with any one bit flipped is refused", "[snapshot]") {
  const auto good = encode_manifest(some_manifest());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      INFO("byte " << i << " bit " << bit);
      REQUIRE_FALSE(decode_manifest(bad));
    }
  }
}

TEST_CASE("a manifest cut short at any place is refused", "[snapshot]") {
  const auto good = encode_manifest(some_manifest());
  for (std::size_t length = 0; length < good.size(); ++length) {
    REQUIRE_FALSE(decode_manifest(good.substr(0, length)));
  }
}

TEST_CASE("a manifest of a later version says which version it has", "[snapshot]") {
  auto text = encode_manifest(some_manifest());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  CHECK_THAT(decode_manifest(text).error().sentence(), Contains("version 2"));
}

TEST_CASE("a file is verified by size first and checksum then", "[snapshot]") {
  const std::string text = "some bytes";
  const ManifestEntry entry{"f", text.size(), checksum(bytes_of(text))};
  CHECK(verify_file(entry, bytes_of(text)));
  CHECK(verify_file(entry, bytes_of("some byte")).error().sentence() == "f: it has 9 bytes of 10");
  CHECK(verify_file(entry, bytes_of("some bytez")).error().sentence() ==
        "f: its checksum does not match");
}

TEST_CASE("a checksum in pieces is that of the whole, and XXH3's own", "[snapshot]") {
  Checksum pieces;
  pieces.add(bytes_of("abc"));
  pieces.add({});
  pieces.add(bytes_of("def"));
  CHECK(pieces.value() == checksum(bytes_of("abcdef")));
  CHECK(to_hex(checksum({})) == "2d06800538d394c2");  // XXH3_64 of nothing: a published constant
  CHECK(to_hex(1) == "0000000000000001");
}

TEST_CASE("a snapshot of another model is refused with the first difference", "[snapshot]") {
  const auto tensors = some_tensors();
  const auto places = *decode_tensor_header(tensor_file(tensors));
  SnapshotState state;
  state.model = "linear";
  CHECK(check_model(state, places, "linear", tensors));
  const auto refusal = [&](std::string_view model, const std::vector<NamedTensor>& mine) {
    return check_model(state, places, model, mine).error().sentence();
  };
  CHECK_THAT(refusal("gpt2", tensors), Contains("it holds 'linear', this is 'gpt2'"));
  auto other = tensors;
  other[0].tensor = Tensor::zeros({3, 2});
  CHECK_THAT(refusal("linear", other),
             Contains("'weight' is f32[2, 3], this model's is f32[3, 2]"));
  other[0].tensor = Tensor::zeros({2, 3}, DType::f64);
  CHECK_THAT(refusal("linear", other), Contains("f64[2, 3]"));
  other = tensors;
  other.push_back({"more", Tensor::zeros({1})});
  CHECK_THAT(refusal("linear", other), Contains("it has no tensor 'more'"));
  other = tensors;
  other.pop_back();
  CHECK_THAT(refusal("linear", other), Contains("it has a tensor 'none'"));
}

TEST_CASE("only the names that we give are taken for snapshots", "[snapshot]") {
  CHECK(snapshot_name(7) == "00000007");
  CHECK(snapshot_name(1234567890) == "1234567890");
  CHECK(parse_snapshot_name("00000007") == 7U);
  CHECK(parse_snapshot_name("1234567890") == 1234567890U);
  for (const auto* name : {"", "7", "0000007", "000000007", "00000007x", "+0000007",
                           ".writing-00000007", "99999999999999999999", "18446744073709551615"}) {
    INFO(name);
    CHECK_FALSE(parse_snapshot_name(name));
  }
  CHECK(is_left_over(writing_name(3)));
  CHECK(is_left_over(removing_name(3)));
  CHECK_FALSE(is_left_over("00000003"));
}

}  // namespace ddp
