#include "ddp/distributed_data_parallel.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <optional>

#include "ddp/ddp.h"
#include "ranks.h"

using ddp::Context;
using ddp::DistributedDataParallel;
using ddp::Parameter;
using ddp::Tensor;
using ddp_test::expect;
using ddp_test::Ranks;
using ddp_test::require_on_all_ranks;

namespace {

constexpr ddp::InitOptions kOptions{.timeout = std::chrono::seconds(10),
                                    .connect_timeout = std::chrono::seconds(15)};
// So small that the model below has four buckets.
constexpr ddp::DataParallelOptions kSmallBuckets{.first_bucket_bytes = 64, .bucket_bytes = 4096};

std::vector<Parameter> model(int rank) {
  std::vector<Parameter> parameters;
  for (const std::int64_t size : {3, 1000, 20, 1500, 7}) {
    parameters.push_back({"p" + std::to_string(size), Tensor::empty({size}), {}});
    parameters.back().value.fill(rank * 100.0 + static_cast<double>(size));
  }
  return parameters;
}

/// A backward pass: each sample s of this rank adds s to every element of every gradient.
void backward(DistributedDataParallel& parallel, std::vector<Parameter>& parameters,
              const std::vector<float>& samples, bool forwards) {
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::size_t i = forwards ? k : parameters.size() - 1 - k;
    for (float& value : parameters[i].gradient.values<float>()) {
      for (const float sample : samples) {
        value += sample;
      }
    }
    parallel.gradient_ready(i);
  }
}

bool all_are(const std::vector<Parameter>& parameters, float expected) {
  for (const Parameter& parameter : parameters) {
    for (const float value : parameter.gradient.values<float>()) {
      if (value != expected) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

TEST_CASE("construction gives every rank rank 0's parameters and buffers", "[worker_runtime]") {
  require_on_all_ranks(3, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    const Tensor buffer = Tensor::from<std::int64_t>({rank});
    DistributedDataParallel parallel(context.group(), parameters, {buffer});
    for (const Parameter& parameter : parameters) {
      expect(parameter.value.values<float>()[0] == static_cast<float>(parameter.value.size()),
             "rank 0's value");
      expect(parameter.gradient.shape() == parameter.value.shape(), "the gradient's shape");
    }
    expect(buffer.item<std::int64_t>() == 0, "rank 0's buffer");
    return "ok";
  });
}

TEST_CASE("gradients become the mean over all samples of all ranks, batches uneven or empty",
          "[worker_runtime]") {
  for (const int world_size : {1, 2, 4}) {
    require_on_all_ranks(world_size, "ok", [world_size](int rank) -> std::string {
      const Context context = ddp::init(kOptions);
      std::vector<Parameter> parameters = model(rank);
      DistributedDataParallel parallel(context.group(), parameters, {}, kSmallBuckets);
      // Rank r has r samples of value r + 1: rank 0 has none.
      float sum = 0;
      float count = 0;
      for (int r = 0; r < world_size; ++r) {
        sum += static_cast<float>(r * (r + 1));
        count += static_cast<float>(r);
      }
      for (int step = 0; step < 3; ++step) {
        const std::vector<float> samples(static_cast<std::size_t>(rank),
                                         static_cast<float>(rank + 1));
        parallel.begin(rank);
        // Every rank may complete its gradients in an order of its own.
        backward(parallel, parameters, samples, rank % 2 == 0);
        parallel.finish();
        expect(all_are(parameters, count == 0 ? 0 : sum / count), "the mean");
        expect(parallel.global_sample_count() == static_cast<std::int64_t>(count), "the count");
      }
      return "ok";
    });
  }
}

TEST_CASE("gradients that are never reported count as they are", "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    DistributedDataParallel parallel(context.group(), parameters, {}, kSmallBuckets);
    parallel.begin(1);
    if (rank == 0) {
      backward(parallel, parameters, {8}, false);
    }
    parallel.finish();
    expect(all_are(parameters, 4), "the mean of 8 and 0");
    return "ok";
  });
}

TEST_CASE("steps under no_sync pile up and are reduced with the first one after",
          "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    DistributedDataParallel parallel(context.group(), parameters, {}, kSmallBuckets);
    for (int round = 0; round < 2; ++round) {
      {
        const auto guard = parallel.no_sync();
        for (int micro = 0; micro < 2; ++micro) {
          parallel.begin(2);
          backward(parallel, parameters, {1, 3}, false);
          parallel.finish();
        }
        expect(all_are(parameters, 8), "the sums of this rank alone");
      }
      parallel.begin(1);
      backward(parallel, parameters, {static_cast<float>(2 + rank * 20)}, false);
      parallel.finish();
      // Ranks: 8 + 2 over 5 samples, 8 + 22 over 5 samples.
      expect(all_are(parameters, 4), "the mean of all micro-batches");
      expect(parallel.global_sample_count() == 10, "the count of all micro-batches");
    }
    return "ok";
  });
}

