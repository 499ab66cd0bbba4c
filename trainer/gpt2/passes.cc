#include "trainer/gpt2/passes.h"

#include <algorithm>
#include <vector>

#include "trainer/gpt2/activations.h"
#include "trainer/gpt2/parameters.h"
#include "trainer/layers/layers.h"
#include "trainer/layers/number.h"

namespace ddp {

using enum Gpt2LayerWeight;
using enum Gpt2Weight;

namespace {

using Ready = std::function<void(std::size_t)>;

template <class Real>
class PassesOf final : public Gpt2Passes {
 public:
  PassesOf(const Gpt2Config& config, const std::vector<Parameter>& parameters, std::size_t batch,
           std::size_t time, Device device, const LayersOf<Real>& layers)
      : config_(config),
        parameters_(&parameters),
        device_(device.index),
        activations_(config, batch, time, device),
        head_width_(device.is_cuda() ? padded_vocabulary(config) : config.vocabulary),
        tokens_(Tensor::empty({static_cast<std::int64_t>(batch * time)}, DType::i32, device)),
        targets_(Tensor::empty({static_cast<std::int64_t>(batch * time)}, DType::i32, device)),
        loss_(Tensor::empty({1}, DType::f64, device)),
        layers_(&layers) {
    if (device.is_cuda()) {
      // Here, and not in the first step: a training that cannot begin says so before all else.
      layers.require_libraries();
    }
    if constexpr (kRounds) {
      rounded_ = Tensor::empty({static_cast<std::int64_t>(master_count())}, DType::bf16, device);
    }
  }

  double loss(const TokenBatch& batch, bool with_gradient) override;
  void backward(const TokenBatch& batch, const Ready& ready, Gradients before) override;
  std::span<const float> next_logits(std::span<const std::int32_t> tokens) override;

 private:
  /// Whether layers compute with rounded copies of the parameters.
  static constexpr bool kRounds = sizeof(Real) < sizeof(float);

  /// All parameters are views of one allocation (gpt2_parameters()).
  [[nodiscard]] float* master() const { return parameters_->front().value.template data<float>(); }
  [[nodiscard]] std::size_t master_count() const {
    const Tensor& last = parameters_->back().value;
    return static_cast<std::size_t>(last.template data<float>() - master()) + last.size();
  }
  /// What layers compute with: a copy at the same place, or the parameter itself.
  [[nodiscard]] const Real* value(std::size_t place) const {
    const float* own = (*parameters_)[place].value.template data<float>();
    if constexpr (kRounds) {
      return rounded_.template data<Real>() + (own - master());
    } else {
      return own;
    }
  }
  /// Seated by DistributedDataParallel, perhaps elsewhere after its first step: asked each time.
  [[nodiscard]] float* gradient(std::size_t place) const {
    return (*parameters_)[place].gradient.template data<float>();
  }

  /// Of the layer before layer l: what it adds to the residual stream last. Null before the first.
  [[nodiscard]] float* d_last_bias(std::size_t l) const {
    return l == 0 ? nullptr : gradient(place(l - 1, fc_proj_bias));
  }

  void run_layers(std::span<const std::int32_t> tokens, std::size_t batch, std::size_t time);
  void run_head(std::size_t first_row, std::size_t rows);
  void backward_head(std::size_t rows, const Ready& ready);
  void backward_mlp(std::size_t layer, std::size_t rows, const Ready& ready);
  void backward_attention(std::size_t layer, const TokenBatch& batch, const Ready& ready);

