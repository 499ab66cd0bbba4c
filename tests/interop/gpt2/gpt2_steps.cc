// gpt2_steps IN OUT: trains a GPT-2 on given batches from given weights, for PyTorch to compare
// with (gpt2_test.py). All numbers are little-endian, one after the other.
//   IN:  int64 layers, heads, channels, context, vocabulary, B, T, steps;
//        f64 rate, weight decay, beta1, beta2, clip;
//        f32 weights, in the order of gpt2_parameters();
//        for each step int32 inputs (B, T), then targets (B, T)
//   OUT: f32 gradients of the first step, mean over the targets that count, in the same order;
//        f64 mean loss of each step
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "trainer/adamw.h"
#include "trainer/gpt2/model.h"
#include "trainer/gpt2/parameters.h"
#include "trainer/layers/cross_entropy.h"

namespace {

template <class T>
std::vector<T> read(std::istream& file, std::size_t count) {
  std::vector<T> values(count);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) {
    throw ddp::Error("the input ends too early");
  }
  return values;
}

template <class T>
void write(std::ostream& file, const std::vector<T>& values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

void run(std::istream& in, std::ostream& out) {
  const auto sizes = read<std::int64_t>(in, 8);
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(sizes[i]); };
  const ddp::Gpt2Config config{size(0), size(1), size(2), size(3), size(4)};
  const std::size_t batch = size(5);
  const std::size_t time = size(6);
  const auto numbers = read<double>(in, 5);

  const ddp::Context context = ddp::init({.backend = ddp::Backend::gloo});
  ddp::Gpt2 model(config, batch, time);
  for (const auto& parameter : model.parameters()) {
    parameter.value.copy_from_host(read<float>(in, parameter.value.size()).data());
  }
  ddp::DistributedDataParallel parallel(context.group(), model.parameters());
  const ddp::AdamW optimizer(
      model.parameters(), ddp::cpu_layers(),
      {.beta1 = numbers[2], .beta2 = numbers[3], .weight_decay = numbers[1], .clip = numbers[4]});
  std::vector<double> losses;
  for (std::int64_t step = 0; step < sizes[7]; ++step) {
    const auto inputs = read<std::int32_t>(in, batch * time);
    const auto targets = read<std::int32_t>(in, batch * time);
    std::int64_t counted = 0;
    for (const std::int32_t target : targets) {
      counted += target != ddp::kIgnoredTarget ? 1 : 0;
    }
    parallel.begin(counted);
    const ddp::TokenBatch tokens{inputs, targets, batch, time};
    losses.push_back(model.forward(tokens) / static_cast<double>(counted));
    model.backward(tokens, [&](std::size_t i) { parallel.gradient_ready(i); });
    parallel.finish();
    for (const auto& parameter : model.parameters()) {
      if (step == 0) {
        write(out, parameter.gradient.to_vector<float>());
      }
    }
    optimizer.step(step + 1, numbers[0], optimizer.gradient_norm());
  }
  write(out, losses);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) {
      throw ddp::Error("gpt2_steps IN OUT");
    }
    std::ifstream in(argv[1], std::ios::binary);
    std::ofstream out(argv[2], std::ios::binary);
    run(in, out);
    if (!out.flush()) {
      throw ddp::Error("the output cannot be written");
    }
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
