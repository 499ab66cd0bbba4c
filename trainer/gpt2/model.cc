#include "trainer/gpt2/model.h"

#include <string>

#include "ddp/error.h"
#include "trainer/gpt2/parameters.h"

namespace ddp {

using enum Gpt2LayerWeight;
using enum Gpt2Weight;

Gpt2::Gpt2(const Gpt2Config& config, std::size_t batch, std::size_t time, Device device,
           Precision precision)
    : config_(config),
      layers_(&cpu_layers(precision)),
      device_(device.index),
      parameters_(gpt2_parameters(config, device)),
      activations_(config, batch, time, device) {}

float* Gpt2::value(std::size_t place) const {
  return parameters_[place].value.data<float>();
}

float* Gpt2::gradient(std::size_t place) const {
  return parameters_[place].gradient.data<float>();
}

/// A token outside of the vocabulary would read, and in the backward pass write, somebody else's
/// memory.
void Gpt2::check(const TokenBatch& batch) const {
  const std::size_t rows = batch.batch * batch.time;
  if (batch.batch > activations_.batch_max || batch.time > activations_.time_max ||
      batch.time > config_.context || batch.tokens.size() != rows || batch.targets.size() != rows) {
    throw InvalidArgument("a batch of " + std::to_string(batch.batch) + " x " +
                          std::to_string(batch.time) + " tokens does not fit a model made for " +
                          std::to_string(activations_.batch_max) + " x " +
                          std::to_string(activations_.time_max));
  }
  const auto vocabulary = static_cast<std::int32_t>(config_.vocabulary);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int32_t token = batch.tokens[row];
    const std::int32_t target = batch.targets[row];
    if (token < 0 || token >= vocabulary ||
        (target != kIgnoredTarget && (target < 0 || target >= vocabulary))) {
      throw InvalidArgument("token " + std::to_string(token) + " or target " +
                            std::to_string(target) + " is not in a vocabulary of " +
                            std::to_string(vocabulary));
    }
  }
}

/// From tokens to the last layer norm.
void Gpt2::run_layers(const std::int32_t* tokens, std::size_t batch, std::size_t time) {
  const std::size_t channels = config_.channels;
  const std::size_t rows = batch * time;
  const AttentionShape shape{batch, time, config_.heads, channels / config_.heads};
  Activations& all = activations_;
  layers_->embedding_forward(
      {tokens, value(place(wte)), value(place(wpe)), all.embedded, batch, time, channels}, device_);
  const float* residual = all.embedded;
  for (std::size_t l = 0; l < config_.layers; ++l) {
    const LayerActivations& layer = all.layers[l];
    const auto weight = [&](Gpt2LayerWeight which) { return value(place(l, which)); };
    const auto linear = [&](const float* input, std::size_t inputs, Gpt2LayerWeight matrix,
                            Gpt2LayerWeight bias, std::size_t outputs, float* out,
                            float* activated = nullptr) {
      layers_->linear_forward(
          {input, weight(matrix), weight(bias), out, activated, rows, inputs, outputs}, device_);
    };
    // The sum of the residual stream and what the layer before adds to it is made here.
    layers_->layer_norm_forward(
        {l == 0 ? residual : all.layers[l - 1].residual_middle, l == 0 ? nullptr : all.projection,
         l == 0 ? nullptr : all.layers[l - 1].residual, weight(ln_1_weight), weight(ln_1_bias),
         layer.ln_1, layer.ln_1_mean, layer.ln_1_scale, rows, channels},
        device_);
    residual = l == 0 ? residual : all.layers[l - 1].residual;
    linear(layer.ln_1, channels, attn_weight, attn_bias, 3 * channels, layer.qkv);
    layers_->attention_forward(
        {shape, layer.qkv, layer.attention, layer.log_sum, all.attention_scratch}, device_);
    linear(layer.attention, channels, attn_proj_weight, attn_proj_bias, channels, all.projection);
    layers_->layer_norm_forward(
        {residual, all.projection, layer.residual_middle, weight(ln_2_weight), weight(ln_2_bias),
         layer.ln_2, layer.ln_2_mean, layer.ln_2_scale, rows, channels},
        device_);
    linear(layer.ln_2, channels, fc_weight, fc_bias, 4 * channels, layer.fc, layer.fc_gelu);
    linear(layer.fc_gelu, 4 * channels, fc_proj_weight, fc_proj_bias, channels, all.projection);
  }
  const std::size_t ln_f = place_of_ln_f(config_);
  const LayerActivations& last = all.layers.back();
  layers_->layer_norm_forward(
      {last.residual_middle, all.projection, last.residual, value(ln_f), value(ln_f + 1), all.ln_f,
       all.ln_f_mean, all.ln_f_scale, rows, channels},
      device_);
}

