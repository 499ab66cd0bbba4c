// The GPU forms of an image model's layers against the CPU forms, odd shapes included.
#include <catch2/catch.hpp>
#include <tuple>

#include "tests/unit/trainer/layers/gpu_case.h"
#include "trainer/layers/image_layers.h"
#include "trainer/linear.h"

namespace ddp_test {
namespace {

using ddp::Conv2dShape;
using ddp::DType;
using ddp::Tensor;

const ddp::Device kGpu = ddp::Device::cuda(0);

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// (pixels, channels) with zeros behind the channels, as a GPU stores them.
Floats with_stored(const Floats& values, std::int64_t channels, std::int64_t stored) {
  Floats padded(values.size() / size(channels) * size(stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    padded[i / size(channels) * size(stored) + i % size(channels)] = values[i];
  }
  return padded;
}

Floats without_stored(const Floats& values, std::int64_t channels, std::int64_t stored) {
  Floats cut;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % size(stored) < size(channels)) {
      cut.push_back(values[i]);
    }
  }
  return cut;
}

struct Convolved {
  Floats y, d_x, d_weight;
};

struct ConvolutionCase {
  Conv2dShape shape;
  std::int64_t batch;
  Floats x, weight, d_y, d_weight;

  ConvolutionCase(const Conv2dShape& s, std::int64_t n)
      : shape(s),
        batch(n),
        x(random_floats(size(n * s.height * s.width * s.in_channels), 1)),
        weight(random_floats(size(s.out_channels * s.in_channels * s.kernel * s.kernel), 2)),
        d_y(random_floats(size(n * s.out_height() * s.out_width() * s.out_channels), 3)),
        d_weight(weight.size(), 1.0F) {}

  /// Of numbers that are Reals: the CPU then computes with the same.
  template <class Real>
  void round() {
    x = as_stored<Real>(x);
    weight = as_stored<Real>(weight);
    d_y = as_stored<Real>(d_y);
  }

  [[nodiscard]] Convolved on_cpu() const {
    Convolved found{Floats(d_y.size()), Floats(x.size()), d_weight};
    ddp::Conv2d layer(shape);
    layer.forward(batch, x.data(), weight.data(), found.y.data());
    layer.backward_data(batch, d_y.data(), weight.data(), found.d_x.data());
    layer.backward_weights(batch, x.data(), d_y.data(), found.d_weight.data());
    return found;
  }

  template <class Real>
  [[nodiscard]] Convolved on_gpu() const {
    const auto layer = ddp::make_convolution<Real>(shape, kGpu);
    const auto stored = ddp::stored_channels(shape.in_channels, kGpu);
    const OnGpu<Real> gpu_x(with_stored(x, shape.in_channels, stored)), gpu_d_y(d_y);
    const OnGpu<Real> y(d_y.size(), 7), d_x(gpu_x.floats().size(), 7);
    const OnGpu<float> gpu_weight(weight), gradient(d_weight);
    layer->forward(batch, gpu_x.data(), gpu_weight.data(), y.data());
    layer->backward_data(batch, gpu_d_y.data(), gpu_weight.data(), d_x.data());
    layer->backward_weights(batch, gpu_x.data(), gpu_d_y.data(), gradient.data());
    return {y.floats(), without_stored(d_x.floats(), shape.in_channels, stored), gradient.floats()};
  }
};

}  // namespace

TEMPLATE_TEST_CASE("a convolution on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  const auto shape =
      GENERATE(Conv2dShape{3, 64, 9, 7, 3, 1, 1}, Conv2dShape{8, 16, 11, 11, 3, 2, 1},
               Conv2dShape{16, 24, 8, 8, 1, 2, 0}, Conv2dShape{3, 16, 15, 13, 7, 2, 3},
               Conv2dShape{64, 128, 8, 8, 1, 1, 0}, Conv2dShape{64, 64, 8, 8, 3, 1, 1});
  const std::int64_t batch = GENERATE(1, 5);
  INFO(shape.in_channels << " to " << shape.out_channels << ", kernel " << shape.kernel
                         << ", stride " << shape.stride << ", batch " << batch);
  ConvolutionCase one(shape, batch);
  one.round<TestType>();
  const auto cpu = one.on_cpu();
  const auto gpu = one.template on_gpu<TestType>();
  CHECK(difference(gpu.y, cpu.y) < kTolerance<TestType>);
  CHECK(difference(gpu.d_x, cpu.d_x) < kTolerance<TestType>);
  CHECK(difference(gpu.d_weight, cpu.d_weight) < kTolerance<TestType>);
  const auto again = one.template on_gpu<TestType>();
  CHECK(again.y == gpu.y);
  CHECK(again.d_x == gpu.d_x);
  CHECK(again.d_weight == gpu.d_weight);
}