TEST_CASE("buckets are rebuilt in rank 0's order, values stay and later means are the same bits",
          "[worker_runtime]") {
  require_on_all_ranks(3, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    std::vector<Parameter> others = model(rank);
    DistributedDataParallel parallel(context.group(), parameters, {}, kSmallBuckets);
    DistributedDataParallel plain(context.group(), others, {}, kSmallBuckets);
    const std::vector<float> samples = {0.1F, 1.0F / static_cast<float>(3 + rank)};
    const auto step = [&](DistributedDataParallel& ddp, std::vector<Parameter>& model) {
      ddp.begin(2);
      // Rank 0 completes them first to last, the others in the order of registration reversed.
      backward(ddp, model, samples, rank == 0);
      ddp.finish();
    };
    step(parallel, parameters);
    step(plain, others);
    const auto same = [&] {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i].gradient.to_vector<float>() != others[i].gradient.to_vector<float>()) {
          return false;
        }
      }
      return true;
    };
    const auto* before = parameters[0].gradient.raw();
    const auto mean = parameters[0].gradient.to_vector<float>();
    expect(parallel.rebuild_buckets(parameters), "rank 0's order is another one");
    expect(parameters[0].gradient.raw() != before, "the first gradient has another place");
    expect(parameters[0].gradient.to_vector<float>() == mean && same(), "with its values");
    expect(parameters[3].gradient.shape() == parameters[3].value.shape(), "and its shape");
    step(parallel, parameters);
    step(plain, others);
    expect(same(), "the bits do not depend on the order");
    expect(!parallel.rebuild_buckets(parameters), "the order is right by now");
    parallel.begin(1);
    try {
      parallel.rebuild_buckets(parameters);
      return "rebuilt within a step";
    } catch (const ddp::InvalidArgument&) {
      parallel.finish();
    }
    return "ok";
  });
}

TEST_CASE("after a rebuild what is complete first lies in the bucket that leaves first",
          "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    DistributedDataParallel parallel(context.group(), parameters, {}, kSmallBuckets);
    const auto follows = [&](std::size_t a, std::size_t b) {
      return parameters[b].gradient.data<float>() == parameters[a].gradient.data<float>() + 16;
    };
    expect(follows(4, 3) && !follows(0, 1), "the last registered are first");
    parallel.begin(1);
    backward(parallel, parameters, {1}, true);
    parallel.finish();
    parallel.rebuild_buckets(parameters);
    expect(follows(0, 1) && !follows(4, 3), "the first completed are first");
    return "ok";
  });
}

TEST_CASE("gradients that travel as bf16 are rounded means, the same bits on every rank",
          "[worker_runtime]") {
  for (const int world_size : {1, 2, 3}) {
    Ranks ranks(world_size, [](int rank) -> std::string {
      const Context context = ddp::init(kOptions);
      std::vector<Parameter> parameters = model(rank);
      ddp::DataParallelOptions options = kSmallBuckets;
      options.compression = ddp::Compression::bf16;
      DistributedDataParallel parallel(context.group(), parameters, {}, options);
      std::string hashes;
      for (int step = 0; step < 2; ++step) {
        // 4099 samples on rank 0 alone, more than bf16 can count.
        const std::int64_t count = rank == 0 ? 4099 : rank;
        parallel.begin(count, rank == 0 && step == 1);
        double expected = 0;
        double total = 0;
        for (int r = 0; r < context.world_size(); ++r) {
          expected += (0.123 + r) * (r == 0 ? 4099 : r);
          total += r == 0 ? 4099 : r;
        }
        backward(parallel, parameters,
                 {static_cast<float>((0.123 + rank) * static_cast<double>(count))}, false);
        parallel.finish();
        expect(parallel.global_sample_count() == static_cast<std::int64_t>(total), "exact counts");
        expect(parallel.all_leave() == (step == 1), "and wishes");
        std::size_t hash = 0;
        for (const Parameter& parameter : parameters) {
          for (const float value : parameter.gradient.values<float>()) {
            expect(std::abs(value - expected / total) < 0.01 * expected / total, "about the mean");
            std::uint32_t bits = 0;
            std::memcpy(&bits, &value, sizeof(bits));
            hash = hash * 1099511628211U + bits;
          }
        }
        hashes += std::to_string(hash) + " ";
        parallel.rebuild_buckets(parameters);
      }
      return hashes;
    });
    const auto outcomes = ranks.finish();
    for (const auto& outcome : outcomes) {
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.text == outcomes[0].text);
    }
  }
}

TEST_CASE("gradients as bf16 need f32 parameters and the same choice on every rank",
          "[worker_runtime]") {
  Ranks ranks(2, [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters{{"x", Tensor::zeros({2}, ddp::DType::f64), {}}};
    const ddp::DataParallelOptions bf16{.compression = ddp::Compression::bf16};
    try {
      const DistributedDataParallel refused(context.group(), parameters, {}, bf16);
      return "taken";
    } catch (const ddp::InvalidArgument& error) {
      expect(std::string(error.what()) ==
                 "parameter \"x\" is f64: only gradients of f32 can travel as bf16",
             error.what());
    }
    std::vector<Parameter> floats = model(0);
    const DistributedDataParallel differs(context.group(), floats, {},
                                          rank == 0 ? bf16 : ddp::DataParallelOptions{});
    return "constructed";
  });
  for (const auto& outcome : ranks.finish()) {
    CHECK_THAT(outcome.text,
               Catch::Contains("rank 0 has buckets of 1048576 and 26214400 bytes as bf16, rank 1 "
                               "has buckets of 1048576 and 26214400 bytes"));
  }
}

