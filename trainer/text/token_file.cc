#include "trainer/text/token_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ddp/error.h"

namespace ddp {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read in place");

constexpr std::int32_t kBinMagic = 20240520;
constexpr std::int32_t kBinVersion = 1;
constexpr std::size_t kBinHeaderBytes = 256 * sizeof(std::int32_t);
constexpr std::size_t kNarrowVocabulary = std::size_t{1} << 16U;

/// As it stands in the file; the rest up to 64 bytes is 0.
struct RawHeader {
  std::array<char, 8> magic{'d', 'd', 'p', 't', 'o', 'k', 'e', 'n'};
  std::uint32_t version = 1;
  std::uint32_t width = 0;
  std::uint64_t count = 0;
  std::uint64_t key = 0;
  std::uint64_t tokens_checksum = 0;
  std::array<std::uint64_t, 2> reserved{};
  std::uint64_t header_checksum = 0;  ///< of all before it
};
static_assert(sizeof(RawHeader) == kTokenCacheHeaderBytes);

std::uint64_t header_checksum(const RawHeader& raw) {
  return XXH3_64bits(&raw, sizeof raw - sizeof raw.header_checksum);
}

/// Reads a file's format; what it says gets the path in front.
template <class Decode>
TokenFile open_as(const std::filesystem::path& path, Decode decode) {
  MappedFile map(path);
  try {
    const auto tokens = decode(map.bytes());
    return {path, std::move(map), tokens};
  } catch (const Error& problem) {
    throw Error(path.string() + ": " + problem.what());
  }
}

}  // namespace

void TokenView::read(std::size_t first, std::span<std::int32_t> to) const {
  const auto* from = bytes_.data() + first * width_;
  if (width_ == sizeof(std::int32_t)) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  for (auto& token : to) {
    std::uint16_t narrow = 0;
    std::memcpy(&narrow, from, sizeof narrow);
    token = narrow;
    from += sizeof narrow;
  }
}

TokenView decode_token_bin(std::span<const std::byte> file) {
  std::array<std::int32_t, 3> header{};
  if (file.size() < kBinHeaderBytes) {
    throw Error(fmt::format("is no token file: it has {} bytes, and its header alone would have {}",
                            file.size(), kBinHeaderBytes));
  }
  std::memcpy(header.data(), file.data(), sizeof header);
  const auto [magic, version, count] = header;
  if (magic != kBinMagic || version != kBinVersion) {
    throw Error(fmt::format(
        "is no token file of GPT-2: it begins with {} and {}, not with {} and version {}", magic,
        version, kBinMagic, kBinVersion));
  }
  const auto tokens = file.subspan(kBinHeaderBytes);
  if (count < 0 || tokens.size() != static_cast<std::size_t>(count) * sizeof(std::uint16_t)) {
    throw Error(fmt::format("its header speaks of {} tokens of 2 bytes, but {} bytes follow it",
                            count, tokens.size()));
  }
  return {tokens, sizeof(std::uint16_t)};
}

std::vector<std::byte> encode_token_cache_header(const TokenCacheHeader& header) {
  RawHeader raw;
  raw.width = header.width;
  raw.count = header.count;
  raw.key = header.key;
  raw.tokens_checksum = header.checksum;
  raw.header_checksum = header_checksum(raw);
  std::vector<std::byte> bytes(sizeof raw);
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

TokenView decode_token_cache(std::span<const std::byte> file, std::uint64_t key, bool all) {
  RawHeader raw;
  if (file.size() < sizeof raw) {
    throw Error("too short for a header");
  }
  std::memcpy(&raw, file.data(), sizeof raw);
  if (raw.magic != RawHeader{}.magic || raw.version != RawHeader{}.version ||
      raw.header_checksum != header_checksum(raw)) {
    throw Error("its header is not what was written");
  }
  if (raw.key != key) {
    throw Error("it holds the tokens of other files");
  }
  const auto tokens = file.subspan(sizeof raw);
  if ((raw.width != 2 && raw.width != 4) || tokens.size() / raw.width != raw.count ||
      tokens.size() % raw.width != 0) {
    throw Error("it was cut short or has grown");
  }
  if (all && XXH3_64bits(tokens.data(), tokens.size()) != raw.tokens_checksum) {
    throw Error("the checksum of its tokens is another one");
  }
  return {tokens, raw.width};
}

void require_known(const std::filesystem::path& path, std::size_t first,
                   std::span<const std::int32_t> tokens, std::int32_t vocabulary_size) {
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t token) {
    return token < 0 || token >= vocabulary_size;
  });
  if (bad != tokens.end()) {
    throw Error(fmt::format(
        "{}: token {} is {}, and the model has those below {} alone; give the data of this "
        "model's tokenizer",
        path.string(), first + static_cast<std::size_t>(bad - tokens.begin()), *bad,
        vocabulary_size));
  }
}

TokenFile open_token_bin(const std::filesystem::path& path) {
  return open_as(path, decode_token_bin);
}

struct TokenCacheWriter::Checksum {
  Checksum() { XXH3_64bits_reset(&state); }
  XXH3_state_t state;
};

TokenFile open_token_cache(const std::filesystem::path& path, std::uint64_t key, bool all) {
  return open_as(path, [&](auto bytes) { return decode_token_cache(bytes, key, all); });
}

TokenCacheWriter::TokenCacheWriter(const std::filesystem::path& path, const std::string& mark,
                                   std::uint64_t key, std::int32_t vocabulary_size)
    : file_(path, mark), checksum_(std::make_unique<Checksum>()) {
  header_.key = key;
  header_.width = static_cast<std::size_t>(vocabulary_size) <= kNarrowVocabulary ? 2 : 4;
  // The header's place; what it says is known at the end.
  file_.append(std::vector<std::byte>(kTokenCacheHeaderBytes));
}
TokenCacheWriter::~TokenCacheWriter() = default;

void TokenCacheWriter::append(std::span<const std::int32_t> tokens) {
  header_.count += tokens.size();
  if (header_.width == sizeof(std::int32_t)) {
    append_bytes(std::as_bytes(tokens));
    return;
  }
  const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
  append_bytes(std::as_bytes(std::span(narrow)));
}

void TokenCacheWriter::append_bytes(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&checksum_->state, bytes.data(), bytes.size());
  file_.append(bytes);
}

void TokenCacheWriter::finish() {
  header_.checksum = XXH3_64bits_digest(&checksum_->state);
  file_.write_start(encode_token_cache_header(header_));
  file_.finish();
}

}  // namespace ddp
