// all_reduce_bench TIMES_MAX BYTES...: how long an all-reduce of f32 takes, for each size, as one
// rank of a world that the environment describes (RANK, WORLD_SIZE, ...). Rank 0 prints one line of
// JSON: the seconds of each, per size. Its Python counterpart is in measure_all_reduce.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ddp/ddp.h"

namespace {

/// At most about this much is moved for each size.
constexpr std::size_t kBytesMax = std::size_t{1} << 30;
constexpr int kWarmUps = 3;

int bench(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "all_reduce_bench TIMES_MAX BYTES...\n");
    return 2;
  }
  const ddp::Context context = ddp::init({.backend = ddp::Backend::gloo});
  std::string report;
  for (int arg = 2; arg < argc; ++arg) {
    const std::size_t bytes = std::stoull(argv[arg]);
    const ddp::Tensor tensor = ddp::Tensor::zeros({static_cast<std::int64_t>(bytes / 4)});
    const auto times =
        std::clamp<std::size_t>(kBytesMax / bytes, 5, static_cast<std::size_t>(std::atoi(argv[1])));
    report += (arg == 2 ? "{\"" : ", \"") + std::to_string(bytes) + "\": [";
    for (std::size_t i = 0; i < times + kWarmUps; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      context.group().all_reduce(tensor);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      if (i >= kWarmUps) {
        report += (i == kWarmUps ? "" : ", ") + std::to_string(seconds.count() * 1e6) + "e-6";
      }
    }
    report += "]";
  }
  if (context.rank() == 0) {
    std::printf("%s}\n", report.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, bench);
}
