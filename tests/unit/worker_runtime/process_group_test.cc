#include "ddp/process_group.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "ddp/ddp.h"
#include "ranks.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"

using ddp::Context;
using ddp::DType;
using ddp::ProcessGroup;
using ddp::ReduceOp;
using ddp::Tensor;
using ddp::Work;
using ddp_test::expect;
using ddp_test::Ranks;
using ddp_test::require_on_all_ranks;

namespace {

constexpr ddp::InitOptions kOptions{.timeout = std::chrono::seconds(10),
                                    .connect_timeout = std::chrono::seconds(15)};

/// What `op` gives for the values rank + 1 of all ranks.
double expected_reduction(ReduceOp op, int ranks) {
  const double sum = ranks * (ranks + 1) / 2.0;
  switch (op) {
    case ReduceOp::sum:
      return sum;
    case ReduceOp::avg:
      return sum / ranks;
    case ReduceOp::min:
      return 1;
    case ReduceOp::max:
      return ranks;
    case ReduceOp::product:
      break;
  }
  double product = 1;
  for (int i = 2; i <= ranks; ++i) {
    product *= i;
  }
  return product;
}

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product,
                             ReduceOp::avg};

template <class T>
void check_reductions(ProcessGroup& group, std::size_t count) {
  const auto mine = static_cast<double>(group.rank() + 1);
  const auto whole = static_cast<std::int64_t>(count);
  for (const ReduceOp op : kOps) {
    const auto expected = static_cast<T>(expected_reduction(op, group.size()));
    const Tensor tensor = Tensor::empty({whole}, ddp::dtype_of<T>);
    tensor.fill(mine);
    group.all_reduce(tensor, op);
    expect(tensor.to_vector<T>() == std::vector<T>(count, expected), "all_reduce");

    const Tensor input = Tensor::empty({group.size(), whole}, ddp::dtype_of<T>);
    input.fill(mine);
    const Tensor output = Tensor::empty({whole}, ddp::dtype_of<T>);
    group.reduce_scatter(input, output, op);
    expect(output.to_vector<T>() == std::vector<T>(count, expected), "reduce_scatter");
  }
}

std::string check_all_operations(int) {
  const Context context = ddp::init(kOptions);
  ProcessGroup& group = context.group();
  for (const std::size_t count : {1, 3, 1000, 300000}) {
    check_reductions<float>(group, count);
  }
  check_reductions<double>(group, 17);
  check_reductions<std::int32_t>(group, 17);
  check_reductions<std::int64_t>(group, 17);
  check_reductions<std::uint8_t>(group, 17);
  check_reductions<std::int64_t>(group, 100'000);
  for (int root = 0; root < group.size(); ++root) {
    const Tensor tensor = Tensor::from<std::int32_t>({group.rank(), -group.rank()});
    group.broadcast(tensor, root);
    expect(tensor.to_vector<std::int32_t>() == std::vector<std::int32_t>{root, -root}, "broadcast");
  }
  const Tensor all = Tensor::empty({group.size(), 2}, DType::i32);
  group.all_gather(Tensor::from<std::int32_t>({group.rank(), 7}), all);
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto values = all.to_vector<std::int32_t>();
    const auto at = static_cast<std::size_t>(rank) * 2;
    expect(values[at] == rank && values[at + 1] == 7, "all_gather");
  }
  const std::string text(static_cast<std::size_t>(group.rank()) * 1000, 'x');
  const std::vector<std::string> texts = group.all_gather_bytes(text);
  for (int rank = 0; rank < group.size(); ++rank) {
    expect(texts[static_cast<std::size_t>(rank)].size() == static_cast<std::size_t>(rank) * 1000,
           "all_gather_bytes");
  }
  expect(group.broadcast_bytes(text, group.size() - 1).size() ==
             static_cast<std::size_t>(group.size() - 1) * 1000,
         "broadcast_bytes");
  group.all_reduce(Tensor::empty({0}));  // nothing to do is fine
  group.barrier();
  return "ok";
}

}  // namespace

TEST_CASE("every operation gives the expected values in worlds of one to four ranks",
          "[worker_runtime]") {
  for (int world_size = 1; world_size <= 4; ++world_size) {
    require_on_all_ranks(world_size, "ok", check_all_operations);
  }
}

