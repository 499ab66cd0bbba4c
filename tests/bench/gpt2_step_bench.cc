// gpt2_step_bench MODEL BATCH STEPS: training steps of a GPT-2 in f32 on random tokens, as `train
// gpt2` makes them, and after each step the matrix products of its linear layers once more: the
// same shapes and memory, by oneDNN's sgemm alone. Under a launcher, with the threads of
// OMP_NUM_THREADS. Rank 0 prints one line of JSON: seconds of each step ("step") and of its
// products alone ("sgemm"), the processor time of both ("step_cpu", "sgemm_cpu"), seconds of the
// parts of each step ("parts"), and the additions and multiplications of a step, those of its
// linear layers ("linear_flop") and those of attention, where each row looks at the ones before it
// ("attention_flop").
#include <dnnl.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/ddp.h"
#include "ddp/distributed_data_parallel.h"
#include "trainer/adamw.h"
#include "trainer/gpt2/config.h"
#include "trainer/gpt2/parameters.h"
#include "trainer/gpt2/passes.h"
#include "trainer/metrics/stopwatch.h"
#include "trainer/uniform.h"

namespace {

constexpr std::size_t kVocabulary = 257;  // bytes, and the end of a text

double processor_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Of the step that runs: seconds by part, and its products, without what follows each of them.
struct Course {
  std::map<std::string, double> parts;
  std::vector<ddp::Product> products;
  double attention_flop = 0;
};

Course& course() {
  static Course now;
  return now;
}

/// Lower triangles of T x T, T D multiplications and additions each: two forward, four backward
/// (the scores that the backward pass makes again are no work that a step must do).
double attention_flop(const ddp::AttentionShape& shape, int matrices) {
  const auto of = [](std::size_t n) { return static_cast<double>(n); };
  const double pairs = of(shape.time) * (of(shape.time) + 1) / 2;
  return 2 * matrices * of(shape.batch) * of(shape.heads) * of(shape.head_size) * pairs;
}

void note(ddp::Product product) {
  product.bias = nullptr;
  product.activated = nullptr;
  product.gelu_at = nullptr;
  course().products.push_back(product);
}
void note(const ddp::LinearForward& pass) {
  note(ddp::out_product(pass));
}
void note(const ddp::LinearBackward& pass) {
  note(ddp::input_gradient_product(pass));
  note(ddp::weight_gradient_product(pass));
}
void note(const ddp::AttentionForward& pass) {
  course().attention_flop += attention_flop(pass.shape, 2);
}
void note(const ddp::AttentionBackward& pass) {
  course().attention_flop += attention_flop(pass.shape, 4);
}
template <class Pass>
void note(const Pass& /*of a layer without products*/) {}

template <class Pass>
using Layer = void (*)(const Pass&, int);

constexpr std::array kParts = {"linear", "attention", "layer_norm", "cross_entropy", "embedding"};

/// The CPU's layer, timed.
template <std::size_t part, class Pass, Layer<Pass> ddp::Layers::*layer>
void timed(const Pass& pass, int device) {
  note(pass);
  ddp::Stopwatch watch;
  (ddp::cpu_layers().*layer)(pass, device);
  course().parts[kParts.at(part)] += watch.lap();
}

ddp::Layers timed_layers() {
  using ddp::Layers;
  Layers layers = ddp::cpu_layers();
  layers.product = timed<0, ddp::Product, &Layers::product>;
  layers.gradient_product = timed<0, ddp::Product, &Layers::gradient_product>;
  layers.linear_forward = timed<0, ddp::LinearForward, &Layers::linear_forward>;
  layers.linear_backward = timed<0, ddp::LinearBackward, &Layers::linear_backward>;
  layers.attention_forward = timed<1, ddp::AttentionForward, &Layers::attention_forward>;
  layers.attention_backward = timed<1, ddp::AttentionBackward, &Layers::attention_backward>;
  layers.layer_norm_forward = timed<2, ddp::LayerNormForward, &Layers::layer_norm_forward>;
  layers.layer_norm_backward = timed<2, ddp::LayerNormBackward, &Layers::layer_norm_backward>;
  layers.cross_entropy = timed<3, ddp::CrossEntropy, &Layers::cross_entropy>;
  layers.embedding_forward = timed<4, ddp::EmbeddingForward, &Layers::embedding_forward>;
  layers.embedding_backward = timed<4, ddp::EmbeddingBackward, &Layers::embedding_backward>;
  return layers;
}

double flop(const std::vector<ddp::Product>& products) {
  double sum = 0;
  for (const ddp::Product& one : products) {
    sum += 2 * static_cast<double>(one.m) * static_cast<double>(one.n) * static_cast<double>(one.k);
  }
  return sum;
}

void multiply(const ddp::Product& one) {
  const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  const auto status =
      dnnl_sgemm(one.a.transposed ? 'T' : 'N', one.b.transposed ? 'T' : 'N', size(one.m),
                 size(one.n), size(one.k), 1, one.a.data, size(one.a.stride), one.b.data,
                 size(one.b.stride), one.add ? 1.0F : 0.0F, one.out, size(one.out_stride));
  if (status != dnnl_success) {
    throw ddp::Error("dnnl_sgemm failed with status " + std::to_string(status));
  }
}

std::vector<std::int32_t> random_tokens(std::size_t count, std::uint64_t seed) {
  ddp::Uniform random(seed);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens) {
    token = static_cast<std::int32_t>(random.next() * static_cast<float>(kVocabulary - 1));
  }
  return tokens;
}

