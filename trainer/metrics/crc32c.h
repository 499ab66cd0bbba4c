// CRC-32C (Castagnoli, reversed polynomial 0x82F63B78: RFC 3720, appendix B.4), as the TFRecord
// format wants it. By table, a byte at a time: event files are small.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp {

inline constexpr auto kCrc32cTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    table.at(byte) = rest;
  }
  return table;
}();

constexpr std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t state = 0xFFFFFFFFU;
  for (const char c : bytes) {
    state = (state >> 8U) ^ kCrc32cTable[(state ^ static_cast<unsigned char>(c)) & 0xFFU];
  }
  return state ^ 0xFFFFFFFFU;
}

/// TFRecord's: rotated and shifted, since a CRC of data that hold their own CRC is a weak one.
constexpr std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

}  // namespace ddp
