#include "worker_runtime/snapshot/snapshot_format.h"

#define XXH_INLINE_ALL
#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "ddp/safetensors.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;
using Failure = ddprun::Error;

constexpr char kFormatName[] = "ddprun-snapshot";
constexpr int kFormatVersion = 1;
constexpr std::string_view kMarkPrefix = ".attempt-";
constexpr std::uint64_t kNumberMax = std::numeric_limits<std::uint64_t>::max() / 2;
static_assert(kAttemptMax < kNumberMax, "the mark of an attempt has a name that is read");

Failure damaged(std::string what, const char* file) {
  return Failure{std::move(what), file, ""};
}

/// Sixteen digits and nothing else, as to_hex writes them.
std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || problem != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

/// JSON has no such numbers, and a loss may be one of them.
Json number_to_json(double value) {
  if (std::isfinite(value)) {
    return value;
  }
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_from_json(const Json& value) {
  if (!value.is_string()) {
    return value.get<double>();
  }
  const auto text = value.get<std::string>();
  if (text == "nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "-inf" ? -infinity : infinity;
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

Json manifest_body(const Manifest& manifest) {
  Json files = Json::array();
  for (const auto& file : manifest.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.size_bytes}, {"xxh3_64", to_hex(file.xxh3)}});
  }
  DDP_CHECK(files.size() == manifest.files.size(), "each file has its entry");
  return {{"format", kFormatName},
          {"version", kFormatVersion},
          {"number", manifest.number},
          {"attempt", manifest.attempt},
          {"files", std::move(files)}};
}

}  // namespace

Checksum::Checksum() : state_(XXH3_createState()) {
  DDP_CHECK(state_ != nullptr, "a checksum has a state to add to");
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}

Checksum::~Checksum() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string to_hex(std::uint64_t value) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit) {
    *digit = "0123456789abcdef"[value & 0xF];
    value >>= 4;
  }
  DDP_CHECK(value == 0, "16 digits have room for 64 bits");
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string why_not_storable(const SnapshotState& state) {
  if (state.epochs_run < 0 || state.samples_done < 0) {
    return "epochs_run and samples_done count from 0";
  }
  bool is_text = is_utf8(state.model);
  for (const auto& [name, value] : state.scalars) {
    is_text = is_text && is_utf8(name);
  }
  for (const auto& [name, text] : state.notes) {
    is_text = is_text && is_utf8(name) && is_utf8(text);
  }
  if (!is_text) {
    return "the model's name, or a name or text of its state, is not UTF-8";
  }
  // What write() changes in it, the attempt, has 19 digits at most.
  constexpr std::size_t kAttemptDigits = 19;
  const std::size_t bytes = encode_state(state).size() + kAttemptDigits;
  return bytes <= kSmallFileBytesMax
             ? ""
             : fmt::format(
                   "its state takes {} bytes as JSON, at most {} can be read again; keep "
                   "what is large in a tensor",
                   bytes, kSmallFileBytesMax);
}

std::string why_not_storable(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> names;
  // At most, to have the header written only where it may be too long: an entry without its name
  // and shape, a number of a shape, a byte of a name.
  constexpr std::size_t kEntryBytes = 128;
  constexpr std::size_t kNumberBytes = 20;
  constexpr std::size_t kEscapeBytes = 6;
  std::size_t header_bytes = kEntryBytes;
  for (const auto& [name, tensor] : tensors) {
    // Names are keys of a JSON object in the file, where __metadata__ is the format's own.
    if (name.empty() || name == "__metadata__" || !names.insert(name).second) {
      return "tensor name '" + name + "' is empty, reserved or given twice";
    }
    if (!is_utf8(name)) {
      return "the name of a tensor is not UTF-8";
    }
    header_bytes += kEntryBytes + kEscapeBytes * name.size() + kNumberBytes * tensor.shape().size();
  }
  DDP_CHECK(names.size() == tensors.size(), "each tensor has a name of its own");
  if (header_bytes > kSafetensorsHeaderBytesMax) {
    header_bytes = encode_tensor_header(tensors).size();
  }
  return header_bytes <= kSafetensorsHeaderBytesMax
             ? ""
             : fmt::format(
                   "the names and shapes of its {} tensors take {} bytes, at most {} can be "
                   "read again",
                   tensors.size(), header_bytes, kSafetensorsHeaderBytesMax);
}

