#include "worker_runtime/snapshot/snapshot_format.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/result_text.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

std::vector<NamedTensor> some_tensors() {
  return {{"weight", Tensor::zeros({2, 3})}, {"none", Tensor::zeros({0, 4}, DType::f64)}};
}

/// As a snapshot's file would describe them.
std::vector<TensorPlace> places_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorPlace> places;
  for (const auto& [name, tensor] : tensors) {
    places.push_back({name, tensor.dtype(), tensor.shape(), 0, tensor.size_bytes()});
  }
  return places;
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

TEST_CASE("the state comes back with every bit of its numbers", "[snapshot]") {
  const auto state = some_state();
  const auto decoded = decode_state(encode_state(state));
  REQUIRE(decoded);
  CHECK(*decoded == state);
  CHECK(std::signbit(decoded->scalars.at("minus zero")));
}

TEST_CASE("what could not be read again is told before it is written", "[snapshot]") {
  CHECK(why_not_storable(some_state()).empty());
  CHECK(why_not_storable(some_tensors()).empty());
  SnapshotState state;
  state.notes["n"] = std::string(kSmallFileBytesMax, 'x');
  CHECK_THAT(why_not_storable(state),
             Contains(" bytes as JSON, at most 16777216 can be read again; keep what is large in a "
                      "tensor"));
  state.notes["n"].resize(kSmallFileBytesMax - 300);
  REQUIRE(why_not_storable(state).empty());
  state.attempt = std::numeric_limits<std::int64_t>::max();
  CHECK(encode_state(state).size() <= kSmallFileBytesMax);
  for (const auto& spoil : std::vector<std::function<void(SnapshotState&)>>{
           [](auto& s) { s.epochs_run = -1; }, [](auto& s) { s.samples_done = -1; },
           [](auto& s) { s.model = "\xff"; }, [](auto& s) { s.notes["a"] = "\xff"; },
           [](auto& s) { s.notes["\xff"] = ""; }, [](auto& s) { s.scalars["\xff"] = 0; }}) {
    SnapshotState spoiled = some_state();
    spoil(spoiled);
    CHECK_FALSE(why_not_storable(spoiled).empty());
  }
  for (const std::string name : {"", "__metadata__", "\xff"}) {
    CHECK_FALSE(why_not_storable(std::vector<NamedTensor>{{name, Tensor::zeros({1})}}).empty());
  }
  const NamedTensor twice{"a", Tensor::zeros({1})};
  CHECK_FALSE(why_not_storable(std::vector<NamedTensor>{twice, twice}).empty());
  // A line break takes two bytes as JSON, another control character six.
  std::vector<NamedTensor> long_name{{"", Tensor::zeros({1})}};
  long_name[0].name.assign(17'000'000, '\n');
  CHECK(why_not_storable(long_name).empty());
  long_name[0].name.assign(17'000'000, '\x01');
  CHECK_THAT(why_not_storable(long_name),
             Contains("the names and shapes of its 1 tensors take 102002"));
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
  const auto later = decode_manifest(text).error();
  CHECK(later.attempt == some_manifest().attempt);
  for (const char* const attempt : {"9223372036854775807", "-1", "\"1\"", "1.5"}) {
    const std::string strange =
        R"({"format": "ddprun-snapshot", "version": 2, "attempt": )" + std::string(attempt) + "}";
    CHECK(decode_manifest(strange).error().fault == Fault::newer);
    CHECK(decode_manifest(strange).error().attempt == 0);
  }
  CHECK(decode_manifest(R"({"format": "ddprun-snapshot", "version": 2})").error().attempt == 0);
  CHECK(later.fault == Fault::newer);
  CHECK(later.error.what ==
        "a later version of ddprun wrote this snapshot (format version 2, and this one reads 1)");
  for (const char* const none : {"0", "-1", "null", "\"2\"", "2.5", "true"}) {
    text = encode_manifest(some_manifest());
    text.replace(text.find("\"version\": 1"), 12, std::string("\"version\": ") + none);
    INFO(none);
    CHECK(decode_manifest(text).error().fault == Fault::damaged);
  }
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
  const auto places = places_of(tensors);
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
                           ".attempt-00000007", "99999999999999999999", "18446744073709551615"}) {
    INFO(name);
    CHECK_FALSE(parse_snapshot_name(name));
  }
  CHECK(mark_name(3) == ".attempt-00000003");
  CHECK(parse_mark_name(mark_name(1234567890)) == 1234567890U);
  for (const auto* name : {"", ".attempt-", ".attempt-3", "attempt-00000003", "00000003"}) {
    INFO(name);
    CHECK_FALSE(parse_mark_name(name));
  }
  CHECK(is_left_over(".writing-00000003"));
  CHECK(is_left_over(".removing-00000003"));
  CHECK_FALSE(is_left_over(mark_name(3)));
  CHECK_FALSE(is_left_over("00000003"));
}

}  // namespace ddp
