#include "trainer/layers/bf16_product.h"

#include <array>
#include <dnnl.hpp>
#include <map>
#include <vector>

#include "ddp/tensor.h"
#include "trainer/layers/vector_code.h"

namespace ddp {
namespace {

using dnnl::memory;

/// The rounded factors, one behind the other without gaps, and the products that oneDNN has
/// prepared: a model has some twenty shapes.
struct Workshop {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<std::array<std::size_t, 7>, dnnl::matmul> by_shape;
  std::vector<BFloat16> a;
  std::vector<BFloat16> b;
};

Workshop& workshop() {
  thread_local Workshop mine;
  return mine;
}

DDP_VECTOR_CODE void round_row(const float* __restrict from, BFloat16* __restrict to,
                               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = BFloat16(from[i]);
  }
}

/// Rows as they lie in memory.
void round_rows(const float* from, std::size_t stride, std::size_t rows, std::size_t columns,
                std::vector<BFloat16>& to) {
  // Never smaller: its pages are there, and in the cache.
  if (to.size() < rows * columns) {
    to.resize(rows * columns);
  }
  for (std::size_t row = 0; row < rows; ++row) {
    round_row(from + row * stride, to.data() + row * columns, columns);
  }
}

/// (rows, columns) without gaps, or the transpose of what lies so.
memory::desc rounded(std::size_t rows, std::size_t columns, bool transposed) {
  const auto r = static_cast<memory::dim>(rows);
  const auto c = static_cast<memory::dim>(columns);
  return {{r, c}, memory::data_type::bf16, transposed ? memory::dims{1, r} : memory::dims{c, 1}};
}

/// Rows of the result where they are to lie: no copy afterwards.
memory::desc result(const Product& product, std::size_t rows) {
  return {{static_cast<memory::dim>(rows), static_cast<memory::dim>(product.n)},
          memory::data_type::f32,
          {static_cast<memory::dim>(product.out_stride), 1}};
}

/// To prepare one takes oneDNN longer than a small product itself.
const dnnl::matmul& prepared(const Product& product, std::size_t rows) {
  auto& [engine, stream, by_shape, a, b] = workshop();
  const std::array key{rows,
                       product.n,
                       product.k,
                       product.out_stride,
                       std::size_t{product.a.transposed},
                       std::size_t{product.b.transposed},
                       std::size_t{product.add}};
  const auto found = by_shape.find(key);
  if (found != by_shape.end()) {
    return found->second;
  }
  dnnl::primitive_attr attributes;
  if (product.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc description(rounded(rows, product.k, product.a.transposed),
                                       rounded(product.k, product.n, product.b.transposed),
                                       result(product, rows));
  // Plain layouts on all sides: to lay the weights out as a kernel likes them best costs as much as
  // it saves, since they are others after each step.
  const dnnl::matmul::primitive_desc chosen(description, attributes, engine);
  return by_shape.emplace(key, dnnl::matmul(chosen)).first->second;
}

}  // namespace

bool has_bf16_products() {
#if defined(__x86_64__) && defined(__GNUC__)
  // AMX comes with it on every processor that has AMX.
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

Bf16Product::Bf16Product(const Product& product) : product_(&product) {
  auto& shop = workshop();
  // Once for all chunks of rows; in each of them it is read whole.
  const FactorOf<float>& b = product.b;
  round_rows(b.data, b.stride, b.transposed ? product.n : product.k,
             b.transposed ? product.k : product.n, shop.b);
  if (product.a.transposed) {
    round_rows(product.a.data, product.a.stride, product.k, product.m, shop.a);
  }
}

void Bf16Product::compute_rows(std::size_t row, std::size_t rows) const {
  auto& shop = workshop();
  const Product& product = *product_;
  const FactorOf<float>& a = product.a;
  if (!a.transposed) {
    // Just before they are used, so that they are in the cache.
    round_rows(a.data + row * a.stride, a.stride, rows, product.k, shop.a);
  }
  const memory a_memory(rounded(rows, product.k, a.transposed), shop.engine, shop.a.data());
  const memory b_memory(rounded(product.k, product.n, product.b.transposed), shop.engine,
                        shop.b.data());
  const memory out(result(product, rows), shop.engine, product.out + row * product.out_stride);
  prepared(product, rows)
      .execute(shop.stream,
               {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, out}});
  shop.stream.wait();
}

}  // namespace ddp
