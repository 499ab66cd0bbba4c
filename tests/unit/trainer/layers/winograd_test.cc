// Convolutions by Winograd's algorithm against their definition in double precision, and against
// oneDNN's: at each level of x86-64 that this machine runs.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/error.h"
#include "tests/unit/trainer/layers/layer_cases.h"
#include "trainer/layers/conv2d.h"
#include "trainer/layers/winograd_convolution.h"

namespace ddp_test {
namespace {

/// Of a result as a whole, relative to its size: at these sizes it is up to 4e-7.
constexpr double kErrorMost = 1e-6;

ddp::Conv2dShape square(std::int64_t in, std::int64_t out, std::int64_t height,
                        std::int64_t width) {
  return {in, out, height, width, 3, 1, 1};
}

std::size_t product_of(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(a * b * c * d);
}

/// What goes into the three passes.
struct Inputs {
  ddp::Conv2dShape shape;
  std::int64_t batch;
  Floats x, weight, d_y;

  Inputs(const ddp::Conv2dShape& s, std::int64_t n)
      : shape(s),
        batch(n),
        x(random_floats(product_of(n, s.height, s.width, s.in_channels), 1)),
        weight(random_floats(product_of(s.out_channels, s.in_channels, 3, 3), 2)),
        d_y(random_floats(product_of(n, s.height, s.width, s.out_channels), 3)) {}

  [[nodiscard]] std::string text() const {
    return std::to_string(shape.in_channels) + " to " + std::to_string(shape.out_channels) + ", " +
           std::to_string(batch) + " of " + std::to_string(shape.height) + " x " +
           std::to_string(shape.width);
  }
};

template <class Values>
struct ResultsOf {
  Values y, d_x, d_weight;
};
using Results = ResultsOf<Floats>;

Results run(ddp::ConvolutionOf<float>& layer, const Inputs& in) {
  // d_weight is added to; the others are overwritten.
  Results found{Floats(in.d_y.size(), 7), Floats(in.x.size(), 7), Floats(in.weight.size(), 1)};
  layer.forward(in.batch, in.x.data(), in.weight.data(), found.y.data());
  layer.backward_data(in.batch, in.d_y.data(), in.weight.data(), found.d_x.data());
  layer.backward_weights(in.batch, in.x.data(), in.d_y.data(), found.d_weight.data());
  return found;
}

/// By the definition.
ResultsOf<Doubles> defined(const Inputs& in) {
  const auto& s = in.shape;
  const auto channels = static_cast<std::size_t>(s.in_channels);
  const auto results = static_cast<std::size_t>(s.out_channels);
  const Doubles x = in_doubles(in.x), weight = in_doubles(in.weight), d_y = in_doubles(in.d_y);
  ResultsOf<Doubles> all{Doubles(d_y.size()), Doubles(x.size()), Doubles(weight.size(), 1)};
  for (std::int64_t pixel = 0; pixel < in.batch * s.height * s.width; ++pixel) {
    const auto row = pixel / s.width % s.height, column = pixel % s.width;
    for (std::int64_t r = 0; r < 9; ++r) {
      const auto h = row + r / 3 - 1, w = column + r % 3 - 1;
      if (h < 0 || h >= s.height || w < 0 || w >= s.width) {
        continue;
      }
      const auto from = static_cast<std::size_t>(pixel + (h - row) * s.width + w - column);
      const auto to = static_cast<std::size_t>(pixel);
      for (std::size_t k = 0; k < results; ++k) {
        for (std::size_t c = 0; c < channels; ++c) {
          const std::size_t g = (k * channels + c) * 9 + static_cast<std::size_t>(r);
          all.y[to * results + k] += x[from * channels + c] * weight[g];
          all.d_x[from * channels + c] += d_y[to * results + k] * weight[g];
          all.d_weight[g] += d_y[to * results + k] * x[from * channels + c];
        }
      }
    }
  }
  return all;
}

template <class Values>
double error(const Floats& found, const Values& wanted) {
  REQUIRE(found.size() == wanted.size());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - static_cast<double>(wanted[i]), 2);
    size += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / size);
}

