// The CPU forms of all layers, of the level that the including source is compiled for.
#pragma once

#include "trainer/layers/layers.h"
#include "trainer/layers/level.h"

namespace ddp::DDP_LEVEL {

void embedding_forward(const EmbeddingForward& pass, int device);
void embedding_backward(const EmbeddingBackward& pass, int device);
void layer_norm_forward(const LayerNormForward& pass, int device);
void layer_norm_backward(const LayerNormBackward& pass, int device);
void product(const Product& product, int device);
void bf16_product(const Product& product, int device);
void linear_forward(const LinearForward& pass, int device);
void linear_backward(const LinearBackward& pass, int device);
void bf16_linear_forward(const LinearForward& pass, int device);
void bf16_linear_backward(const LinearBackward& pass, int device);
void attention_forward(const AttentionForward& pass, int device);
void attention_backward(const AttentionBackward& pass, int device);
void cross_entropy(const CrossEntropy& pass, int device);
void round(const float* from, float* to, std::size_t count, int device);
void adamw_update(const AdamWUpdate* updates, std::size_t count, int device);
void sums_of_squares(const SquareSum* sums, std::size_t count, int device);
void winograd_forward(const WinogradForward& pass, int device);
void winograd_weights(const WinogradWeights& pass, int device);

extern const Layers kLayers;
extern const Layers kBf16Layers;  ///< the same, with products of factors in bf16

}  // namespace ddp::DDP_LEVEL