/// logits (rows, Vp) = ln_f (rows, C) wte (V, C)^T, for some of the rows.
void Gpt2::run_head(std::size_t first_row, std::size_t rows) {
  const std::size_t channels = config_.channels;
  layers_->product({.m = rows,
                    .n = config_.vocabulary,
                    .k = channels,
                    .a = {activations_.ln_f + first_row * channels, channels},
                    .b = {value(place(wte)), channels, true},
                    .out = activations_.logits,
                    .out_stride = activations_.vocabulary_padded},
                   device_);
}

double Gpt2::run_loss(const TokenBatch& batch, bool with_gradient) {
  check(batch);
  const std::size_t rows = batch.batch * batch.time;
  if (rows == 0) {
    return 0;
  }
  run_layers(batch.tokens.data(), batch.batch, batch.time);
  run_head(0, rows);
  double loss = 0;
  layers_->cross_entropy({activations_.logits, batch.targets.data(), &loss, with_gradient, rows,
                          config_.vocabulary, activations_.vocabulary_padded},
                         device_);
  return loss;
}

double Gpt2::loss(const TokenBatch& batch) {
  return run_loss(batch, false);
}

double Gpt2::forward(const TokenBatch& batch) {
  return run_loss(batch, true);
}

std::span<const float> Gpt2::next_logits(std::span<const std::int32_t> tokens) {
  const std::vector<std::int32_t> targets(tokens.size(), kIgnoredTarget);
  check({tokens, targets, 1, tokens.size()});
  if (tokens.empty()) {
    throw InvalidArgument("nothing follows an empty text");
  }
  run_layers(tokens.data(), 1, tokens.size());
  run_head(tokens.size() - 1, 1);
  return {activations_.logits, config_.vocabulary};
}

void Gpt2::backward(const TokenBatch& batch, const std::function<void(std::size_t)>& ready) {
  const std::size_t rows = batch.batch * batch.time;
  if (rows == 0) {
    for (std::size_t i = parameters_.size(); i-- > 0;) {
      ready(i);
    }
    return;
  }
  backward_head(rows, ready);
  for (std::size_t l = config_.layers; l-- > 0;) {
    backward_mlp(l, rows, ready);
    backward_attention(l, batch, ready);
  }
  layers_->embedding_backward({batch.tokens.data(), activations_.d_residual, gradient(place(wte)),
                               gradient(place(wpe)), batch.batch, batch.time, config_.channels},
                              device_);
  ready(place(wpe));
  ready(place(wte));
}

/// From the logits, which hold their own gradient, to the residual stream. Half of wte's gradient:
/// the other half comes from the embedding, at the very end.
void Gpt2::backward_head(std::size_t rows, const std::function<void(std::size_t)>& ready) {
  const Activations& all = activations_;
  const std::size_t channels = config_.channels;
  // d_ln_f (R, C) = d_logits (R, V) wte (V, C)
  layers_->product({.m = rows,
                    .n = channels,
                    .k = config_.vocabulary,
                    .a = {all.logits, all.vocabulary_padded},
                    .b = {value(place(wte)), channels},
                    .out = all.d_narrow,
                    .out_stride = channels},
                   device_);
  // d_wte (V, C) += d_logits (R, V)^T ln_f (R, C)
  layers_->product({.m = config_.vocabulary,
                    .n = channels,
                    .k = rows,
                    .a = {all.logits, all.vocabulary_padded, true},
                    .b = {all.ln_f, channels},
                    .out = gradient(place(wte)),
                    .out_stride = channels,
                    .add = true},
                   device_);
  const std::size_t ln_f = place_of_ln_f(config_);
  layers_->layer_norm_backward({.d_out = all.d_narrow,
                                .input = all.layers.back().residual,
                                .weight = value(ln_f),
                                .mean = all.ln_f_mean,
                                .scale = all.ln_f_scale,
                                .d_input = all.d_residual,
                                .add = false,
                                .d_weight = gradient(ln_f),
                                .d_bias = gradient(ln_f + 1),
                                .rows = rows,
                                .channels = channels},
                               device_);
  ready(ln_f + 1);
  ready(ln_f);
}