TEST_CASE("a GPU convolves batches of more sizes than it keeps plans for") {
  NEED_GPU();
  // A real cuDNN takes milliseconds to make one: there it is some sizes only.
  const std::int64_t sizes = std::getenv("DDPRUN_GPU_LIBRARY") != nullptr ? 1030 : 20;
  const Conv2dShape shape{8, 8, 2, 2, 1, 1, 0};
  const auto layer = ddp::make_convolution<ddp::BFloat16>(shape, kGpu);
  const OnGpu<ddp::BFloat16> x(random_floats(size(sizes * 32), 1)), y(size(sizes * 32), 7);
  const OnGpu<float> weight(random_floats(64, 2));
  const auto convolve = [&](std::int64_t batch) {
    layer->forward(batch, x.data(), weight.data(), y.data());
  };
  convolve(sizes);
  const Floats first = y.floats();
  for (std::int64_t batch = 1; batch < sizes; ++batch) {
    convolve(batch);
  }
  const OnGpu<ddp::BFloat16> again(size(sizes * 32), 7);
  layer->forward(sizes, x.data(), weight.data(), again.data());
  CHECK(again.floats() == first);
}

namespace {

struct NormArrays {
  Floats x, gamma, beta, residual, d_y, d_more;
  std::size_t rows, channels;
  bool with_residual, relu, with_more;
};

struct Normed {
  Floats y, mean, inverse, running_mean, running_variance, d_x, d_gamma, d_beta, d_residual,
      inferred;
};

Normed norm_on_cpu(const NormArrays& in, const Floats* stored_y) {
  const ddp::NormShape shape{static_cast<std::int64_t>(in.rows),
                             static_cast<std::int64_t>(in.channels)};
  Normed out{.y = Floats(in.x.size()),
             .mean = Floats(in.channels),
             .inverse = Floats(in.channels),
             .running_mean = Floats(in.channels, 0.5F),
             .running_variance = Floats(in.channels, 2.0F),
             .d_x = Floats(in.x.size()),
             .d_gamma = Floats(in.channels, 1.0F),
             .d_beta = Floats(in.channels, 2.0F),
             .d_residual = in.d_y,
             .inferred = Floats(in.x.size())};
  ddp::NormForward pass{in.x.data(),
                        in.gamma.data(),
                        in.beta.data(),
                        in.with_residual ? in.residual.data() : nullptr,
                        in.relu,
                        out.running_mean.data(),
                        out.running_variance.data(),
                        out.mean.data(),
                        out.inverse.data(),
                        out.y.data()};
  ddp::norm_forward(shape, pass);
  const Floats& y = stored_y != nullptr ? *stored_y : out.y;
  ddp::norm_backward(shape, {.x = in.x.data(),
                             .y = in.relu ? y.data() : nullptr,
                             .gamma = in.gamma.data(),
                             .mean = out.mean.data(),
                             .inverse_deviation = out.inverse.data(),
                             .d_y = out.d_residual.data(),
                             .d_gamma = out.d_gamma.data(),
                             .d_beta = out.d_beta.data(),
                             .d_x = out.d_x.data(),
                             .d_more = in.with_more ? in.d_more.data() : nullptr});
  pass.y = out.inferred.data();
  ddp::norm_infer(shape, pass);
  return out;
}

template <class Real>
Normed norm_on_gpu(const NormArrays& in) {
  const auto& gpu = ddp::image_layers<Real>(kGpu);
  const ddp::NormShape shape{static_cast<std::int64_t>(in.rows),
                             static_cast<std::int64_t>(in.channels)};
  const OnGpu<Real> x(in.x), residual(in.residual), d_y(in.d_y), d_more(in.d_more);
  const OnGpu<Real> y(in.x.size(), 0), d_x(in.x.size(), 0), inferred(in.x.size(), 0);
  const OnGpu<float> gamma(in.gamma), beta(in.beta), mean(in.channels, 0), inverse(in.channels, 0);
  const OnGpu<float> running_mean(in.channels, 0.5F), running_variance(in.channels, 2.0F);
  const OnGpu<float> d_gamma(in.channels, 1.0F), d_beta(in.channels, 2.0F);
  // As a ResNet does where it can. Then y is not needed, and must not be read.
  const bool bits = sizeof(Real) == 2 && in.with_residual && in.relu && in.channels % 8 == 0;
  const auto positive = Tensor::from(std::vector<std::uint8_t>(in.x.size() / 8 + 1, 0xa5), kGpu);
  ddp::NormForwardOf<Real> pass{x.data(),
                                gamma.data(),
                                beta.data(),
                                in.with_residual ? residual.data() : nullptr,
                                in.relu,
                                running_mean.data(),
                                running_variance.data(),
                                mean.data(),
                                inverse.data(),
                                y.data(),
                                bits ? positive.data<std::uint8_t>() : nullptr};
  gpu.norm_forward(shape, pass, 0);
  gpu.norm_backward(shape,
                    {.x = x.data(),
                     .y = in.relu && !bits ? y.data() : nullptr,
                     .gamma = gamma.data(),
                     .mean = mean.data(),
                     .inverse_deviation = inverse.data(),
                     .d_y = d_y.data(),
                     .d_gamma = d_gamma.data(),
                     .d_beta = d_beta.data(),
                     .d_x = d_x.data(),
                     .d_more = in.with_more ? d_more.data() : nullptr,
                     .beta = in.relu && !in.with_residual ? beta.data() : nullptr,
                     .positive = bits ? positive.data<std::uint8_t>() : nullptr},
                    0);
  pass.y = inferred.data();
  gpu.norm_infer(shape, pass, 0);
  return {y.floats(),
          mean.floats(),
          inverse.floats(),
          running_mean.floats(),
          running_variance.floats(),
          d_x.floats(),
          d_gamma.floats(),
          d_beta.floats(),
          d_y.floats(),
          inferred.floats()};
}

}  // namespace

