#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "ddp/tensor.h"
#include "tests/support/skip.h"
#include "tests/unit/trainer/layers/layer_cases.h"
#include "trainer/layers/bf16_product.h"
#include "trainer/layers/gelu.h"

namespace ddp_test {
namespace {

/// An array that begins at a cache line, as the layers' scratch memory must.
struct Scratch {
  explicit Scratch(std::size_t count) : memory(count + 16) {
    void* begin = memory.data();
    std::size_t room = memory.size() * sizeof(float);
    data = static_cast<float*>(std::align(64, count * sizeof(float), begin, room));
  }
  Floats memory;
  float* data;
};

/// out (B, T, H, D) of qkv (B, T, 3, H, D), straight from the definition.
Doubles exact_attention(const Doubles& qkv, const ddp::AttentionShape& shape) {
  const std::size_t c = shape.channels();
  Doubles out(shape.batch * shape.time * c);
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t h = 0; h < shape.heads; ++h) {
      const auto at = [&](std::size_t t, std::size_t which, std::size_t d) {
        return qkv[((b * shape.time + t) * 3 + which) * c + h * shape.head_size + d];
      };
      for (std::size_t t = 0; t < shape.time; ++t) {
        Doubles scores;
        double sum = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::size_t d = 0; d < shape.head_size; ++d) {
            score += at(t, 0, d) * at(s, 1, d);
          }
          scores.push_back(std::exp(score / std::sqrt(static_cast<double>(shape.head_size))));
          sum += scores.back();
        }
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t d = 0; d < shape.head_size; ++d) {
            out[(b * shape.time + t) * c + h * shape.head_size + d] +=
                scores[s] / sum * at(s, 2, d);
          }
        }
      }
    }
  }
  return out;
}

Floats attend(const ddp::Layers& layers, const ddp::AttentionShape& shape, const Floats& qkv,
              Floats& log_sum, Scratch& scratch) {
  Floats out(shape.batch * shape.time * shape.channels());
  log_sum.assign(shape.batch * shape.heads * shape.time, 0);
  layers.attention_forward({shape, qkv.data(), out.data(), log_sum.data(), scratch.data}, 0);
  return out;
}

Floats bf16_floats(std::size_t count, std::uint64_t seed) {
  Floats values = random_floats(count, seed);
  for (float& value : values) {
    value = static_cast<float>(ddp::BFloat16(value));
  }
  return values;
}

/// A linear layer's passes on numbers that bf16 holds exactly, so that products of either precision
/// have to be those of doubles.
void check_linear(const ddp::Layers& layers) {
  constexpr std::size_t kRows = 131;  // more than one chunk of the epilogue
  constexpr std::size_t kIn = 19;
  constexpr std::size_t kOut = 701;
  const Floats input = bf16_floats(kRows * kIn, 5);
  const Floats weight = bf16_floats(kIn * kOut, 6);
  const Floats bias = bf16_floats(kOut, 7);
  const Floats d_out = bf16_floats(kRows * kOut, 8);
  const Floats before_gelu = bf16_floats(kRows * kIn, 9);
  Doubles out(kRows * kOut), d_input(kRows * kIn), d_weight(kIn * kOut, 1.0), d_bias(kOut, 2.0);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t o = 0; o < kOut; ++o) {
      const double d = d_out[r * kOut + o];
      out[r * kOut + o] = bias[o];
      d_bias[o] += d;
      for (std::size_t i = 0; i < kIn; ++i) {
        const double x = input[r * kIn + i];
        const double w = weight[i * kOut + o];
        out[r * kOut + o] += x * w;
        d_input[r * kIn + i] += d * w;
        d_weight[i * kOut + o] += d * x;
      }
    }
  }
  Floats mine(out.size()), activated(out.size());
  layers.linear_forward(
      {input.data(), weight.data(), bias.data(), mine.data(), activated.data(), kRows, kIn, kOut},
      0);
  CHECK(difference(mine, out) < 2e-6);
  Floats gelu_of_mine;
  Doubles d_before_gelu = d_input;
  for (const float x : mine) {
    gelu_of_mine.push_back(ddp::gelu(x));
  }
  CHECK(difference(activated, gelu_of_mine) < 1e-6);
  for (std::size_t i = 0; i < d_before_gelu.size(); ++i) {
    d_before_gelu[i] *= static_cast<double>(ddp::gelu_gradient(before_gelu[i]));
  }
  for (const bool with_gelu : {false, true}) {
    Floats my_d_input(d_input.size()), my_d_weight(d_weight.size(), 1.0F), my_d_bias(kOut, 2.0F);
    layers.linear_backward(
        {d_out.data(), input.data(), weight.data(), with_gelu ? before_gelu.data() : nullptr,
         my_d_input.data(), my_d_weight.data(), my_d_bias.data(), kRows, kIn, kOut},
        0);
    CHECK(difference(my_d_input, with_gelu ? d_before_gelu : d_input) < 2e-6);
    CHECK(difference(my_d_weight, d_weight) < 5e-6);
    CHECK(difference(my_d_bias, d_bias) < 5e-6);
    // Overwritten, and without a bias's gradient.
    Floats over(my_d_weight);
    layers.linear_backward(
        {d_out.data(), input.data(), weight.data(), with_gelu ? before_gelu.data() : nullptr,
         my_d_input.data(), over.data(), nullptr, kRows, kIn, kOut, false},
        0);
    for (float& value : over) {
      value += 1;
    }
    CHECK(difference(over, d_weight) < 5e-6);
  }
}

}  // namespace