/// The second half of a layer: residual = residual_middle + c_proj(gelu(c_fc(ln_2))).
void Gpt2::backward_mlp(std::size_t l, std::size_t rows,
                        const std::function<void(std::size_t)>& ready) {
  const Activations& all = activations_;
  const LayerActivations& layer = all.layers[l];
  const std::size_t channels = config_.channels;
  const auto weight = [&](Gpt2LayerWeight which) { return value(place(l, which)); };
  const auto d_weight = [&](Gpt2LayerWeight which) { return gradient(place(l, which)); };
  layers_->linear_backward(
      {all.d_residual, layer.fc_gelu, weight(fc_proj_weight), layer.fc, all.d_wide,
       d_weight(fc_proj_weight), d_weight(fc_proj_bias), rows, 4 * channels, channels},
      device_);
  ready(place(l, fc_proj_bias));
  ready(place(l, fc_proj_weight));
  layers_->linear_backward({all.d_wide, layer.ln_2, weight(fc_weight), nullptr, all.d_narrow,
                            d_weight(fc_weight), d_weight(fc_bias), rows, channels, 4 * channels},
                           device_);
  ready(place(l, fc_bias));
  ready(place(l, fc_weight));
  layers_->layer_norm_backward({.d_out = all.d_narrow,
                                .input = layer.residual_middle,
                                .weight = weight(ln_2_weight),
                                .mean = layer.ln_2_mean,
                                .scale = layer.ln_2_scale,
                                .d_input = all.d_residual,
                                .d_weight = d_weight(ln_2_weight),
                                .d_bias = d_weight(ln_2_bias),
                                .rows = rows,
                                .channels = channels},
                               device_);
  ready(place(l, ln_2_bias));
  ready(place(l, ln_2_weight));
}

/// The first half: residual_middle = residual before + c_proj(attention(c_attn(ln_1))).
void Gpt2::backward_attention(std::size_t l, const TokenBatch& batch,
                              const std::function<void(std::size_t)>& ready) {
  const Activations& all = activations_;
  const LayerActivations& layer = all.layers[l];
  const std::size_t channels = config_.channels;
  const std::size_t rows = batch.batch * batch.time;
  const AttentionShape shape{batch.batch, batch.time, config_.heads, channels / config_.heads};
  const auto weight = [&](Gpt2LayerWeight which) { return value(place(l, which)); };
  const auto d_weight = [&](Gpt2LayerWeight which) { return gradient(place(l, which)); };
  layers_->linear_backward(
      {all.d_residual, layer.attention, weight(attn_proj_weight), nullptr, all.d_narrow,
       d_weight(attn_proj_weight), d_weight(attn_proj_bias), rows, channels, channels},
      device_);
  ready(place(l, attn_proj_bias));
  ready(place(l, attn_proj_weight));
  layers_->attention_backward({shape, layer.qkv, layer.attention, all.d_narrow, layer.log_sum,
                               all.d_wide, all.attention_scratch},
                              device_);
  layers_->linear_backward(
      {all.d_wide, layer.ln_1, weight(attn_weight), nullptr, all.d_narrow, d_weight(attn_weight),
       d_weight(attn_bias), rows, channels, 3 * channels},
      device_);
  ready(place(l, attn_bias));
  ready(place(l, attn_weight));
  layers_->layer_norm_backward({.d_out = all.d_narrow,
                                .input = l == 0 ? all.embedded : all.layers[l - 1].residual,
                                .weight = weight(ln_1_weight),
                                .mean = layer.ln_1_mean,
                                .scale = layer.ln_1_scale,
                                .d_input = all.d_residual,
                                .d_weight = d_weight(ln_1_weight),
                                .d_bias = d_weight(ln_1_bias),
                                .rows = rows,
                                .channels = channels},
                               device_);
  ready(place(l, ln_1_bias));
  ready(place(l, ln_1_weight));
}

}  // namespace ddp
