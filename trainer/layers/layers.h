// Where a model's arithmetic is done: one table per kind of device, with equal meaning. What each
// function does stands at its argument.
//
// Gradients are SUMS over the batch (DistributedDataParallel makes means of them). Sums run in an
// order that depends on the sizes alone: equal inputs give equal bits in every run on processors of
// the same level. All pointers of an argument are of one device, and what is written overlaps
// nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ddp/tensor.h"
#include "trainer/layers/adamw_update.h"
#include "trainer/layers/attention.h"
#include "trainer/layers/cross_entropy.h"
#include "trainer/layers/embedding.h"
#include "trainer/layers/layer_norm.h"
#include "trainer/layers/linear.h"
#include "trainer/layers/product.h"

namespace ddp {

struct WinogradForward;
struct WinogradWeights;

/// What a model computes with. Parameters, their gradients and the optimizer are f32 in any case.
enum class Precision : std::uint8_t {
  automatic,  ///< bf16 on GPUs, f32 on CPUs
  f32,
  /// On CPUs only the factors of matrix products are rounded (bf16_product.h). On GPUs all
  /// activations are as well; sums are f32 on both.
  bf16
};

/// Real: float, or BFloat16 on GPUs, whose tensor cores multiply bf16 and add in f32. Gradients of
/// weights, statistics and all that the optimizer works on are floats in any case. `device` is the
/// GPU's number; the CPU ignores it.
template <class Real>
struct LayersOf {
  void (*embedding_forward)(const EmbeddingForwardOf<Real>&, int device) = nullptr;
  void (*embedding_backward)(const EmbeddingBackwardOf<Real>&, int device) = nullptr;
  void (*layer_norm_forward)(const LayerNormForwardOf<Real>&, int device) = nullptr;
  void (*layer_norm_backward)(const LayerNormBackwardOf<Real>&, int device) = nullptr;
  void (*product)(const ProductOf<Real>&, int device) = nullptr;
  void (*gradient_product)(const ProductOf<Real, float>&, int device) = nullptr;
  void (*linear_forward)(const LinearForwardOf<Real>&, int device) = nullptr;
  void (*linear_backward)(const LinearBackwardOf<Real>&, int device) = nullptr;
  void (*attention_forward)(const AttentionForwardOf<Real>&, int device) = nullptr;
  void (*attention_backward)(const AttentionBackwardOf<Real>&, int device) = nullptr;
  void (*cross_entropy)(const CrossEntropyOf<Real>&, int device) = nullptr;
  /// to[i] = from[i], rounded to Real.
  void (*round)(const float* from, Real* to, std::size_t count, int device) = nullptr;
  // Of `count` tensors at a time: a GPU takes many in one launch.
  void (*adamw_update)(const AdamWUpdate* updates, std::size_t count, int device) = nullptr;
  void (*sums_of_squares)(const SquareSum* sums, std::size_t count, int device) = nullptr;
  // On CPUs alone: what WinogradConvolution is made of.
  void (*winograd_forward)(const WinogradForward&, int device) = nullptr;
  void (*winograd_weights)(const WinogradWeights&, int device) = nullptr;
  /// On GPUs alone: throws DoNotRetry where cuBLASLt is missing, before a product needs it.
  void (*require_libraries)() = nullptr;
};
using Layers = LayersOf<float>;

/// For the level of x86-64 that this processor runs: "level_base", "level_v3" (AVX2) or "level_v4"
/// (AVX-512). Throws Error for a precision that it has no instructions for: a training that is
/// slower than the user expects would be found out much later, or never.
const Layers& cpu_layers(Precision precision = Precision::automatic);
/// One of these by name, null where this program or this processor has none: for tests and
/// measurements.
const Layers* cpu_layers_of(std::string_view level);
/// Threads that the CPU's layers share their work out over; at least 1.
std::size_t cpu_layer_threads();

/// The GPU's, from the runtime's GPU library, which must have been opened (a CUDA tensor is there).
/// Throws ddp::DeviceError when that library lacks them. Float for comparisons: it is slow.
template <class Real>
const LayersOf<Real>& gpu_layers();

/// Names and type of the tables in the GPU library.
inline constexpr char kGpuLayersF32[] = "ddprun_layers_f32";
inline constexpr char kGpuLayersBf16[] = "ddprun_layers_bf16";
template <class Real>
using GpuLayersFactory = const LayersOf<Real>*();

/// Those of the device for f32: what an optimizer computes with, whatever the model does.
const Layers& f32_layers(Device device);

}  // namespace ddp
