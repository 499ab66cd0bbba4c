// snapshot_bench DIR MEGABYTES SAVES: steps of a training on one thread, with snapshots in the
// background between them. Prints one line of JSON: seconds of the steps before each save
// ("before"), of those while it was written ("after"), of the call that copies ("call") and from
// that call to the end of the save ("save"), and the bytes of the state. Its Python counterpart is
// in measure_snapshot.py.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "ddp/snapshot.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kStepsBefore = 8;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Matrix products out of the cache: what a step is made of. About a fifth of a second.
double step(std::vector<float>& a, std::vector<float>& b, std::vector<float>& c) {
  constexpr std::size_t kN = 256;
  constexpr int kProducts = 24;
  const auto begin = Clock::now();
  a.resize(kN * kN, 0.5F);
  b.resize(kN * kN, 0.25F);
  c.resize(kN * kN);
  for (int product = 0; product < kProducts; ++product) {
    for (std::size_t i = 0; i < kN; ++i) {
      for (std::size_t k = 0; k < kN; ++k) {
        const float factor = a[i * kN + k];
        for (std::size_t j = 0; j < kN; ++j) {
          c[i * kN + j] += factor * b[k * kN + j];
        }
      }
    }
  }
  return since(begin);
}

std::string list(const char* name, const std::vector<double>& values) {
  std::string text = "\"" + std::string(name) + "\": [";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text + "]";
}

int bench(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "snapshot_bench DIR MEGABYTES SAVES\n");
    return 2;
  }
  const ddp::Context context = ddp::init({.backend = ddp::Backend::gloo});
  // Nothing is removed meanwhile: dd and the others remove nothing either.
  ddp::Snapshot snapshot(context, {.path = argv[1], .keep = 1000, .say = {}});
  // As many tensors as a model of a dozen layers has.
  constexpr std::int64_t kTensors = 150;
  std::vector<ddp::NamedTensor> tensors;
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    tensors.push_back({"t" + std::to_string(i),
                       ddp::Tensor::zeros({std::atoll(argv[2]) * 1'000'000 / 4 / kTensors})});
    tensors.back().tensor.fill(static_cast<double>(i));
    bytes += tensors.back().tensor.size_bytes();
  }
  static_cast<void>(snapshot.load("bench", tensors));
  std::vector<double> before;
  std::vector<double> after;
  std::vector<double> call;
  std::vector<double> save;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;
  step(a, b, c);
  for (int i = 0; i <= std::atoi(argv[3]); ++i) {
    const bool counts = i > 0;  // the first one takes the memory for the copy
    for (int k = 0; k < kStepsBefore && counts; ++k) {
      before.push_back(step(a, b, c));
    }
    ddp::SnapshotState state;
    state.model = "bench";
    const auto begin = Clock::now();
    static_cast<void>(snapshot.save_async(state, tensors));
    const double called = since(begin);
    std::vector<double> steps = {step(a, b, c)};
    std::optional<ddp::SaveOutcome> outcome;
    while (!(outcome = snapshot.poll())) {
      steps.push_back(step(a, b, c));
    }
    if (outcome->result != ddp::SaveResult::saved) {
      return 1;
    }
    // One save without a training beside it: what the disk takes.
    static_cast<void>(snapshot.save_async(state, tensors));
    const auto written = Clock::now();
    static_cast<void>(snapshot.wait());
    if (counts) {
      call.push_back(called);
      save.push_back(since(written));
      after.insert(after.end(), steps.begin(), steps.end());
    }
  }
  std::printf("{%s, %s, %s, %s, \"bytes\": %zu}\n", list("before", before).c_str(),
              list("after", after).c_str(), list("call", call).c_str(), list("save", save).c_str(),
              bytes);
  return c[0] > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, bench);
}