TEST_CASE("attention is that of doubles, forward and backward, at odd sizes too") {
  const ddp::AttentionShape shape =
      GENERATE(ddp::AttentionShape{2, 5, 3, 7}, ddp::AttentionShape{1, 1, 1, 1},
               ddp::AttentionShape{1, 40, 1, 3});
  const Floats qkv = random_floats(shape.batch * shape.time * 3 * shape.channels(), 1);
  const Floats d_out = random_floats(shape.batch * shape.time * shape.channels(), 2);
  const Doubles d_qkv = slopes(in_doubles(qkv), [&](const Doubles& x) {
    const Doubles out = exact_attention(x, shape);
    double total = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      total += out[i] * static_cast<double>(d_out[i]);
    }
    return total;
  });
  on_each_level([&](const ddp::Layers& layers) {
    Scratch scratch(ddp::attention_scratch(shape.time, shape.head_size));
    Floats log_sum;
    const Floats out = attend(layers, shape, qkv, log_sum, scratch);
    CHECK(difference(out, exact_attention(in_doubles(qkv), shape)) < 2e-6);
    Floats mine(qkv.size(), 9.0F), sums(3 * shape.channels(), 1.0F);
    layers.attention_backward({shape, qkv.data(), out.data(), d_out.data(), log_sum.data(),
                               mine.data(), scratch.data, 1, sums.data()},
                              0);
    CHECK(difference(mine, d_qkv) < 5e-6);
    Doubles exact_sums(sums.size(), 1);
    for (std::size_t i = 0; i < d_qkv.size(); ++i) {
      exact_sums[i % sums.size()] += d_qkv[i];
    }
    CHECK(difference(sums, exact_sums) < 5e-6);
  });
}

TEST_CASE("attention over more rows than one strip is that of doubles") {
  const ddp::AttentionShape shape{1, 2 * ddp::kAttentionStrip + 11, 2, 16};
  const Floats qkv = random_floats(shape.time * 3 * shape.channels(), 3);
  on_each_level([&](const ddp::Layers& layers) {
    Scratch scratch(ddp::attention_scratch(shape.time, shape.head_size));
    Floats log_sum;
    const Floats out = attend(layers, shape, qkv, log_sum, scratch);
    CHECK(difference(out, exact_attention(in_doubles(qkv), shape)) < 2e-6);
  });
}

TEST_CASE("what a position attends to does not depend on what comes after it") {
  const ddp::AttentionShape shape{1, 20, 1, 8};
  Floats qkv = random_floats(shape.time * 3 * shape.channels(), 4);
  on_each_level([&](const ddp::Layers& layers) {
    Scratch scratch(ddp::attention_scratch(shape.time, shape.head_size));
    Floats log_sum;
    const Floats before = attend(layers, shape, qkv, log_sum, scratch);
    Floats changed = qkv;
    for (std::size_t i = 10 * 3 * shape.channels(); i < changed.size(); ++i) {
      changed[i] += 5;
    }
    const Floats after = attend(layers, shape, changed, log_sum, scratch);
    const auto ten = static_cast<std::ptrdiff_t>(10 * shape.channels());
    CHECK(std::equal(before.begin(), before.begin() + ten, after.begin()));
    CHECK(before != after);
  });
}

TEST_CASE("a linear layer is that of doubles, with bias, GELU and accumulated gradients") {
  on_each_level(check_linear);
}

TEST_CASE("a linear layer in bf16 rounds its factors, and its sums are those of f32") {
  if (!ddp::has_bf16_products()) {
    CHECK_THROWS_WITH(ddp::cpu_layers(ddp::Precision::bf16), Catch::Contains("avx512_bf16"));
    SKIP_TEST("bf16", "this processor has no instructions for bf16 (avx512_bf16)");
  }
  const ddp::Layers& layers = ddp::cpu_layers(ddp::Precision::bf16);
  check_linear(layers);
  // 1 + 2^-9 is nearer to 1 than to the next number of bf16. In f32 the sum would be above 4.
  const Floats a{1 + 0x1p-9F, 1}, b{3, 1};
  float out = 0;
  layers.product({.m = 1,
                  .n = 1,
                  .k = 2,
                  .a = {a.data(), 2},
                  .b = {b.data(), 1},
                  .out = &out,
                  .out_stride = 1},
                 0);
  CHECK(out == 4);
}

TEST_CASE("the same product has the same bits every time") {
  const Floats a = random_floats(300 * 64, 10);
  const Floats b = random_floats(64 * 70, 11);
  on_each_level([&](const ddp::Layers& layers) {
    Floats first(300 * 70), again(300 * 70);
    for (Floats* out : {&first, &again}) {
      layers.product({.m = 300,
                      .n = 70,
                      .k = 64,
                      .a = {a.data(), 64},
                      .b = {b.data(), 70},
                      .out = out->data(),
                      .out_stride = 70},
                     0);
    }
    CHECK(first == again);
  });
}

}  // namespace ddp_test
