#include "trainer/gpt2/config.h"

#include <fmt/core.h>

#include <array>

namespace ddp {
namespace {

struct Named {
  std::string_view name;
  Gpt2Config config;
};

constexpr std::array<Named, 6> kNamed = {{{"tiny", {4, 4, 128, 64, 0}},
                                          {"10m", {6, 6, 384, 256, 0}},
                                          {"124m", {12, 12, 768, 1024, 0}},
                                          {"350m", {24, 16, 1024, 1024, 0}},
                                          {"774m", {36, 20, 1280, 1024, 0}},
                                          {"1558m", {48, 25, 1600, 1024, 0}}}};

}  // namespace

std::optional<Gpt2Config> gpt2_config(std::string_view name, std::size_t vocabulary) {
  for (const Named& named : kNamed) {
    if (named.name == name) {
      Gpt2Config config = named.config;
      config.vocabulary = vocabulary;
      return config;
    }
  }
  return std::nullopt;
}

std::string gpt2_config_names() {
  std::string names;
  for (const Named& named : kNamed) {
    names += (names.empty() ? "" : ", ") + std::string(named.name);
  }
  return names;
}

std::string describe(const Gpt2Config& config) {
  return fmt::format("gpt2 {} layers {} heads {} channels context {} vocabulary {}", config.layers,
                     config.heads, config.channels, config.context, config.vocabulary);
}

std::size_t parameter_count(const Gpt2Config& config) {
  const std::size_t c = config.channels;
  // Two layer norms (4 C), four linear layers: C x 3C, C x C, C x 4C, 4C x C, and their biases.
  const std::size_t per_layer = 12 * c * c + 13 * c;
  return (config.vocabulary + config.context) * c + config.layers * per_layer + 2 * c;
}

}  // namespace ddp