TEST_CASE("messages arrive by source and tag, also when two ranks swap", "[worker_runtime]") {
  require_on_all_ranks(3, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    ProcessGroup& group = context.group();
    // The classic demo: rank 0 sends to each of the others.
    const Tensor tensor = Tensor::from<float>({rank == 0 ? 5.0F : 0.0F});
    if (rank == 0) {
      for (int to = 1; to < group.size(); ++to) {
        group.send(tensor, to);
      }
    } else {
      group.recv(tensor, 0);
    }
    expect(tensor.item<float>() == 5, "what rank 0 sent");
    // A swap in a ring, larger than any socket buffer, with tags received in the other order.
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    const Tensor first = Tensor::empty({1 << 20});
    const Tensor second = Tensor::empty({1 << 20});
    first.fill(rank);
    second.fill(rank + 10);
    const Tensor got_first = Tensor::zeros({1 << 20});
    const Tensor got_second = Tensor::zeros({1 << 20});
    std::vector<Work> works;
    works.push_back(group.send_async(first, next, 1));
    works.push_back(group.send_async(second, next, 2));
    works.push_back(group.recv_async(got_second, before, 2));
    works.push_back(group.recv_async(got_first, before, 1));
    for (Work& work : works) {
      work.wait();
      expect(work.done(), "a message that was waited for is done");
    }
    expect(got_first.data<float>()[77] == static_cast<float>(before), "tag 1");
    expect(got_second.data<float>()[77] == static_cast<float>(before + 10), "tag 2");
    return "ok";
  });
}

TEST_CASE("asynchronous all-reduces run in order of issue and may be waited for in any",
          "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(Tensor::empty({1000}));
      tensors.back().fill(i + rank);
      works.push_back(context.group().all_reduce_async(tensors.back()));
    }
    for (std::size_t i = 50; i-- > 0;) {
      works[i].wait();
      expect(tensors[i].data<float>()[999] == 2 * static_cast<float>(i) + 1, "the sum");
    }
    return "ok";
  });
}

TEST_CASE("the same inputs give the same bits in every run and on every rank", "[worker_runtime]") {
  const auto run = [] {
    Ranks ranks(4, [](int rank) -> std::string {
      const Context context = ddp::init(kOptions);
      const Tensor tensor = Tensor::empty({10007});
      for (std::size_t i = 0; i < tensor.size(); ++i) {
        // Values whose sum depends on the order of additions.
        tensor.data<float>()[i] =
            static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104729) % 1000003) *
            1e-3F;
      }
      context.group().all_reduce(tensor, ReduceOp::avg);
      std::size_t hash = 0;
      for (const float value : tensor.values<float>()) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        hash = hash * 1099511628211U + bits;
      }
      return std::to_string(hash);
    });
    return ranks.finish();
  };
  const auto first = run();
  CHECK(first[0].text != "0");
  for (int i = 0; i < 3; ++i) {
    for (const auto& outcome : run()) {
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.text == first[0].text);
    }
  }
}

TEST_CASE("all-reduces of any size have the bits of a sum in rank order", "[worker_runtime]") {
  // By the star, by the pair and by the exchange: within one piece, in several, in uneven chunks.
  const int ranks = GENERATE(2, 3);
  require_on_all_ranks(ranks, "ok", [ranks](int) -> std::string {
    const Context context = ddp::init(kOptions);
    ProcessGroup& group = context.group();
    const auto value = [](int rank, std::size_t i) {
      return static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104729) % 1000003) *
             1e-3F;
    };
    for (const std::size_t count : {1, 44'000, 131'072, 393'216, 1'000'003, 3'145'730}) {
      const Tensor tensor = Tensor::empty({static_cast<std::int64_t>(count)});
      const Tensor narrow = Tensor::empty({static_cast<std::int64_t>(count)}, DType::bf16);
      for (std::size_t i = 0; i < count; ++i) {
        tensor.data<float>()[i] = value(group.rank(), i);
        narrow.data<ddp::BFloat16>()[i] = ddp::BFloat16(value(group.rank(), i));
      }
      group.all_reduce(tensor);
      group.all_reduce(narrow, ReduceOp::avg);
      for (std::size_t i = 0; i < count; ++i) {
        const auto bf16 = [&](int rank) {
          return static_cast<float>(ddp::BFloat16(value(rank, i)));
        };
        const float pair = value(0, i) + value(1, i);
        const float sum = ranks == 2 ? pair : pair + value(2, i);
        const float narrow_pair = bf16(0) + bf16(1);
        const ddp::BFloat16 mean((ranks == 2 ? narrow_pair : narrow_pair + bf16(2)) /
                                 static_cast<float>(ranks));
        expect(tensor.data<float>()[i] == sum, "the sum");
        expect(narrow.data<ddp::BFloat16>()[i].bits == mean.bits, "the mean in bf16");
      }
    }
    return "ok";
  });
}

