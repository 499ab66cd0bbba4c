// Bytes written as hex, blanks anywhere.
#pragma once

#include <string>

namespace ddprun::test {

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  std::string pair;
  for (const char c : hex) {
    if (c == ' ') {
      continue;
    }
    pair.push_back(c);
    if (pair.size() == 2) {
      bytes.push_back(static_cast<char>(std::stoi(pair, nullptr, 16)));
      pair.clear();
    }
  }
  return bytes;
}

inline std::string to_hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return hex;
}

}  // namespace ddprun::test
