// Where a model's arithmetic is done: one table per kind of device, with equal meaning. What each
// function does stands at its argument.
//
// Gradients are SUMS over the batch (DistributedDataParallel makes means of them). Sums run in an
// order that depends on the sizes alone: equal inputs give equal bits in every run on processors of
// the same level. All pointers of an argument are of one device, and what is written overlaps
// nothing else.
#pragma once

#include <cstdint>
#include <string_view>

#include "trainer/layers/adamw_update.h"
#include "trainer/layers/attention.h"
#include "trainer/layers/cross_entropy.h"
#include "trainer/layers/embedding.h"
#include "trainer/layers/layer_norm.h"
#include "trainer/layers/linear.h"
#include "trainer/layers/product.h"

namespace ddp {

/// What matrix products are made of: f32, or factors rounded to bf16 with sums in f32
/// (bf16_product.h). Everything else is f32 in both.
enum class Precision : std::uint8_t { f32, bf16 };

/// `device` is the GPU's number; the CPU ignores it.
struct Layers {
  void (*embedding_forward)(const EmbeddingForward&, int device);
  void (*embedding_backward)(const EmbeddingBackward&, int device);
  void (*layer_norm_forward)(const LayerNormForward&, int device);
  void (*layer_norm_backward)(const LayerNormBackward&, int device);
  void (*product)(const Product&, int device);
  void (*linear_forward)(const LinearForward&, int device);
  void (*linear_backward)(const LinearBackward&, int device);
  void (*attention_forward)(const AttentionForward&, int device);
  void (*attention_backward)(const AttentionBackward&, int device);
  void (*cross_entropy)(const CrossEntropy&, int device);
  void (*adamw_update)(const AdamWUpdate&, int device);
  double (*sum_of_squares)(const float* values, std::size_t count, int device);
};

/// For the level of x86-64 that this processor runs: "level_base", "level_v3" (AVX2) or "level_v4"
/// (AVX-512). Throws Error for a precision that it has no instructions for: a training that is
/// slower than the user expects would be found out much later, or never.
const Layers& cpu_layers(Precision precision = Precision::f32);
/// One of these by name, null where this program or this processor has none: for tests and
/// measurements.
const Layers* cpu_layers_of(std::string_view level);

}  // namespace ddp