TEST_CASE("wrong arguments are refused and the group stays usable", "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    ProcessGroup& group = context.group();
    const Tensor one = Tensor::from<float>({1});
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const ddp::InvalidArgument&) {
        return;
      }
      throw std::runtime_error("a wrong argument was taken");
    };
    refused([&] { group.broadcast(one, 2); });
    refused([&] { group.broadcast(one, -1); });
    refused([&] { group.all_reduce(Tensor()); });
    refused([&] { group.all_gather(one, Tensor::zeros({3})); });
    const Tensor both = Tensor::zeros({2});
    refused([&] { group.all_gather(both.view(static_cast<std::size_t>(1 - rank), 1), both); });
    group.all_gather(both.view(static_cast<std::size_t>(rank), 1), both);
    refused([&] { group.all_gather(one, Tensor::zeros({2}, DType::f64)); });
    refused([&] { group.reduce_scatter(one, one); });
    refused([&] { group.send(one, rank); });
    refused([&] { group.recv(one, 2); });
    group.all_reduce(one);
    expect(one.item<float>() == 2, "the sum");
    return "ok";
  });
}

TEST_CASE("rank 0 goes first, and nobody returns before all are done", "[worker_runtime]") {
  const ddprun::test::TempDir dir;
  const std::string file = dir.file("first");
  require_on_all_ranks(3, "ok", [&file](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    bool found = false;
    ddp::rank0_first(context, [&] {
      found = std::filesystem::exists(file);
      if (rank == 0) {
        std::filesystem::create_directory(file);
      }
    });
    expect(found == (rank != 0), "rank 0's work is done when the others look");
    ddp::local_rank0_first(context, [&] {
      if (rank == 0) {
        std::filesystem::remove(file);
      }
      expect(!std::filesystem::exists(file), "local rank 0's work is done");
    });
    return "ok";
  });
}

TEST_CASE("local rank 0 of each of two nodes goes first", "[worker_runtime]") {
  const ddprun::test::TempDir dir;
  const std::string port = std::to_string(ddprun::test::free_port());
  require_on_all_ranks(4, "ok", [&](int rank) -> std::string {
    const int local_rank = rank % 2;
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", port.c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank).c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    const Context context = ddp::init(kOptions);
    expect(context.rank() == rank && context.world_size() == 4, "the job's own");
    expect(context.local_rank() == local_rank && context.local_world_size() == 2, "the node's");
    ddp::local_rank0_first(context, [&] {
      const auto done = [&](int one) {
        return std::filesystem::exists(dir.file(std::to_string(one)));
      };
      expect(local_rank == 0 ? !done(1) && !done(3) : done(0) && done(2),
             "the first of both nodes, then the others");
      std::filesystem::create_directory(dir.file(std::to_string(rank)));
    });
    return "ok";
  });
}

TEST_CASE("a directory is shared when all ranks see it, and nothing is left in it",
          "[worker_runtime]") {
  const ddprun::test::TempDir dir;
  const std::filesystem::path& folder = dir.path();
  const auto fresh = folder / ".ddprun-shared-now";
  const auto left = folder / ".ddprun-shared-left";  // by ranks that were killed
  std::ofstream(fresh) << "now";
  std::ofstream(left) << "left";
  std::filesystem::last_write_time(left,
                                   std::filesystem::last_write_time(fresh) - std::chrono::hours(1));
  require_on_all_ranks(2, "ok", [&folder, &fresh, &left](int rank) -> std::string {
    const Context context = ddp::init(kOptions);
    expect(ddp::is_shared_directory(context, folder), "one folder");
    expect(std::filesystem::exists(fresh), "another job may be asking");
    expect(!std::filesystem::exists(left), "nobody asks for an hour");
    const auto own = folder / std::to_string(rank);
    std::filesystem::create_directory(own);
    expect(!ddp::is_shared_directory(context, own), "two folders are not one");
    expect(!ddp::is_shared_directory(context, folder / "missing"), "no folder");
    expect(std::filesystem::is_empty(own), "nothing is left");
    return "ok";
  });
}