TEST_CASE("steps are local while any guard of no_sync lives", "[worker_runtime]") {
  const bool replaced = GENERATE(false, true);
  require_on_all_ranks(2, "ok", [replaced](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    DistributedDataParallel parallel(context.group(), parameters);
    {
      std::optional outer(parallel.no_sync());
      if (replaced) {
        outer.emplace(parallel.no_sync());
      } else {
        const auto inner = parallel.no_sync();
      }
      parallel.begin(1);
      backward(parallel, parameters, {static_cast<float>(rank)}, false);
      parallel.finish();
      expect(all_are(parameters, static_cast<float>(rank)), "the sum of this rank alone");
    }
    parallel.begin(1);
    backward(parallel, parameters, {static_cast<float>(rank)}, false);
    parallel.finish();
    expect(all_are(parameters, 0.5F), "the mean of all");
    return "ok";
  });
}

TEST_CASE("the count of all samples is exact beyond the digits of f32", "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    ddp::DataParallelOptions options;
    options.compression = rank < 0 ? ddp::Compression::none : ddp::Compression::bf16;
    DistributedDataParallel plain(context.group(), parameters);
    for (const std::int64_t mine : {std::int64_t{16'777'217}, std::int64_t{2'147'483'647}}) {
      plain.begin(rank == 0 ? mine : mine - 255);
      plain.finish();
      expect(plain.global_sample_count() == 2 * mine - 255, "the count of both");
      {
        const auto guard = plain.no_sync();
        plain.begin(mine / 2);
        plain.finish();
      }
      plain.begin(mine / 2 - 1);
      plain.finish();
      expect(plain.global_sample_count() == 4 * (mine / 2) - 2, "the count of several steps");
    }
    try {
      plain.begin(std::int64_t{1} << 31 | 1);
    } catch (const ddp::InvalidArgument& refused) {
      expect(std::string(refused.what()) ==
                 "a rank cannot have 2147483649 samples between two "
                 "updates: of 2 ranks each has 0 to 2147483648",
             refused.what());
      DistributedDataParallel narrowed(context.group(), parameters, {}, options);
      narrowed.begin(16'777'217);
      narrowed.finish();
      expect(narrowed.global_sample_count() == 33'554'434, "the count beside bf16");
      return "ok";
    }
    return "too many samples were taken";
  });
}

TEST_CASE("a parameter that cannot be trained ends all ranks, with the rank that has it",
          "[worker_runtime]") {
  Ranks ranks(2, [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(0);
    if (rank == 1) {
      parameters[2] = {"places", Tensor::zeros({20}, ddp::DType::i32), {}};
    }
    DistributedDataParallel parallel(context.group(), parameters);
    return "constructed";
  });
  const auto outcomes = ranks.finish();
  CHECK(outcomes[0].text ==
        "ddp::InvalidArgument: rank 1: parameter \"places\" must be f32 or f64");
  CHECK(outcomes[1].text == "ddp::InvalidArgument: parameter \"places\" must be f32 or f64");
}

TEST_CASE("ranks with different models are told the difference", "[worker_runtime]") {
  Ranks ranks(2, [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(0);
    if (rank == 1) {
      parameters[2] = {"bias", Tensor::zeros({21}), {}};
    }
    DistributedDataParallel parallel(context.group(), parameters);
    return "constructed";
  });
  for (const auto& outcome : ranks.finish()) {
    CHECK(outcome.text ==
          "ddp::InvalidArgument: the ranks have different models: rank 0 has parameter \"p20\" "
          "f32[20], rank 1 has parameter \"bias\" f32[21]");
  }
}

TEST_CASE("misuse of a step is refused", "[worker_runtime]") {
  require_on_all_ranks(1, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Parameter> parameters = model(rank);
    DistributedDataParallel parallel(context.group(), parameters);
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const ddp::InvalidArgument&) {
        return;
      }
      throw std::runtime_error("misuse was taken");
    };
    refused([&] { parallel.gradient_ready(0); });
    refused([&] { parallel.finish(); });
    refused([&] { parallel.begin(-1); });
    parallel.begin(1);
    refused([&] { parallel.begin(1); });
    refused([&] { parallel.gradient_ready(5); });
    refused([&] { (void)parallel.no_sync(); });
    parallel.gradient_ready(4);
    refused([&] { parallel.gradient_ready(4); });
    parallel.finish();
    std::vector<Parameter> integers{{"i", Tensor::zeros({2}, ddp::DType::i32), {}}};
    refused([&] { DistributedDataParallel other(context.group(), integers); });
    return "ok";
  });
}