TEMPLATE_TEST_CASE("batch normalisation on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  std::size_t rows = 0, channels = 0;
  // The last: rows for more than one part, and for threads that read ahead.
  std::tie(rows, channels) =
      GENERATE(table<std::size_t, std::size_t>({{3, 64}, {7, 5}, {200, 3}, {64, 72}, {1500, 64}}));
  // Residual, ReLU, more of the gradient.
  bool residual = false, relu = false, more = false;
  std::tie(residual, relu, more) = GENERATE(table<bool, bool, bool>({{false, true, false},
                                                                     {false, true, true},
                                                                     {true, true, false},
                                                                     {true, true, true},
                                                                     {false, false, false}}));
  INFO(rows << " x " << channels << ", residual " << residual << ", ReLU " << relu << ", more "
            << more);
  const std::size_t count = rows * channels;
  NormArrays in{random_floats(count, 4),
                random_floats(channels, 5),
                random_floats(channels, 6),
                random_floats(count, 7),
                random_floats(count, 8),
                random_floats(count, 9),
                rows,
                channels,
                residual,
                relu,
                more};
  for (float& value : in.x) {
    value += 3;  // a difference of squares would lose digits
  }
  in.x = as_stored<TestType>(in.x);
  in.residual = as_stored<TestType>(in.residual);
  in.d_y = as_stored<TestType>(in.d_y);
  in.d_more = as_stored<TestType>(in.d_more);
  in_each_order([&] {
    const auto gpu = norm_on_gpu<TestType>(in);
    // By the GPU's y: a value so near 0 that the two round it to other sides would differ wholly.
    const auto cpu = norm_on_cpu(in, &gpu.y);
    CHECK(difference(gpu.mean, cpu.mean) < 1e-6);
    CHECK(difference(gpu.inverse, cpu.inverse) < 1e-5);
    CHECK(difference(gpu.running_mean, cpu.running_mean) < 1e-6);
    CHECK(difference(gpu.running_variance, cpu.running_variance) < 1e-5);
    CHECK(difference(gpu.y, cpu.y) < kTolerance<TestType>);
    CHECK(difference(gpu.inferred, cpu.inferred) < kTolerance<TestType>);
    const double tolerance = more ? 2 * kTolerance<TestType> : kTolerance<TestType>;
    CHECK(difference(gpu.d_x, cpu.d_x) < std::max(tolerance, 2e-5));
    CHECK(difference(gpu.d_beta, cpu.d_beta) < std::max(tolerance, 1e-5));
    CHECK(difference(gpu.d_gamma, cpu.d_gamma) < std::max(tolerance, 1e-4));
    if (residual || more) {
      CHECK(difference(gpu.d_residual, cpu.d_residual) < kTolerance<TestType>);
    }
  });
}

