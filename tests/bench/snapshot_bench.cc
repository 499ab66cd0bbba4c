// snapshot_bench DIR MEGABYTES SAVES: steps of a training on one thread, with snapshots in the
// background between them. Prints one line of JSON: seconds of the steps before each save
// ("before"), of those while it was written ("after"), of the call that copies ("call") and from
// that call to the end of the save ("save"); the processor time of such steps on their own thread
// ("worked_before", "worked_after"), which other programs hardly change, and of all other threads
// from the call to the end of a save ("others"). Its Python counterpart is in measure_snapshot.py.
#include <ctime>

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

double processor_s(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Of this process, but for this thread.
double others_s() {
  return processor_s(CLOCK_PROCESS_CPUTIME_ID) - processor_s(CLOCK_THREAD_CPUTIME_ID);
}

struct Steps {
  std::vector<double> seconds, worked;
};

/// Matrix products out of the cache: what a step is made of. About a fifth of a second.
void step(std::vector<float>& a, std::vector<float>& b, std::vector<float>& c, Steps& steps) {
  constexpr std::size_t kN = 256;
  constexpr int kProducts = 24;
  const auto begin = Clock::now();
  const double worked = processor_s(CLOCK_THREAD_CPUTIME_ID);
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
  steps.seconds.push_back(since(begin));
  steps.worked.push_back(processor_s(CLOCK_THREAD_CPUTIME_ID) - worked);
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
  for (std::int64_t i = 0; i < kTensors; ++i) {
    tensors.push_back({"t" + std::to_string(i),
                       ddp::Tensor::zeros({std::atoll(argv[2]) * 1'000'000 / 4 / kTensors})});
    tensors.back().tensor.fill(static_cast<double>(i));
  }
  static_cast<void>(snapshot.load("bench", tensors));
  Steps before;
  Steps after;
  std::vector<double> others;
  std::vector<double> call;
  std::vector<double> save;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;
  Steps not_counted;
  step(a, b, c, not_counted);
  for (int i = 0; i <= std::atoi(argv[3]); ++i) {
    const bool counts = i > 0;  // the first one takes the memory for the copy
    for (int k = 0; k < kStepsBefore && counts; ++k) {
      step(a, b, c, before);
    }
    ddp::SnapshotState state;
    state.model = "bench";
    Steps& steps = counts ? after : not_counted;
    const double others_before = others_s();
    const auto begin = Clock::now();
    static_cast<void>(snapshot.save_async(state, tensors));
    const double called = since(begin);
    step(a, b, c, steps);
    std::optional<ddp::SaveOutcome> outcome;
    while (!(outcome = snapshot.poll())) {
      step(a, b, c, steps);
    }
    const double worked = others_s() - others_before;
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
      others.push_back(worked);
    }
  }
  std::printf("{%s, %s, %s, %s, %s, %s, %s}\n", list("before", before.seconds).c_str(),
              list("after", after.seconds).c_str(), list("worked_before", before.worked).c_str(),
              list("worked_after", after.worked).c_str(), list("others", others).c_str(),
              list("call", call).c_str(), list("save", save).c_str());
  return c[0] > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, bench);
}