std::string encode_state(const SnapshotState& state) {
  DDP_CHECK(state.epochs_run >= 0 && state.samples_done >= 0,
            "a state that could not be read again is not written");
  Json scalars = Json::object();
  for (const auto& [name, value] : state.scalars) {
    scalars[name] = number_to_json(value);
  }
  Json notes = Json::object();
  for (const auto& [name, text] : state.notes) {
    notes[name] = text;
  }
  DDP_CHECK(scalars.size() == state.scalars.size() && notes.size() == state.notes.size(),
            "each name has one value");
  const Json json = {{"model", state.model},
                     {"epochs_run", state.epochs_run},
                     {"samples_done", state.samples_done},
                     {"attempt", state.attempt},
                     {"scalars", std::move(scalars)},
                     {"notes", std::move(notes)}};
  // Text that is not UTF-8 is refused before (why_not_storable).
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<SnapshotState> decode_state(std::string_view text) {
  try {
    const auto json = Json::parse(text);
    SnapshotState state;
    json.at("model").get_to(state.model);
    json.at("epochs_run").get_to(state.epochs_run);
    json.at("samples_done").get_to(state.samples_done);
    json.at("attempt").get_to(state.attempt);
    for (const auto& [name, value] : json.at("scalars").items()) {
      state.scalars[name] = number_from_json(value);
    }
    for (const auto& [name, value] : json.at("notes").items()) {
      state.notes[name] = value.get<std::string>();
    }
    if (state.epochs_run < 0 || state.samples_done < 0) {
      return damaged("it counts epochs or samples below 0", kStateFile);
    }
    return state;
  } catch (const nlohmann::json::exception& problem) {
    return damaged(std::string("it cannot be read: ") + problem.what(), kStateFile);
  }
}

std::string encode_manifest(const Manifest& manifest) {
  Json json = manifest_body(manifest);
  // The checksum is of the text without its own field. ordered_json keeps the order of fields, so
  // every machine gives the same text.
  const auto body = json.dump(2);
  json["checksum"] = to_hex(checksum(bytes_of(body)));
  DDP_CHECK(json.size() == 6, "the checksum is a field of its own, and the only one it leaves out");
  return json.dump(2) + "\n";
}

ReadResult<Manifest> decode_manifest(std::string_view text) {
  try {
    const auto json = Json::parse(text);
    if (json.at("format") != kFormatName) {
      return damaged("it is not a snapshot's manifest", kManifestFile);
    }
    // Before its checksum, which a later version may take otherwise. So a flipped bit here ends the
    // job, where it is passed over elsewhere: better that than to lose what is good.
    const auto& version = json.at("version");
    if (version.is_number_integer() && version > kFormatVersion) {
      Unread newer{damaged(fmt::format("a later version of ddprun wrote this snapshot (format "
                                       "version {}, and this one reads {})",
                                       version.dump(), kFormatVersion),
                           kManifestFile),
                   Fault::newer};
      const auto attempt = json.value("attempt", Json());
      // As below: one near the top is not counted on from.
      const bool is_believed = attempt.is_number_unsigned() && attempt <= kAttemptMax;
      newer.attempt = is_believed ? attempt.get<std::uint64_t>() : 0;
      return newer;
    }
    if (version != kFormatVersion) {
      return damaged("it has no format version that ddprun ever wrote", kManifestFile);
    }
    Manifest manifest{
        json.at("number").get<std::uint64_t>(), json.at("attempt").get<std::uint64_t>(), {}};
    for (const auto& file : json.at("files")) {
      const auto hash = parse_hex(file.at("xxh3_64").get<std::string>());
      if (!hash) {
        return damaged("a checksum in it is not 16 hexadecimal digits", kManifestFile);
      }
      manifest.files.push_back(
          {file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(), *hash});
    }
    // The checksum below is no seal: whoever writes a manifest can compute it. An attempt near the
    // top could not be counted on from, nor have a mark.
    if (manifest.attempt > kAttemptMax) {
      return damaged(
          fmt::format("it is of attempt {}, which no job can have reached", manifest.attempt),
          kManifestFile);
    }
    DDP_CHECK(manifest.files.size() == json.at("files").size(), "each entry is read once");
    // Written anew it must be the very text: so the checksum is right, and nothing stands in it
    // that we would not know of.
    if (encode_manifest(manifest) != text) {
      return damaged("its checksum does not match", kManifestFile);
    }
    return manifest;
  } catch (const nlohmann::json::parse_error& problem) {
    return damaged(fmt::format("it is no JSON from byte {} on", problem.byte), kManifestFile);
  } catch (const nlohmann::json::exception&) {
    return damaged("a field is missing in it, or of another type than ddprun writes",
                   kManifestFile);
  }
}

Result<void> verify_file(const ManifestEntry& entry, std::span<const std::byte> bytes) {
  if (bytes.size() != entry.size_bytes) {
    return Failure{fmt::format("it has {} bytes of {}", bytes.size(), entry.size_bytes), entry.name,
                   ""};
  }
  if (checksum(bytes) != entry.xxh3) {
    return Failure{"its checksum does not match", entry.name, ""};
  }
  return {};
}

Result<void> check_model(const SnapshotState& state, std::span<const TensorPlace> places,
                         std::string_view model, std::span<const NamedTensor> tensors) {
  const auto differs = [](std::string what) {
    return Failure{"snapshot of another model: " + std::move(what), "",
                   "choose another snapshot path, or move this one away"};
  };
  if (state.model != model) {
    return differs("it holds '" + state.model + "', this is '" + std::string(model) + "'");
  }
  std::unordered_map<std::string_view, const TensorPlace*> place_of;
  for (const auto& place : places) {
    place_of[place.name] = &place;
  }
  for (const auto& [name, tensor] : tensors) {
    const auto found = place_of.find(name);
    if (found == place_of.end()) {
      return differs("it has no tensor '" + name + "'");
    }
    const TensorPlace* const place = found->second;
    place_of.erase(found);
    if (place->shape != tensor.shape() || place->dtype != tensor.dtype()) {
      return differs("its tensor '" + name + "' is " + std::string(name_of(place->dtype)) +
                     to_text(place->shape) + ", this model's is " +
                     std::string(name_of(tensor.dtype())) + to_text(tensor.shape()));
    }
  }
  // Both ways: a model that lost a layer must not take a part of another one's state.
  for (const auto& place : places) {
    if (place_of.contains(place.name)) {
      return differs("it has a tensor '" + place.name + "', which this model has not");
    }
  }
  return {};
}

bool is_snapshot_file(std::string_view name) {
  return name == kStateFile || name == kTensorsFile || name == kManifestFile;
}

std::string snapshot_name(std::uint64_t number) {
  const auto digits = std::to_string(number);
  std::string name = std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
  DDP_CHECK(name.ends_with(digits) && name.size() >= 8, "names sort as their numbers do");
  return name;
}

std::optional<std::uint64_t> parse_snapshot_name(std::string_view name) {
  const auto number = ddprun::parse_number<std::uint64_t>(name);
  if (!number || *number > kNumberMax || snapshot_name(*number) != name) {
    return std::nullopt;
  }
  DDP_CHECK(*number + 1 > *number, "the number after it can be counted");
  return number;
}

std::string mark_name(std::uint64_t attempt) {
  return std::string(kMarkPrefix) + snapshot_name(attempt);
}

std::optional<std::uint64_t> parse_mark_name(std::string_view name) {
  if (!name.starts_with(kMarkPrefix)) {
    return std::nullopt;
  }
  const auto attempt = parse_snapshot_name(name.substr(kMarkPrefix.size()));
  if (attempt && *attempt > kAttemptMax) {
    return std::nullopt;
  }
  DDP_CHECK(!attempt || mark_name(*attempt) == name, "a mark has one name");
  return attempt;
}

bool is_left_over(std::string_view name) {
  return name.starts_with(".writing-") || name.starts_with(".removing-");
}

}  // namespace ddp