TEMPLATE_TEST_CASE("pools on a GPU are the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  const auto shape = GENERATE(ddp::PoolShape{3, 3, 1}, ddp::PoolShape{9, 6, 5},
                              ddp::PoolShape{8, 8, 64}, ddp::PoolShape{7, 1, 16});
  const std::int64_t batch = GENERATE(1, 3);
  const bool more = GENERATE(false, true);
  const auto pixels = size(batch * shape.height * shape.width * shape.channels);
  const auto pooled =
      size(batch * ddp::max_pooled(shape.height) * ddp::max_pooled(shape.width) * shape.channels);
  const Floats x = as_stored<TestType>(random_floats(pixels, 1));
  const Floats d_pooled = as_stored<TestType>(random_floats(pooled, 2));
  const Floats d_more = as_stored<TestType>(random_floats(pooled, 3));
  const auto means = size(batch * shape.channels);
  const Floats d_mean = as_stored<TestType>(random_floats(means, 4));
  Floats largest(pooled), d_x(pixels), mean(means), d_x_of_mean(pixels);
  std::vector<std::uint8_t> chosen(pooled);
  ddp::max_pool_forward(shape, batch, x.data(), largest.data(), chosen.data());
  ddp::max_pool_backward(shape, batch, d_pooled.data(), chosen.data(), d_x.data(),
                         more ? d_more.data() : nullptr);
  ddp::mean_pool_forward(shape, batch, x.data(), mean.data());
  ddp::mean_pool_backward(shape, batch, d_mean.data(), d_x_of_mean.data());
  const auto& gpu = ddp::image_layers<TestType>(kGpu);
  const OnGpu<TestType> gpu_x(x), dy(d_pooled), dm(d_more), y(pooled, 0), dx(pixels, 7);
  const auto places = Tensor::empty({static_cast<std::int64_t>(pooled)}, DType::u8, kGpu);
  gpu.max_pool_forward(shape, batch, gpu_x.data(), y.data(), places.data<std::uint8_t>(), 0);
  gpu.max_pool_backward(shape, batch, dy.data(), places.data<std::uint8_t>(), dx.data(),
                        more ? dm.data() : nullptr, 0);
  CHECK(y.floats() == largest);
  CHECK(places.to_vector<std::uint8_t>() == chosen);
  CHECK(difference(dx.floats(), d_x) < kTolerance<TestType>);
  const OnGpu<TestType> m(means, 0), d_m(d_mean);
  gpu.mean_pool_forward(shape, batch, gpu_x.data(), m.data(), 0);
  CHECK(difference(m.floats(), mean) < kTolerance<TestType>);
  gpu.mean_pool_backward(shape, batch, d_m.data(), dx.data(), 0);
  CHECK(difference(dx.floats(), d_x_of_mean) < kTolerance<TestType>);
}

