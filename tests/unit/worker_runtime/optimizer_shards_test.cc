// An optimizer in shards, by real processes: Adam, with the same bits as one that keeps everything.
#include "ddp/optimizer_shards.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "ddp/ddp.h"
#include "ddp/snapshot.h"
#include "ranks.h"
#include "tests/support/temp_dir.h"

namespace ddp {
namespace {

using ddp_test::expect;
using ddp_test::require_on_all_ranks;

constexpr InitOptions kOptions{.timeout = std::chrono::seconds(20),
                               .connect_timeout = std::chrono::seconds(15)};

std::vector<Parameter> model() {
  std::vector<Parameter> parameters;
  // The large one travels alone, the others together.
  for (const std::int64_t size : {3, 1000, 20, 70'000, 7}) {
    parameters.push_back({"p" + std::to_string(size), Tensor::empty({size}), {}});
    parameters.back().value.fill(1.0 / static_cast<double>(size));
  }
  return parameters;
}

/// Adam for some of the parameters. Each kind of state has one tensor for each of these.
class Adam {
 public:
  Adam(const std::vector<Parameter>& parameters, std::vector<std::size_t> own)
      : parameters_(&parameters), own_(std::move(own)) {
    for (auto& kind : state) {
      for (const std::size_t i : own_) {
        kind.push_back(Tensor::zeros(parameters[i].value.shape()));
      }
    }
  }

  void step(int number) {
    for (std::size_t k = 0; k < own_.size(); ++k) {
      const Parameter& parameter = (*parameters_)[own_[k]];
      for (std::size_t e = 0; e < parameter.value.size(); ++e) {
        const float g = parameter.gradient.data<float>()[e];
        float& m = state[0][k].data<float>()[e];
        float& v = state[1][k].data<float>()[e];
        m = 0.9F * m + 0.1F * g;
        v = 0.999F * v + 0.001F * g * g;
        const float m_hat = m / (1 - std::pow(0.9F, static_cast<float>(number)));
        const float v_hat = v / (1 - std::pow(0.999F, static_cast<float>(number)));
        parameter.value.data<float>()[e] -= 0.01F * m_hat / (std::sqrt(v_hat) + 1e-8F);
      }
    }
  }

  std::vector<Tensor> state[2];

 private:
  const std::vector<Parameter>* parameters_;
  std::vector<std::size_t> own_;
};

/// The same gradients in a world of any size.
void set_gradients(std::vector<Parameter>& parameters, int step) {
  for (Parameter& parameter : parameters) {
    parameter.gradient = Tensor::empty(parameter.value.shape());
    for (std::size_t e = 0; e < parameter.value.size(); ++e) {
      parameter.gradient.data<float>()[e] =
          std::sin(static_cast<float>(e + parameter.value.size()) * static_cast<float>(step));
    }
  }
}

/// The values after so many steps of an optimizer that keeps all the state.
std::vector<std::vector<float>> expected_after(int steps) {
  auto parameters = model();
  Adam adam(parameters, {0, 1, 2, 3, 4});
  for (int step = 1; step <= steps; ++step) {
    set_gradients(parameters, step);
    adam.step(step);
  }
  std::vector<std::vector<float>> values;
  for (const Parameter& parameter : parameters) {
    values.push_back(parameter.value.to_vector<float>());
  }
  return values;
}

bool are(const std::vector<Parameter>& parameters, const std::vector<std::vector<float>>& values) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].value.to_vector<float>() != values[i]) {
      return false;
    }
  }
  return true;
}

std::vector<NamedTensor> named(const std::vector<Parameter>& parameters,
                               const std::vector<Tensor>& m, const std::vector<Tensor>& v) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < m.size(); ++i) {
    tensors.push_back({parameters[i].name, parameters[i].value});
    tensors.push_back({"m." + parameters[i].name, m[i]});
    tensors.push_back({"v." + parameters[i].name, v[i]});
  }
  return tensors;
}

/// Goes on from what is at `path`, to `steps` steps, and saves there.
std::string train(const std::filesystem::path& path, int from, int steps) {
  const Context context = init(kOptions);
  auto parameters = model();
  OptimizerShards shards(context.group(), parameters);
  Adam adam(parameters, shards.own());
  Snapshot snapshot(context, {.path = path, .say = {}});
  const auto m = shards.gather(adam.state[0]);
  const auto v = shards.gather(adam.state[1]);
  const auto state = snapshot.load("adam", named(parameters, m, v));
  expect((state ? state->epochs_run : 0) == from, "it goes on from there");
  if (state) {
    shards.scatter(m, adam.state[0]);
    shards.scatter(v, adam.state[1]);
  }
  for (int step = from + 1; step <= steps; ++step) {
    set_gradients(parameters, step);
    adam.step(step);
    shards.share();
  }
  expect(are(parameters, expected_after(steps)), "the bits of an optimizer without shards");
  const auto whole_m = shards.gather(adam.state[0], snapshot.writes());
  const auto whole_v = shards.gather(adam.state[1], snapshot.writes());
  expect(whole_m.size() == (snapshot.writes() ? 5 : 0), "all of it, for who writes");
  SnapshotState now;
  now.model = "adam";
  now.epochs_run = steps;
  static_cast<void>(snapshot.save_async(now, named(parameters, whole_m, whole_v)));
  static_cast<void>(snapshot.wait());
  return "ok";
}

}  // namespace

TEST_CASE(
    "an optimizer in shards gives the bits of one that keeps everything, also when it goes on "
    "in a world of another size",
    "[worker_runtime]") {
  const ddprun::test::TempDir dir;
  int steps = 0;
  for (const int world_size : {2, 4, 1, 3, 7}) {
    require_on_all_ranks(world_size, "ok",
                         [&](int) { return train(dir.path() / "s", steps, steps + 5); });
    steps += 5;
  }
}

TEST_CASE("each parameter has one owner, and a state that does not fit is refused",
          "[worker_runtime]") {
  require_on_all_ranks(3, "ok", [](int) -> std::string {
    const Context context = init(kOptions);
    const auto parameters = model();
    OptimizerShards shards(context.group(), parameters);
    const Tensor owned = Tensor::zeros({5});
    std::vector<Tensor> own;
    for (const std::size_t i : shards.own()) {
      expect(shards.owner(i) == context.rank(), "its owner");
      owned.data<float>()[i] += 1;
      own.push_back(Tensor::zeros(parameters[i].value.shape()));
    }
    context.group().all_reduce(owned);
    expect(owned.to_vector<float>() == std::vector<float>(5, 1), "one owner each");
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const InvalidArgument&) {
        return;
      }
      throw std::runtime_error("a state that does not fit was taken");
    };
    refused([&] { shards.scatter({}, own); });
    own.push_back(Tensor::zeros({1}));
    refused([&] { static_cast<void>(shards.gather(own)); });
    own.pop_back();
    own[0] = Tensor::zeros({2});
    refused([&] { static_cast<void>(shards.gather(own)); });
    return "ok";
  });
}

}  // namespace ddp