std::vector<ddp::Parameter> first_parameters(const ddp::Gpt2Config& config) {
  auto parameters = ddp::gpt2_parameters(config);
  ddp::initialise_gpt2(config, 1, parameters);
  return parameters;
}

class Training {
 public:
  Training(const ddp::Context& context, const ddp::Gpt2Config& config, std::size_t batch)
      : layers_(timed_layers()),
        parameters_(first_parameters(config)),
        passes_(
            ddp::make_gpt2_passes<float>(config, parameters_, batch, config.context, {}, layers_)),
        parallel_(context.group(), parameters_),
        optimizer_(parameters_, layers_, {}),
        tokens_(
            random_tokens(batch * config.context, 2 + static_cast<std::uint64_t>(context.rank()))),
        batch_{.tokens = tokens_, .targets = tokens_, .batch = batch, .time = config.context} {}

  void step() {
    auto& parts = course().parts;
    ddp::Stopwatch watch;
    parallel_.begin(static_cast<std::int64_t>(batch_.batch * batch_.time));
    passes_->loss(batch_, true);
    passes_->backward(
        batch_, [this](std::size_t i) { parallel_.gradient_ready(i); }, ddp::Gradients::zero);
    watch.lap();
    parallel_.finish();
    if (number_++ == 0) {
      parallel_.rebuild_buckets(parameters_);
    }
    parts["waiting for gradients"] += watch.lap();
    optimizer_.step(number_, 1e-3, optimizer_.gradient_norm());
    parts["optimizer"] += watch.lap();
  }

 private:
  ddp::Layers layers_;
  std::vector<ddp::Parameter> parameters_;
  std::unique_ptr<ddp::Gpt2Passes> passes_;
  ddp::DistributedDataParallel parallel_;
  ddp::AdamW optimizer_;
  std::vector<std::int32_t> tokens_;
  ddp::TokenBatch batch_;
  std::int64_t number_ = 0;
};

int bench(int argc, char** argv) {
  const auto config = argc == 4 ? ddp::gpt2_config(argv[1], kVocabulary) : std::nullopt;
  if (!config) {
    std::fprintf(stderr, "gpt2_step_bench MODEL BATCH STEPS; models are %s\n",
                 ddp::gpt2_config_names().c_str());
    return 2;
  }
  const ddp::Context context = ddp::init({.backend = ddp::Backend::gloo});
  Training training(context, *config, static_cast<std::size_t>(std::atoll(argv[2])));
  nlohmann::json found;
  for (int step = 0; step <= std::atoi(argv[3]); ++step) {
    course() = {};
    const double begin = processor_s();
    ddp::Stopwatch watch;
    training.step();
    const double step_s = watch.lap();
    const double middle = processor_s();
    for (const ddp::Product& product : course().products) {
      multiply(product);
    }
    const double sgemm_s = watch.lap();
    if (step == 0) {  // oneDNN writes its code in the first one
      continue;
    }
    found["sgemm_cpu"].push_back(processor_s() - middle);
    found["step_cpu"].push_back(middle - begin);
    found["step"].push_back(step_s);
    found["sgemm"].push_back(sgemm_s);
    for (const auto& [part, seconds] : course().parts) {
      found["parts"][part].push_back(seconds);
    }
    found["linear_flop"] = flop(course().products);
    found["attention_flop"] = course().attention_flop;
  }
  if (context.rank() == 0) {
    std::printf("%s\n", found.dump().c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, bench);
}
