// TokenFile: a long sequence of tokens on the disk, read in place. Two formats, both little-endian:
//   - GPT-2 token files as llm.c writes them (karpathy/llm.c, dev/data/data_common.py): a header of
//     256 int32 (20240520, version 1, number of tokens, zeros), then the tokens as uint16;
//   - our cache's: a header of 64 bytes (TokenCacheHeader), then the tokens as uint16 where the
//     vocabulary has at most 65,536, else as int32.
// The formats' own functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/text/file_aside.h"
#include "trainer/text/mapped_file.h"

namespace ddp {

/// Tokens in memory that somebody else owns.
class TokenView {
 public:
  TokenView() = default;
  /// `width` is 2 or 4, and divides the number of bytes.
  TokenView(std::span<const std::byte> bytes, std::size_t width) : bytes_(bytes), width_(width) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size() / width_; }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// Tokens first, first + 1, ... as many as `to` takes; all of them are in the view.
  void read(std::size_t first, std::span<std::int32_t> to) const;

 private:
  std::span<const std::byte> bytes_;
  std::size_t width_ = 2;
};

/// The tokens of a whole llm.c file. Throws ddp::Error: another magic number or version, a number
/// of tokens that is not that of the file's size.
TokenView decode_token_bin(std::span<const std::byte> file);

struct TokenCacheHeader {
  /// Of what the tokens were made from, and how.
  std::uint64_t key = 0;
  std::uint64_t count = 0;
  std::uint32_t width = 2;
  /// XXH3 of the tokens' bytes.
  std::uint64_t checksum = 0;
};

inline constexpr std::size_t kTokenCacheHeaderBytes = 64;

std::vector<std::byte> encode_token_cache_header(const TokenCacheHeader& header);
/// The tokens of a whole cache file. Throws ddp::Error when anything of it is not as written: the
/// header by its own checksum, the key, the size, and, where `all` asks for it, the tokens by
/// theirs.
TokenView decode_token_cache(std::span<const std::byte> file, std::uint64_t key, bool all);

/// A view with the file that it is of.
struct TokenFile {
  std::filesystem::path path;
  MappedFile map;
  TokenView tokens;
};

/// Throws ddp::Error where one of `tokens`, which are the file's from `first` on, is none of a
/// model's: those are below `vocabulary_size`.
void require_known(const std::filesystem::path& path, std::size_t first,
                   std::span<const std::int32_t> tokens, std::int32_t vocabulary_size);

/// Throws ddp::Error, which begins with the path.
TokenFile open_token_bin(const std::filesystem::path& path);
TokenFile open_token_cache(const std::filesystem::path& path, std::uint64_t key, bool all);

/// Writes a cache file; it is there when finish() returns, and not before.
class TokenCacheWriter {
 public:
  /// `mark` is FileAside's. Throws ddp::Error where the disk does not take it, as all calls do.
  TokenCacheWriter(const std::filesystem::path& path, const std::string& mark, std::uint64_t key,
                   std::int32_t vocabulary_size);
  ~TokenCacheWriter();
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  /// Each below the vocabulary's size.
  void append(std::span<const std::int32_t> tokens);
  void finish();

 private:
  struct Checksum;
  void append_bytes(std::span<const std::byte> bytes);

  FileAside file_;
  TokenCacheHeader header_;
  std::unique_ptr<Checksum> checksum_;
};

}  // namespace ddp
