// resnet_story DEPTH STEM BATCH STEPS DIR: some steps of a ResNet with the weights and images of
// DIR, so that another ResNet can do the same. No decay and no augmentation.
//   reads   DIR/weights.bin  f32, all parameters, in the model's order
//           DIR/images.bin   f32 (STEPS * BATCH, 3, 32, 32)
//           DIR/labels.bin   i64 (STEPS * BATCH)
//   writes  DIR/gradients.bin  f32, of the first step, in the same order
//           DIR/buffers.bin    f32, running statistics after the last step
//   prints  each step's mean loss, and its milliseconds; then the names of the parameters
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "trainer/layers/class_loss.h"
#include "trainer/metrics/stopwatch.h"
#include "trainer/optimizer.h"
#include "trainer/resnet/cifar.h"
#include "trainer/resnet/resnet.h"

namespace {

constexpr float kRate = 0.002F;
constexpr float kMomentum = 0.9F;

template <class T>
std::vector<T> read_all(const std::string& path, std::size_t count) {
  std::vector<T> values(count);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  if (!file || file.peek() != EOF) {
    throw ddp::Error(path + ": does not hold " + std::to_string(count) + " values");
  }
  return values;
}

void append(std::ofstream& file, const ddp::Tensor& tensor) {
  file.write(static_cast<const char*>(tensor.raw()),
             static_cast<std::streamsize>(tensor.size_bytes()));
}

/// (N, 3, H, W) to (N, H, W, 3).
std::vector<float> by_pixel(const std::vector<float>& planes) {
  constexpr std::size_t kArea = ddp::kCifarPixels / 3;
  std::vector<float> pixels(planes.size());
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const auto [n, rest] = std::pair{i / ddp::kCifarPixels, i % ddp::kCifarPixels};
    pixels[n * ddp::kCifarPixels + rest % kArea * 3 + rest / kArea] = planes[i];
  }
  return pixels;
}

void set_weights(ddp::ModelTensors& model, const std::string& path) {
  std::size_t count = 0;
  for (const auto& parameter : model.parameters) {
    count += parameter.value.size();
  }
  const auto weights = read_all<float>(path, count);
  const float* next = weights.data();
  for (const auto& parameter : model.parameters) {
    std::copy_n(next, parameter.value.size(), parameter.value.data<float>());
    next += parameter.value.size();
  }
}

int tell(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "resnet_story DEPTH STEM BATCH STEPS DIR\n");
    return 2;
  }
  const std::int64_t batch = std::atoll(argv[3]);
  const std::int64_t steps = std::atoll(argv[4]);
  const std::string dir = argv[5];
  const ddp::Context context = ddp::init({.backend = ddp::Backend::gloo});
  ddp::Resnet resnet(
      {.depth = std::atoi(argv[1]),
       .stem = std::string(argv[2]) == "large" ? ddp::Stem::large : ddp::Stem::small},
      0);
  auto& model = resnet.tensors();
  set_weights(model, dir + "/weights.bin");
  const auto samples = static_cast<std::size_t>(batch * steps);
  const auto images = by_pixel(read_all<float>(dir + "/images.bin", samples * ddp::kCifarPixels));
  const auto labels = read_all<std::int64_t>(dir + "/labels.bin", samples);
  const std::vector<std::int32_t> targets(labels.begin(), labels.end());
  ddp::DistributedDataParallel parallel(context.group(), model.parameters);
  ddp::Sgd optimizer(model.parameters, ddp::cpu_kernels(), kRate, kMomentum);
  for (std::int64_t step = 0; step < steps; ++step) {
    ddp::Stopwatch watch;
    const auto first = static_cast<std::size_t>(step * batch);
    parallel.begin(batch);
    const auto count = static_cast<std::size_t>(batch);
    float* scores = resnet.forward(batch, images.data() + first * ddp::kCifarPixels, true);
    const auto loss = ddp::class_loss({scores, count * ddp::kCifarClasses},
                                      std::span(targets).subspan(first, count), true);
    resnet.backward(scores, [&](std::size_t i) { parallel.gradient_ready(i); });
    parallel.finish();
    if (step == 0) {
      std::ofstream file(dir + "/gradients.bin", std::ios::binary);
      for (const auto& parameter : model.parameters) {
        append(file, parameter.gradient);
      }
    }
    optimizer.step();
    std::printf("%.9g %.3f\n", loss.sum / static_cast<double>(batch), 1000 * watch.lap());
  }
  std::ofstream file(dir + "/buffers.bin", std::ios::binary);
  for (const auto& buffer : model.buffers) {
    append(file, buffer.tensor);
  }
  for (const auto& parameter : model.parameters) {
    std::printf("%s\n", parameter.name.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, tell);
}
