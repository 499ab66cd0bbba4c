#include "trainer/gpt2/parameters.h"

#include <fmt/core.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "trainer/layers/alignment.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

/// Keeps the weights apart from what else comes from the bare seed.
constexpr std::uint64_t kGpt2Seed = 0x67707432;  // "gpt2"

struct Entry {
  std::string name;
  Shape shape;
};

std::vector<Entry> entries(const Gpt2Config& config) {
  const auto c = static_cast<std::int64_t>(config.channels);
  std::vector<Entry> all = {
      {"wte.weight", {static_cast<std::int64_t>(config.vocabulary), c}},
      {"wpe.weight", {static_cast<std::int64_t>(config.context), c}},
  };
  // In the order of Gpt2LayerWeight.
  const std::vector<Entry> of_a_layer = {
      {"ln_1.weight", {c}},
      {"ln_1.bias", {c}},
      {"attn.c_attn.weight", {c, 3 * c}},
      {"attn.c_attn.bias", {3 * c}},
      {"attn.c_proj.weight", {c, c}},
      {"attn.c_proj.bias", {c}},
      {"ln_2.weight", {c}},
      {"ln_2.bias", {c}},
      {"mlp.c_fc.weight", {c, 4 * c}},
      {"mlp.c_fc.bias", {4 * c}},
      {"mlp.c_proj.weight", {4 * c, c}},
      {"mlp.c_proj.bias", {c}},
  };
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    for (const Entry& entry : of_a_layer) {
      all.push_back({fmt::format("h.{}.{}", layer, entry.name), entry.shape});
    }
  }
  all.push_back({"ln_f.weight", {c}});
  all.push_back({"ln_f.bias", {c}});
  return all;
}

/// Floats from each parameter to the next.
std::vector<std::size_t> room(const std::vector<Entry>& entries, const Gpt2Config& config) {
  std::vector<std::size_t> floats;
  for (const auto& [name, shape] : entries) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) {
      count *= static_cast<std::size_t>(extent);
    }
    floats.push_back(aligned_floats(count));
  }
  floats[place(Gpt2Weight::wte)] = aligned_floats(padded_vocabulary(config) * config.channels);
  return floats;
}

/// Box and Muller's (1958), in doubles: their last bits, in which C libraries may differ, are lost
/// when the result becomes a float.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : uniform_(seed) {}

  float next(double deviation) {
    if (!std::exchange(has_second_, !has_second_)) {
      // Above 0, where the logarithm is finite: next() may be 0.
      const double radius =
          std::sqrt(-2 * std::log(static_cast<double>(uniform_.next()) + 0x1p-24));
      const double angle = 2 * std::numbers::pi * static_cast<double>(uniform_.next());
      second_ = radius * std::sin(angle);
      return static_cast<float>(deviation * radius * std::cos(angle));
    }
    return static_cast<float>(deviation * second_);
  }

 private:
  Uniform uniform_;
  bool has_second_ = false;
  double second_ = 0;
};

}  // namespace

std::vector<Parameter> gpt2_parameters(const Gpt2Config& config, Device device) {
  const std::vector<Entry> all = entries(config);
  const std::vector<std::size_t> floats = room(all, config);
  const std::size_t total = std::accumulate(floats.begin(), floats.end(), std::size_t{0});
  const Tensor memory = Tensor::zeros({static_cast<std::int64_t>(total)}, DType::f32, device);
  std::vector<Parameter> parameters;
  std::size_t first = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    parameters.push_back({all[i].name, memory.view(first, all[i].shape), {}});
    first += floats[i];
  }
  return parameters;
}

void initialise_gpt2(const Gpt2Config& config, std::uint64_t seed,
                     const std::vector<Parameter>& parameters) {
  constexpr double kDeviation = 0.02;
  // Each layer adds twice to the residual stream, whose variance would grow with their number.
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
  Normal normal(seed ^ kGpt2Seed);
  for (const Parameter& parameter : parameters) {
    const std::string& name = parameter.name;
    if (name.ends_with(".bias")) {
      parameter.value.zero();
    } else if (parameter.value.shape().size() == 1) {
      parameter.value.fill(1);  // a layer norm's weight
    } else {
      const double deviation = name.ends_with("c_proj.weight") ? residual : kDeviation;
      std::vector<float> values(parameter.value.size());
      for (float& value : values) {
        value = normal.next(deviation);
      }
      parameter.value.copy_from_host(values.data());
    }
  }
}

}  // namespace ddp