TEMPLATE_TEST_CASE("a dense layer and the loss of classes on a GPU are the CPU's", "", float,
                   ddp::BFloat16) {
  NEED_GPU();
  const std::int64_t batch = GENERATE(1, 37, 300);
  const ddp::DenseShape shape{40, 10};
  const Floats x = as_stored<TestType>(random_floats(size(batch * 40), 1));
  const Floats weight = as_stored<TestType>(random_floats(400, 2));
  const Floats bias = as_stored<TestType>(random_floats(10, 3));
  std::vector<std::int32_t> targets;
  for (std::int64_t n = 0; n < batch; ++n) {
    targets.push_back(static_cast<std::int32_t>(n * n % 10));
  }
  const auto& gpu = ddp::image_layers<TestType>(kGpu);
  const OnGpu<TestType> gx(x), w(weight), b(bias), y(size(batch * 10), 0);
  gpu.dense_forward(shape, batch, gx.data(), w.data(), b.data(), y.data(), 0);
  Floats scores(size(batch * 10));
  ddp::dense_forward(shape, batch, x.data(), weight.data(), bias.data(), scores.data());
  CHECK(difference(y.floats(), scores) < kTolerance<TestType>);
  scores = y.floats();  // the loss of the same numbers
  const auto loss = ddp::class_loss(scores, targets, true);
  const auto on_gpu = Tensor::from(targets, kGpu);
  const auto sums = Tensor::from({10.0, 5.0}, kGpu);
  gpu.class_loss(
      {y.data(), on_gpu.data<std::int32_t>(), sums.data<double>(), true, size(batch), 10}, 0);
  const auto found = sums.to_vector<double>();
  CHECK(found[0] == Approx(10 + loss.sum).epsilon(1e-5));
  CHECK(found[1] == 5 + static_cast<double>(loss.correct));
  CHECK(difference(y.floats(), scores) < kTolerance<TestType>);
  const Floats d_y = y.floats();
  Floats d_weight(400, 1.0F), d_bias(10, 2.0F), d_x(x.size());
  ddp::dense_backward(
      shape, batch,
      {x.data(), weight.data(), d_y.data(), d_weight.data(), d_bias.data(), d_x.data()});
  const OnGpu<float> dw(400, 1.0F), db(10, 2.0F);
  const OnGpu<TestType> dx(x.size(), 0);
  gpu.dense_backward(shape, batch, {gx.data(), w.data(), y.data(), dw.data(), db.data(), dx.data()},
                     0);
  CHECK(difference(dw.floats(), d_weight) < 1e-5);
  CHECK(difference(db.floats(), d_bias) < 1e-5);
  CHECK(difference(dx.floats(), d_x) < kTolerance<TestType>);
}

TEMPLATE_TEST_CASE("a GPU normalises pixels as the CPU does", "", float, ddp::BFloat16) {
  NEED_GPU();
  const std::size_t count = GENERATE(1, 700);
  const std::size_t stored = GENERATE(3, 8);
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < count * 3; ++i) {
    pixels.push_back(static_cast<std::uint8_t>(i * 37));
  }
  Floats expected(count * stored);
  ddp::normalise_pixels({pixels.data(), expected.data(), count, stored});
  const auto bytes = Tensor::from(pixels, kGpu);
  const OnGpu<TestType> images(expected.size(), 7);
  ddp::image_layers<TestType>(kGpu).normalise_pixels(
      {bytes.data<std::uint8_t>(), images.data(), count, stored}, 0);
  CHECK(difference(images.floats(), as_stored<TestType>(expected)) < kTolerance<TestType>);
}

TEST_CASE("SGD on a GPU has the CPU's arithmetic, many tensors in a launch") {
  NEED_GPU();
  std::vector<std::size_t> lengths = {1, 256, 1003, 33000, 0, 70001};
  for (std::size_t i = 0; i < 150; ++i) {
    lengths.push_back(i * 29 % 101);
  }
  std::vector<OnGpu<float>> values, velocities, gradients;
  std::vector<Floats> expected;
  std::vector<ddp::SgdUpdate> updates;
  for (const std::size_t length : lengths) {
    Floats value = random_floats(length, 1), velocity = random_floats(length, 2);
    const Floats gradient = random_floats(length, 3);
    values.emplace_back(value);
    velocities.emplace_back(velocity);
    gradients.emplace_back(gradient);
    updates.push_back({values.back().data(), velocities.back().data(), gradients.back().data(),
                       length, 0.1F, 0.9F, 0.01F});
    const ddp::SgdUpdate update = {
        value.data(), velocity.data(), gradient.data(), length, 0.1F, 0.9F, 0.01F};
    ddp::cpu_kernels().update(&update, 1, 0);
    expected.push_back(value);
  }
  ddp::gpu_kernels().update(updates.data(), updates.size(), 0);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CHECK(difference(values[i].floats(), expected[i]) < 1e-6);
  }
}

}  // namespace ddp_test