template <class Values>
void check_close(const Results& found, const ResultsOf<Values>& wanted, double most) {
  CHECK(error(found.y, wanted.y) <= most);
  CHECK(error(found.d_x, wanted.d_x) <= most);
  CHECK(error(found.d_weight, wanted.d_weight) <= most);
}

}  // namespace

TEST_CASE("Winograd's convolution and its gradients are the sums of their products", "[layers]") {
  for (const auto& shape : {square(32, 64, 9, 7), square(64, 32, 1, 1), square(32, 32, 2, 2),
                            square(32, 32, 1, 6), square(96, 32, 3, 4)}) {
    for (const std::int64_t batch : {1, 3}) {
      const Inputs inputs(shape, batch);
      const auto wanted = defined(inputs);
      on_each_level([&](const ddp::Layers& layers) {
        INFO(inputs.text());
        ddp::WinogradConvolution layer(shape, layers);
        check_close(run(layer, inputs), wanted, kErrorMost);
      });
    }
  }
}

TEST_CASE("Winograd's convolution agrees with oneDNN's where tiles take several blocks",
          "[layers]") {
  for (const auto& [shape, batch] :
       {std::pair{square(32, 64, 21, 17), std::int64_t{11}}, {square(128, 96, 9, 8), 24}}) {
    const Inputs inputs(shape, batch);
    ddp::Conv2d plain(shape);
    const auto wanted = run(plain, inputs);
    on_each_level([&](const ddp::Layers& layers) {
      INFO(inputs.text());
      ddp::WinogradConvolution layer(inputs.shape, layers);
      // oneDNN adds up all pixels of a weight's gradient one after the other.
      check_close(run(layer, inputs), wanted, 4 * kErrorMost);
    });
  }
}

TEST_CASE("what Winograd makes of an image does not depend on the others", "[layers]") {
  const auto shape = square(64, 32, 7, 10);
  const Inputs inputs(shape, 13);
  ddp::WinogradConvolution layer(shape, ddp::cpu_layers());
  const auto all = run(layer, inputs);
  const auto in_size = static_cast<std::ptrdiff_t>(product_of(1, 7, 10, 64));
  const auto out_size = static_cast<std::ptrdiff_t>(product_of(1, 7, 10, 32));
  for (const std::ptrdiff_t image : {0, 5, 12}) {
    Inputs one(shape, 1);
    one.x.assign(inputs.x.begin() + image * in_size, inputs.x.begin() + (image + 1) * in_size);
    one.d_y.assign(inputs.d_y.begin() + image * out_size,
                   inputs.d_y.begin() + (image + 1) * out_size);
    const auto found = run(layer, one);
    CHECK(found.y ==
          Floats(all.y.begin() + image * out_size, all.y.begin() + (image + 1) * out_size));
    CHECK(found.d_x ==
          Floats(all.d_x.begin() + image * in_size, all.d_x.begin() + (image + 1) * in_size));
  }
}

TEST_CASE("the CPU's convolutions are Winograd's where that is faster", "[layers]") {
  const auto by_winograd = [](const ddp::Conv2dShape& shape) {
    const auto layer = ddp::make_convolution<float>(shape, ddp::Device::cpu());
    const bool found = dynamic_cast<ddp::WinogradConvolution*>(layer.get()) != nullptr;
    CHECK(found == ddp::suits_winograd(shape));
    return found;
  };
  CHECK(by_winograd({64, 64, 32, 32, 3, 1, 1}));
  CHECK(by_winograd({512, 512, 4, 4, 3, 1, 1}));
  CHECK(!by_winograd({3, 64, 32, 32, 3, 1, 1}));
  CHECK(!by_winograd({64, 48, 32, 32, 3, 1, 1}));
  CHECK(!by_winograd({64, 128, 32, 32, 3, 2, 1}));
  CHECK(!by_winograd({64, 64, 32, 32, 3, 1, 0}));
  CHECK(!by_winograd({64, 64, 32, 32, 1, 1, 0}));
  CHECK(!by_winograd({64, 64, 32, 32, 5, 1, 1}));
  CHECK_THROWS_AS(ddp::WinogradConvolution({64, 48, 32, 32, 3, 1, 1}, ddp::cpu_layers()),
                  ddp::InvalidArgument);
}

}  // namespace ddp_test
