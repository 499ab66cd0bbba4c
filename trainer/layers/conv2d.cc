#include "trainer/layers/conv2d.h"

#include <fmt/core.h>
#include <dnnl.hpp>
#include <map>
#include <string>
#include <utility>

#include "ddp/error.h"

namespace ddp {
namespace {

using dnnl::memory;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

/// An epoch has one batch size, and another one at its end; a validation the same.
constexpr std::size_t kBatchSizesKept = 4;

memory::desc plain(const memory::dims& dims, memory::format_tag tag) {
  return {dims, memory::data_type::f32, tag};
}

/// oneDNN takes pointers to what it only reads without const.
void* unconst(const float* data) {
  return const_cast<float*>(data);
}

/// oneDNN's messages name a primitive and nothing else; the caller knows which layer it is.
template <class Body>
auto explained(const Conv2dShape& shape, Body body) {
  try {
    return body();
  } catch (const dnnl::error& problem) {
    throw Error(fmt::format(
        "oneDNN cannot do a convolution of {} to {} channels, kernel {}, of {} x {} pixels: {}",
        shape.in_channels, shape.out_channels, shape.kernel, shape.height, shape.width,
        problem.what()));
  }
}

}  // namespace

struct Conv2d::Impl {
  /// All that depends on the batch size.
  struct Prepared {
    Forward::primitive_desc forward_of;
    BackwardData::primitive_desc data_of;
    BackwardWeights::primitive_desc weights_of;
    Forward forward;
    BackwardData data;
    BackwardWeights weights;
    // In the layouts that oneDNN chose; beside them what brings them from and to (K, C, R, R).
    memory forward_weight;
    memory data_weight;
    memory weight_gradient;
    dnnl::reorder to_forward;
    dnnl::reorder to_data;
    dnnl::reorder add_gradient;
  };

  explicit Impl(const Conv2dShape& s) : shape(s) {}

  Prepared& prepared(std::int64_t batch) {
    const auto found = by_batch.find(batch);
    if (found != by_batch.end()) {
      return found->second;
    }
    if (by_batch.size() == kBatchSizesKept) {
      by_batch.clear();
    }
    return by_batch.emplace(batch, prepare(batch)).first->second;
  }

  /// Activations keep their order in memory, so that no layer reorders them; of the weights, which
  /// are small, oneDNN may ask for any.
  [[nodiscard]] Prepared prepare(std::int64_t batch) const {
    using Tag = memory::format_tag;
    const auto& s = shape;
    const auto x = plain({batch, s.in_channels, s.height, s.width}, Tag::nhwc);
    const auto y = plain({batch, s.out_channels, s.out_height(), s.out_width()}, Tag::nhwc);
    const memory::dims weight_dims = {s.out_channels, s.in_channels, s.kernel, s.kernel};
    const auto chosen = plain(weight_dims, Tag::any);
    const auto weight = plain(weight_dims, Tag::oihw);
    const memory::dims strides = {s.stride, s.stride};
    const memory::dims padding = {s.padding, s.padding};
    const auto direct = dnnl::algorithm::convolution_direct;

    Prepared p;
    p.forward_of = {
        {dnnl::prop_kind::forward_training, direct, x, chosen, y, strides, padding, padding},
        engine};
    p.data_of = {{direct, x, chosen, y, strides, padding, padding}, engine, p.forward_of};
    p.weights_of = {{direct, x, chosen, y, strides, padding, padding}, engine, p.forward_of};
    p.forward = Forward(p.forward_of);
    p.data = BackwardData(p.data_of);
    p.weights = BackwardWeights(p.weights_of);
    p.forward_weight = memory(p.forward_of.weights_desc(), engine);
    p.data_weight = memory(p.data_of.weights_desc(), engine);
    p.weight_gradient = memory(p.weights_of.diff_weights_desc(), engine);
    p.to_forward = dnnl::reorder({engine, weight, engine, p.forward_weight.get_desc()});
    p.to_data = dnnl::reorder({engine, weight, engine, p.data_weight.get_desc()});
    // The reorder adds to the gradient that is there: one pass over it in place of two.
    dnnl::post_ops add;
    add.append_sum(1.0F);
    dnnl::primitive_attr adding;
    adding.set_post_ops(add);
    p.add_gradient = dnnl::reorder({engine, p.weight_gradient.get_desc(), engine, weight, adding});
    return p;
  }

  /// PyTorch's order, in which parameters and snapshots are.
  [[nodiscard]] memory weight_at(const float* data) const {
    return {plain({shape.out_channels, shape.in_channels, shape.kernel, shape.kernel},
                  memory::format_tag::oihw),
            engine, unconst(data)};
  }

  Conv2dShape shape;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<std::int64_t, Prepared> by_batch;
};

Conv2d::Conv2d(const Conv2dShape& shape) : impl_(std::make_unique<Impl>(shape)) {}
Conv2d::~Conv2d() = default;
Conv2d::Conv2d(Conv2d&&) noexcept = default;
Conv2d& Conv2d::operator=(Conv2d&&) noexcept = default;

const Conv2dShape& Conv2d::shape() const {
  return impl_->shape;
}

void Conv2d::forward(std::int64_t batch, const float* x, const float* weight, float* y) {
  explained(impl_->shape, [&] {
    auto& p = impl_->prepared(batch);
    auto plain_weight = impl_->weight_at(weight);
    p.to_forward.execute(impl_->stream, plain_weight, p.forward_weight);
    p.forward.execute(impl_->stream,
                      {{DNNL_ARG_SRC, memory(p.forward_of.src_desc(), impl_->engine, unconst(x))},
                       {DNNL_ARG_WEIGHTS, p.forward_weight},
                       {DNNL_ARG_DST, memory(p.forward_of.dst_desc(), impl_->engine, y)}});
    impl_->stream.wait();
  });
}

/// With the weights of now: unlike a GPU's form this one keeps no copy from forward().
void Conv2d::backward_data(std::int64_t batch, const float* d_y, const float* weight, float* d_x) {
  explained(impl_->shape, [&] {
    auto& p = impl_->prepared(batch);
    auto plain_weight = impl_->weight_at(weight);
    p.to_data.execute(impl_->stream, plain_weight, p.data_weight);
    p.data.execute(
        impl_->stream,
        {{DNNL_ARG_DIFF_DST, memory(p.data_of.diff_dst_desc(), impl_->engine, unconst(d_y))},
         {DNNL_ARG_WEIGHTS, p.data_weight},
         {DNNL_ARG_DIFF_SRC, memory(p.data_of.diff_src_desc(), impl_->engine, d_x)}});
    impl_->stream.wait();
  });
}

void Conv2d::backward_weights(std::int64_t batch, const float* x, const float* d_y,
                              float* d_weight) {
  explained(impl_->shape, [&] {
    auto& p = impl_->prepared(batch);
    p.weights.execute(
        impl_->stream,
        {{DNNL_ARG_SRC, memory(p.weights_of.src_desc(), impl_->engine, unconst(x))},
         {DNNL_ARG_DIFF_DST, memory(p.weights_of.diff_dst_desc(), impl_->engine, unconst(d_y))},
         {DNNL_ARG_DIFF_WEIGHTS, p.weight_gradient}});
    auto gradient = impl_->weight_at(d_weight);
    p.add_gradient.execute(impl_->stream, p.weight_gradient, gradient);
    impl_->stream.wait();
  });
}

}  // namespace ddp
