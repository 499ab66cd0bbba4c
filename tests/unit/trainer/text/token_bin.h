// A GPT-2 token file in memory, written as llm.c's data scripts do, apart from the product's
// reader.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace ddp_test {

inline std::string token_bin(const std::vector<std::uint16_t>& tokens,
                             std::int32_t magic = 20240520, std::int32_t version = 1,
                             std::int32_t count = -1) {
  std::array<std::int32_t, 256> header{};
  header[0] = magic;
  header[1] = version;
  header[2] = count < 0 ? static_cast<std::int32_t>(tokens.size()) : count;
  std::string file(sizeof header + 2 * tokens.size(), '\0');
  std::memcpy(file.data(), header.data(), sizeof header);
  if (!tokens.empty()) {
    std::memcpy(file.data() + sizeof header, tokens.data(), 2 * tokens.size());
  }
  return file;
}

}  // namespace ddp_test
