#include "tests/standin/faults.h"

#include <cstdlib>
#include <sstream>

namespace ddp_standin {

std::optional<int> fault(const std::string& what, int rank) {
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const char* faults = std::getenv("DDPRUN_STANDIN_NCCL_FAULT");
  if (faults == nullptr || (attempt != nullptr && std::string(attempt) != "0")) {
    return std::nullopt;
  }
  std::istringstream words(faults);
  for (std::string word; std::getline(words, word, ',');) {
    const auto colon = word.find(':');
    const auto at = word.find('@');
    if (word.substr(0, std::min(colon, at)) == what &&
        (at == std::string::npos || std::atoi(word.c_str() + at + 1) == rank)) {
      return colon == std::string::npos ? 0 : std::atoi(word.c_str() + colon + 1);
    }
  }
  return std::nullopt;
}

}  // namespace ddp_standin