  Gpt2Config config_;
  const std::vector<Parameter>* parameters_;
  int device_;
  ActivationsOf<Real> activations_;
  /// Tokens that the head multiplies by: on a GPU with those that pad the vocabulary. Their weights
  /// are 0, cross-entropy reads none of their logits, and their gradients are 0.
  std::size_t head_width_;
  Tensor rounded_;  // of all parameters, at the same places; with bf16 alone
  Tensor tokens_, targets_;
  Tensor loss_;       // (1), in doubles
  bool adds_ = true;  // this backward pass: to gradients of an earlier one
  std::vector<float> next_logits_;
  const LayersOf<Real>* layers_;
};

/// The first so many elements, on the layers' device.
const std::int32_t* upload(std::span<const std::int32_t> from, const Tensor& to) {
  to.view(0, from.size()).copy_from_host(from.data());
  return to.data<std::int32_t>();
}

/// From tokens to the last layer norm.
template <class Real>
void PassesOf<Real>::run_layers(std::span<const std::int32_t> tokens, std::size_t batch,
                                std::size_t time) {
  // First: a copy from the host waits for what is queued on a GPU.
  const std::int32_t* ids = upload(tokens, tokens_);
  if constexpr (kRounds) {
    // The optimizer, a snapshot or another rank may have changed them since.
    layers_->round(master(), rounded_.data<Real>(), master_count(), device_);
  }
  const std::size_t channels = config_.channels;
  const std::size_t rows = batch * time;
  const AttentionShape shape{batch, time, config_.heads, channels / config_.heads};
  ActivationsOf<Real>& all = activations_;
  layers_->embedding_forward(
      {ids, value(place(wte)), value(place(wpe)), all.embedded, batch, time, channels}, device_);
  const Real* residual = all.embedded;
  for (std::size_t l = 0; l < config_.layers; ++l) {
    const LayerActivationsOf<Real>& layer = all.layers[l];
    const auto weight = [&](Gpt2LayerWeight which) { return value(place(l, which)); };
    const auto linear = [&](const Real* input, std::size_t inputs, Gpt2LayerWeight matrix,
                            Gpt2LayerWeight bias, std::size_t outputs, Real* out,
                            Real* activated = nullptr) {
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
    layers_->attention_forward({shape, layer.qkv, layer.attention, layer.log_sum,
                                all.attention_scratch, all.attention_scratches},
                               device_);
    linear(layer.attention, channels, attn_proj_weight, attn_proj_bias, channels, all.projection);
    layers_->layer_norm_forward(
        {residual, all.projection, layer.residual_middle, weight(ln_2_weight), weight(ln_2_bias),
         layer.ln_2, layer.ln_2_mean, layer.ln_2_scale, rows, channels},
        device_);
    linear(layer.ln_2, channels, fc_weight, fc_bias, 4 * channels, layer.fc, layer.fc_gelu);
    linear(layer.fc_gelu, 4 * channels, fc_proj_weight, fc_proj_bias, channels, all.projection);
  }
  const std::size_t ln_f = place_of_ln_f(config_);
  const LayerActivationsOf<Real>& last = all.layers.back();
  layers_->layer_norm_forward(
      {last.residual_middle, all.projection, last.residual, value(ln_f), value(ln_f + 1), all.ln_f,
       all.ln_f_mean, all.ln_f_scale, rows, channels},
      device_);
}

/// logits (rows, V) = ln_f (rows, C) wte (V, C)^T, for some of the rows.
template <class Real>
void PassesOf<Real>::run_head(std::size_t first_row, std::size_t rows) {
  const std::size_t channels = config_.channels;
  layers_->product({.m = rows,
                    .n = head_width_,
                    .k = channels,
                    .a = {activations_.ln_f + first_row * channels, channels},
                    .b = {value(place(wte)), channels, true},
                    .out = activations_.logits,
                    .out_stride = activations_.vocabulary_padded},
                   device_);
}

template <class Real>
double PassesOf<Real>::loss(const TokenBatch& batch, bool with_gradient) {
  const std::size_t rows = batch.batch * batch.time;
  if (rows == 0) {
    return 0;
  }
  // Before the layers, as run_layers() does with the tokens.
  const std::int32_t* targets = upload(batch.targets, targets_);
  run_layers(batch.tokens, batch.batch, batch.time);
  run_head(0, rows);
  // The layer adds to it.
  loss_.zero();
  layers_->cross_entropy({activations_.logits, targets, loss_.data<double>(), with_gradient, rows,
                          config_.vocabulary, activations_.vocabulary_padded},
                         device_);
  return loss_.item<double>();  // a GPU is waited for here
}

template <class Real>
std::span<const float> PassesOf<Real>::next_logits(std::span<const std::int32_t> tokens) {
  run_layers(tokens, 1, tokens.size());
  run_head(tokens.size() - 1, 1);
  // From the device's memory, and widened: who samples a token works with floats.
  const Tensor row = activations_.logit_row(config_.vocabulary);
  next_logits_.clear();
  for (const Real logit : row.template to_vector<Real>()) {
    next_logits_.push_back(widened(logit));
  }
  return next_logits_;
}

template <class Real>
void PassesOf<Real>::backward(const TokenBatch& batch, const Ready& ready, Gradients before) {
  adds_ = before == Gradients::sums;
  const std::size_t rows = batch.batch * batch.time;
  if (rows == 0) {
    for (std::size_t i = parameters_->size(); i-- > 0;) {
      ready(i);
    }
    return;
  }
  backward_head(rows, ready);
  for (std::size_t l = config_.layers; l-- > 0;) {
    backward_mlp(l, rows, ready);
    backward_attention(l, batch, ready);
  }
  layers_->embedding_backward(
      {tokens_.data<std::int32_t>(), activations_.d_residual, gradient(place(wte)),
       gradient(place(wpe)), batch.batch, batch.time, config_.channels, config_.vocabulary},
      device_);
  ready(place(wpe));
  ready(place(wte));
}

/// From the logits, which hold their own gradient, to the residual stream. Half of wte's gradient:
/// the other half comes from the embedding, at the very end.
template <class Real>
void PassesOf<Real>::backward_head(std::size_t rows, const Ready& ready) {
  const ActivationsOf<Real>& all = activations_;
  const std::size_t channels = config_.channels;
  // d_ln_f (R, C) = d_logits (R, V) wte (V, C)
  layers_->product({.m = rows,
                    .n = channels,
                    .k = head_width_,
                    .a = {all.logits, all.vocabulary_padded},
                    .b = {value(place(wte)), channels},
                    .out = all.d_narrow,
                    .out_stride = channels},
                   device_);
  // d_wte (V, C) += d_logits (R, V)^T ln_f (R, C). Without the padding: it has no gradient, and
  // behind the V rows is that of somebody else.
  layers_->gradient_product({.m = config_.vocabulary,
                             .n = channels,
                             .k = rows,
                             .a = {all.logits, all.vocabulary_padded, true},
                             .b = {all.ln_f, channels},
                             .out = gradient(place(wte)),
                             .out_stride = channels,
                             .add = adds_},
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
                                .channels = channels,
                                .d_input_sum = d_last_bias(config_.layers)},
                               device_);
  ready(ln_f + 1);
  ready(ln_f);
}

/// The second half of a layer: residual = residual_middle + c_proj(gelu(c_fc(ln_2))).
template <class Real>
void PassesOf<Real>::backward_mlp(std::size_t l, std::size_t rows, const Ready& ready) {
  const ActivationsOf<Real>& all = activations_;
  const LayerActivationsOf<Real>& layer = all.layers[l];
  const std::size_t channels = config_.channels;
  const auto weight = [&](Gpt2LayerWeight which) { return value(place(l, which)); };
  const auto d_weight = [&](Gpt2LayerWeight which) { return gradient(place(l, which)); };
  layers_->linear_backward(
      {all.d_residual, layer.fc_gelu, weight(fc_proj_weight), layer.fc, all.d_wide,
       d_weight(fc_proj_weight), nullptr, rows, 4 * channels, channels, adds_},
      device_);
  ready(place(l, fc_proj_bias));
  ready(place(l, fc_proj_weight));
  layers_->linear_backward(
      {all.d_wide, layer.ln_2, weight(fc_weight), nullptr, all.d_narrow, d_weight(fc_weight),
       d_weight(fc_bias), rows, channels, 4 * channels, adds_},
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
                                .channels = channels,
                                .d_input_sum = d_weight(attn_proj_bias)},
                               device_);
  ready(place(l, ln_2_bias));
  ready(place(l, ln_2_weight));
}

/// The first half: residual_middle = residual before + c_proj(attention(c_attn(ln_1))).
template <class Real>
void PassesOf<Real>::backward_attention(std::size_t l, const TokenBatch& batch,
                                        const Ready& ready) {
  const ActivationsOf<Real>& all = activations_;
  const LayerActivationsOf<Real>& layer = all.layers[l];
  const std::size_t channels = config_.channels;
  const std::size_t rows = batch.batch * batch.time;
  const AttentionShape shape{batch.batch, batch.time, config_.heads, channels / config_.heads};
  const auto weight = [&](Gpt2LayerWeight which) { return value(place(l, which)); };
  const auto d_weight = [&](Gpt2LayerWeight which) { return gradient(place(l, which)); };
  layers_->linear_backward(
      {all.d_residual, layer.attention, weight(attn_proj_weight), nullptr, all.d_narrow,
       d_weight(attn_proj_weight), nullptr, rows, channels, channels, adds_},
      device_);
  ready(place(l, attn_proj_bias));
  ready(place(l, attn_proj_weight));
  layers_->attention_backward(
      {shape, layer.qkv, layer.attention, all.d_narrow, layer.log_sum, all.d_wide,
       all.attention_scratch, all.attention_scratches, d_weight(attn_bias)},
      device_);
  layers_->linear_backward({all.d_wide, layer.ln_1, weight(attn_weight), nullptr, all.d_narrow,
                            d_weight(attn_weight), nullptr, rows, channels, 3 * channels, adds_},
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
                                .channels = channels,
                                .d_input_sum = d_last_bias(l)},
                               device_);
  ready(place(l, ln_1_bias));
  ready(place(l, ln_1_weight));
}

}  // namespace

template <class Real>
std::unique_ptr<Gpt2Passes> make_gpt2_passes(const Gpt2Config& config,
                                             const std::vector<Parameter>& parameters,
                                             std::size_t batch, std::size_t time, Device device,
                                             const LayersOf<Real>& layers) {
  return std::make_unique<PassesOf<Real>>(config, parameters, batch, time, device, layers);
}
template std::unique_ptr<Gpt2Passes> make_gpt2_passes(const Gpt2Config&,
                                                      const std::vector<Parameter>&, std::size_t,
                                                      std::size_t, Device, const Layers&);
template std::unique_ptr<Gpt2Passes> make_gpt2_passes(const Gpt2Config&,
                                                      const std::vector<Parameter>&, std::size_t,
                                                      std::size_t, Device,
                                                      const LayersOf<BFloat16>&);

}  // namespace ddp
