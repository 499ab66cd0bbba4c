#include "rendezvous/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace ddprun {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t index) {
  return static_cast<std::uint8_t>(text[index]);
}

bool within(std::uint8_t byte, unsigned low, unsigned high) {
  return byte >= low && byte <= high;
}

/// All of `count` bytes from the third on are continuations.
bool continues(std::string_view text, std::size_t count) {
  for (std::size_t i = 2; i < count; ++i) {
    if (!within(byte_at(text, i), 0x80, 0xBF)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::size_t utf8_sequence_length(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  const auto first = byte_at(text, 0);
  if (first < 0x80) {
    return 1;
  }
  // C0 and C1 would be longer forms of ASCII; F5 and above are beyond U+10FFFF.
  const std::size_t length = within(first, 0xC2, 0xDF)   ? 2
                             : within(first, 0xE0, 0xEF) ? 3
                             : within(first, 0xF0, 0xF4) ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  // The second byte alone decides on longer forms (E0, F0), surrogates (ED) and the end (F4).
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return within(byte_at(text, 1), low, high) && continues(text, length) ? length : 0;
}

std::size_t utf8_prefix_length(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t at = 0;
  while (at < text.size()) {
    // Most text is ASCII for long stretches: eight bytes in one look.
    std::uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & kHighBits) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const auto length = utf8_sequence_length(text.substr(at));
    if (length == 0) {
      break;
    }
    at += length;
  }
  return at;
}

std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max) {
  text = text.substr(0, bytes_max);
  return text.substr(0, utf8_prefix_length(text));
}

std::size_t malformed_prefix_length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && utf8_sequence_length(text.substr(at)) == 0) {
    ++at;
  }
  return at;
}

char32_t first_code_point(std::string_view text) {
  const auto length = utf8_sequence_length(text);
  const auto first = byte_at(text, 0);
  if (length <= 1) {
    return first;
  }
  // The first byte of n has n marking bits and a 0 before its share; each other byte carries six.
  char32_t value = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    value = (value << 6U) | (byte_at(text, i) & 0x3FU);
  }
  return value;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto tail = [&](unsigned shift) {
    text += static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0U | (code_point >> 6U));
    tail(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0U | (code_point >> 12U));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | (code_point >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace ddprun
