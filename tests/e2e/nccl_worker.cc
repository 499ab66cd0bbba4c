// nccl_worker STEPS SNAPSHOT: all-reduces a tensor on this rank's GPU, by NCCL, once a step, and
// saves the sum of all steps, from which the next attempt goes on. Each rank writes "stepped RANK
// STEP" after a step, and at the end "done RANK" with a hash of the sum's bits.
#include <ddp/ddp.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ddp/snapshot.h"

namespace {

constexpr std::int64_t kElements = 1 << 16;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) {
    std::_Exit(1);
  }
}

ddp::Tensor on_host(const ddp::Tensor& tensor) {
  ddp::Tensor host = ddp::Tensor::empty({kElements}, ddp::DType::f32);
  host.copy_from(tensor);
  return host;
}

/// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv) of the bits, so that only equal ones agree.
std::string bits_of(const ddp::Tensor& tensor) {
  ddp::Tensor host = on_host(tensor);
  std::uint64_t hash = 14695981039346656037U;
  for (std::size_t i = 0; i < host.size_bytes(); ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(host.raw())[i]) * 1099511628211U;
  }
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void add(const ddp::Tensor& sum, const ddp::Tensor& values) {
  const ddp::Tensor total = on_host(sum);
  const ddp::Tensor more = on_host(values);
  for (std::size_t i = 0; i < total.size(); ++i) {
    total.values<float>()[i] += more.values<float>()[i];
  }
  sum.copy_from(total);
}

int train(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 0;
  const ddp::Context context = ddp::init({.backend = ddp::Backend::nccl,
                                          .timeout = std::chrono::seconds(60),
                                          .connect_timeout = std::chrono::seconds(60)});
  const std::string rank = std::to_string(context.rank());
  const ddp::Tensor sum = ddp::Tensor::zeros({kElements}, ddp::DType::f32, context.device());
  const std::vector<ddp::NamedTensor> state{{"sum", sum}};
  ddp::Snapshot snapshot(context, {.path = argc > 2 ? argv[2] : "snapshot.ddp"});
  int done = 0;
  if (const auto saved = snapshot.load("sum", state)) {
    done = static_cast<int>(saved->epochs_run);
  }
  const ddp::Tensor values = ddp::Tensor::empty({kElements}, ddp::DType::f32, context.device());
  while (done < steps) {
    ++done;
    // Not exact in f32: another order of sums shows in the bits.
    values.fill(1.0 / (3 * done + context.rank()));
    context.group().all_reduce(values);
    add(sum, values);
    context.progress().step();
    say("stepped " + rank + " " + std::to_string(done));
    snapshot.save({.model = "sum", .epochs_run = done}, state);
  }
  say("done " + rank + " " + bits_of(sum));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, train);
}
