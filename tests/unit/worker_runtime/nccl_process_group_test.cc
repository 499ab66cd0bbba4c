// The NCCL group's states and failures, over stand-ins for the GPU and for NCCL: what goes wrong
// becomes the right exception in time, on every rank, and the right calls come in the right order.
#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "ranks.h"
#include "standin.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

using ddp::Context;
using ddp::DType;
using ddp::Tensor;
using ddp_test::expect;
using ddp_test::Outcome;
using ddp_test::Ranks;
using ddp_test::Standin;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

/// Of operations in tests where nothing may take that long.
constexpr seconds kLong{100};

Context start(milliseconds timeout = kLong, milliseconds connect_timeout = seconds(20)) {
  return ddp::init(
      {.backend = ddp::Backend::nccl, .timeout = timeout, .connect_timeout = connect_timeout});
}

Tensor on_gpu(const Context& context, std::int64_t count, double value) {
  Tensor tensor = Tensor::empty({count}, DType::f32, context.device());
  tensor.fill(value);
  return tensor;
}

float first_of(const Tensor& tensor) {
  const Tensor host = Tensor::empty({static_cast<std::int64_t>(tensor.size())}, DType::f32);
  host.copy_from(tensor);
  return host.values<float>().front();
}

std::string five_all_reduces(const Context& context) {
  const Tensor tensor = on_gpu(context, 1000, 1);
  for (int i = 0; i < 5; ++i) {
    context.group().all_reduce(tensor);
  }
  return "done";
}

/// Both ranks do five all-reduces, one of which goes wrong.
std::vector<Outcome> outcomes_with(const std::string& faults, milliseconds timeout = kLong) {
  const Standin standin(faults);
  Ranks ranks(2, [timeout](int) { return five_all_reduces(start(timeout)); });
  auto outcomes = ranks.finish();
  standin.check_rules();
  return outcomes;
}

void check_lost(const Outcome& outcome, const std::string& reason) {
  // The peer dies in #3. Its part of that may have arrived, or its death may be known before.
  CHECK_THAT(outcome.text,
             Catch::Matches("ddp::PeerLost: all_reduce #[2-4] \\(f32\\[1000\\]\\) failed: "
                            "rank 1 is gone \\([^]*"));
  CHECK_THAT(outcome.text, Catch::Contains(reason));
  CHECK(outcome.exit_code == 1);
}

}  // namespace

TEST_CASE("collectives and messages between GPUs move the right values", "[nccl]") {
  const Standin standin;
  ddp_test::require_on_all_ranks(3, "done", [](int rank) -> std::string {
    const Context context = start();
    ddp::ProcessGroup& group = context.group();
    expect(group.backend() == "nccl", "NCCL");
    const Tensor sum = on_gpu(context, 300000, rank + 1);  // in several pieces
    group.all_reduce(sum);
    expect(first_of(sum) == 6, "the sum");
    const Tensor most = on_gpu(context, 4, rank);
    group.all_reduce(most, ddp::ReduceOp::max);
    expect(first_of(most) == 2, "the largest");
    const Tensor one = on_gpu(context, 4, rank + 10);
    group.broadcast(one, 2);
    expect(first_of(one) == 12, "the root's");
    const Tensor all = on_gpu(context, 6, 0);
    group.all_gather(on_gpu(context, 2, rank + 5), all);
    const Tensor host = Tensor::empty({6}, DType::f32);
    host.copy_from(all);
    const auto values = host.values<float>();
    expect(std::vector<float>(values.begin(), values.end()) == std::vector<float>{5, 5, 6, 6, 7, 7},
           "in rank order");
    const Tensor part = on_gpu(context, 2, 0);
    group.reduce_scatter(all, part);
    expect(first_of(part) == 3.0F * static_cast<float>(rank + 5), "this rank's part");
    const Tensor from_left = on_gpu(context, 3, -1);
    auto sent = group.send_async(on_gpu(context, 3, rank), (rank + 1) % 3);
    auto received = group.recv_async(from_left, (rank + 2) % 3);
    received.wait();
    sent.wait();
    expect(first_of(from_left) == static_cast<float>((rank + 2) % 3), "the left one's");
    group.barrier();
    return "done";
  });
  standin.check_rules();
}

TEST_CASE("each operation is a group of NCCL's, and a group ends in order", "[nccl]") {
  const Standin standin;
  ddp_test::require_on_all_ranks(2, "done", [](int rank) -> std::string {
    const Context context = start();
    const Tensor mine = on_gpu(context, 8, rank);
    const Tensor theirs = on_gpu(context, 8, rank);
    context.group().all_reduce(mine);
    // Two messages leave as one.
    auto sent = context.group().send_async(mine, 1 - rank);
    auto received = context.group().recv_async(theirs, 1 - rank);
    sent.wait();
    received.wait();
    return "done";
  });
  standin.check_rules();
  const std::vector<std::string> expected{
      "ncclCommInitRankConfig", "ncclGroupStart", "ncclAllReduce", "ncclGroupEnd",
      "ncclGroupStart",         "ncclSend",       "ncclRecv",      "ncclGroupEnd",
      "ncclCommFinalize",       "ncclCommDestroy"};
  CHECK(standin.calls(0) == expected);
  CHECK(standin.calls(1) == expected);
}

TEST_CASE("an asynchronous error names its operation, and the others its rank", "[nccl]") {
  const auto outcomes = outcomes_with("async-error@1:3");
  CHECK(outcomes[1].text ==
        "ddp::Aborted: all_reduce #3 (f32[1000]) was aborted: remote process exited or there was "
        "a network error (the stand-in lost a connection)");
  check_lost(outcomes[0], "NCCL failed there: remote process exited");
}

TEST_CASE("a call that NCCL refuses names its operation, and the others its rank", "[nccl]") {
  const auto outcomes = outcomes_with("call-fails@1:3");
  CHECK(outcomes[1].text ==
        "ddp::Aborted: all_reduce #3 (f32[1000]) was aborted: invalid usage (the stand-in refuses "
        "this call)");
  check_lost(outcomes[0], "NCCL failed there: invalid usage");
}

TEST_CASE("a peer that dies inside a group call is named by the others within a second", "[nccl]") {
  // Rank 0 has either handed its operation over, or waits for NCCL to take it.
  const std::string also = GENERATE("", ",busy@0:3");
  INFO(also);
  const auto outcomes = outcomes_with("dies@1:3" + also);
  CHECK(outcomes[1].signal == SIGKILL);
  check_lost(outcomes[0], "");
  CHECK(outcomes[0].time - steady_clock::now() < seconds(0));
}

TEST_CASE("an operation that hangs ends as a timeout on each rank that waits", "[nccl]") {
  const std::string fault = GENERATE("hangs@1:3", "busy@1:3");
  INFO(fault);
  const auto begin = steady_clock::now();
  const auto outcomes = outcomes_with(fault, milliseconds(700));
  CHECK(steady_clock::now() - begin < seconds(15));
  int timeouts = 0;
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.text);
    CHECK(outcome.exit_code == 1);
    // One whose own part was done waits in the next one.
    const bool late =
        outcome.text.rfind("ddp::Timeout: all_reduce #", 0) == 0 &&
        outcome.text.find(" (f32[1000]) did not finish within 0.7 s") != std::string::npos;
    timeouts += late ? 1 : 0;
    // The slower one of the two may be told first.
    CHECK((late || outcome.text.rfind("ddp::PeerLost: all_reduce #", 0) == 0));
  }
  CHECK(timeouts >= 1);
}

TEST_CASE("a start of NCCL that never ends fails at its own deadline", "[nccl]") {
  const Standin standin("init-hangs@1");
  const auto begin = steady_clock::now();
  Ranks ranks(2, [](int) { return five_all_reduces(start(kLong, milliseconds(1500))); });
  const auto outcomes = ranks.finish();
  CHECK(steady_clock::now() - begin < seconds(15));
  standin.check_rules();
  int late = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    INFO(outcomes[rank].text);
    const bool own = outcomes[rank].text.rfind("ddp::StartError: init #0 failed on rank " +
                                                   std::to_string(rank) +
                                                   ": NCCL did not connect the ranks within 1.5 s",
                                               0) == 0;
    late += own ? 1 : 0;
    CHECK((own || outcomes[rank].text.rfind("ddp::PeerLost: init #0 failed: rank ", 0) == 0));
    CHECK(standin.calls(static_cast<int>(rank)) ==
          std::vector<std::string>{"ncclCommInitRankConfig", "ncclCommAbort"});
  }
  CHECK(late >= 1);
}

TEST_CASE("a start that NCCL refuses on one rank ends the start of all at once", "[nccl]") {
  const std::string fault = GENERATE("init-fails@1", "init-error@1");
  INFO(fault);
  const Standin standin(fault);
  const auto begin = steady_clock::now();
  Ranks ranks(2, [](int) { return five_all_reduces(start(kLong, seconds(40))); });
  const auto outcomes = ranks.finish();
  CHECK(steady_clock::now() - begin < seconds(15));
  standin.check_rules();
  CHECK_THAT(outcomes[1].text,
             Catch::StartsWith("ddp::StartError: init #0 failed on rank 1: NCCL cannot connect "
                               "the ranks: unhandled "));
  CHECK_THAT(outcomes[0].text,
             Catch::StartsWith("ddp::PeerLost: init #0 failed: rank 1 is gone (init #0 failed "
                               "there: NCCL cannot connect the ranks: unhandled "));
}

TEST_CASE("without an id from rank 0 no rank waits for one", "[nccl]") {
  const auto outcomes = outcomes_with("unique-id-fails@0");
  CHECK(outcomes[0].text == "ddp::StartError: NCCL cannot start on rank 0: unhandled system error");
  CHECK_THAT(outcomes[1].text, Catch::StartsWith("ddp::StartError: NCCL cannot start on rank 0"));
}

TEST_CASE("an abort that does not return holds neither the exception nor the next one up",
          "[nccl]") {
  const Standin standin("async-error@1:3,abort-blocks");
  Ranks ranks(2, [](int) -> std::string {
    const Context context = start();
    const auto begin = steady_clock::now();
    try {
      five_all_reduces(context);
    } catch (const ddp::OperationError& error) {
      // Its own five seconds, and on rank 0 those of rank 1 before it is told.
      expect(steady_clock::now() - begin < seconds(20), "bounded");
      const auto again = steady_clock::now();
      try {
        context.group().all_reduce(on_gpu(context, 8, 0));
      } catch (const ddp::OperationError& later) {
        expect(later.sequence() == 4, "its own number");
        expect(steady_clock::now() - again < milliseconds(200), "at once");
        return error.operation() + " #" + std::to_string(error.sequence());
      }
    }
    return "passed";
  });
  for (const Outcome& outcome : ranks.finish()) {
    CHECK(outcome.text == "all_reduce #3");
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("a device that fails under an operation is told with the operation's name", "[nccl]") {
  ::setenv("DDPRUN_STANDIN_GPU_FAULT", "mark-fails:3", 1);
  const auto outcomes = outcomes_with("");
  ::unsetenv("DDPRUN_STANDIN_GPU_FAULT");
  int own = 0;
  for (const Outcome& outcome : outcomes) {
    // The one that comes to it first ends the other's, which may be one behind.
    CHECK_THAT(outcome.text, Catch::Contains("all_reduce #"));
    CHECK_THAT(outcome.text, Catch::Contains("an illegal memory access was encountered"));
    own +=
        outcome.text.rfind("ddp::Aborted: all_reduce #3 (f32[1000]) was aborted: CUDA: ", 0) == 0;
  }
  CHECK(own >= 1);
}

TEST_CASE("after a failure on the GPU operations on the CPU fail alike, and at once", "[nccl]") {
  const Standin standin("async-error@1:1");
  Ranks ranks(2, [](int rank) -> std::string {
    const Context context = start();
    try {
      context.group().all_reduce(on_gpu(context, 8, 0));
    } catch (const ddp::OperationError&) {
      const auto begin = steady_clock::now();
      try {
        context.group().all_reduce(Tensor::zeros({8}));
      } catch (const ddp::Aborted&) {
        expect(steady_clock::now() - begin < milliseconds(500), "at once");
        return rank == 1 ? "right" : "aborted, and not lost";
      } catch (const ddp::PeerLost& error) {
        return rank == 0 && error.peer() == 1 ? "right" : error.what();
      }
    }
    return "passed";
  });
  for (const Outcome& outcome : ranks.finish()) {
    CHECK(outcome.text == "right");
  }
}

TEST_CASE("a group whose work does not end is aborted at its end", "[nccl]") {
  const auto begin = steady_clock::now();
  const Standin standin("finalize-hangs@1");
  Ranks ranks(2, [](int) { return five_all_reduces(start()); });
  for (const Outcome& outcome : ranks.finish()) {
    CHECK(outcome.text == "done");
  }
  CHECK(steady_clock::now() - begin < seconds(20));
  standin.check_rules();
  CHECK(standin.calls(1).back() == "ncclCommAbort");
  CHECK(standin.calls(0).back() == "ncclCommDestroy");
}

TEST_CASE("a failed rank keeps its communicator until its error file is written", "[nccl]") {
  const Standin standin;
  const ddprun::test::TempDir dir;
  const auto path = dir.file("error.json");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);  // its writer waits for a reader
  Ranks ranks(2, [&path](int rank) -> std::string {
    if (rank == 0) {
      const Context context = start();
      five_all_reduces(context);
      return five_all_reduces(context);
    }
    ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
    return std::to_string(ddp::record([]() -> int {
      const Context context = start();
      five_all_reduces(context);
      Ranks::event();
      throw ddp::DoNotRetry("a bad option", 3);
    }));
  });
  REQUIRE(ranks.await_event(1));
  const auto failed = steady_clock::now();
  while (steady_clock::now() - failed < milliseconds(300)) {
    ranks.read_more();
  }
  CHECK(standin.calls(1).back() == "ncclGroupEnd");
  CHECK_THAT(ddprun::test::read_file(path), Catch::Contains("a bad option"));
  const auto outcomes = ranks.finish();
  CHECK(outcomes[1].text == "3");
  CHECK_THAT(outcomes[0].text,
             Catch::StartsWith("ddp::PeerLost: ") && Catch::Contains("rank 1 is gone"));
  standin.check_rules();
}

TEST_CASE("an abort ends what goes on, and takes nothing from what was done", "[nccl]") {
  const Standin standin("hangs:2");
  ddp_test::require_on_all_ranks(2, "ended", [](int rank) -> std::string {
    ddp::Work done;
    ddp::Work later;
    {
      const Context context = start();
      const auto reduce = [&] { return context.group().all_reduce_async(on_gpu(context, 8, 0)); };
      done = reduce();
      expect(ddprun::test::wait_until([&] { return done.done(); }), "the first is done");
      context.group().barrier();
      try {
        ddp::Work pending = reduce();
        later = reduce();
        if (rank == 0) {
          context.group().abort("enough");
        }
        pending.wait();
        return "passed";
      } catch (const ddp::Aborted& error) {
        expect(rank == 0 && error.sequence() == 3, "its own end");
      } catch (const ddp::PeerLost& error) {
        expect(rank == 1 && error.peer() == 0, "the other's end");
      }
    }
    done.wait();
    try {
      later.wait();  // after the end of its group, too
    } catch (const ddp::Aborted&) {
      return "ended";
    }
    return rank == 0 ? "passed" : "ended";  // rank 1 may not have come to it
  });
}

TEST_CASE("an NCCL that cannot be used is named, with what it lacks", "[nccl]") {
  const Standin standin(GENERATE("", "version:21705"));
  const bool old = std::string(std::getenv("DDPRUN_STANDIN_NCCL_FAULT")) != "";
  if (!old) {
    ::setenv("DDPRUN_NCCL_LIBRARY", STANDIN_NCCL_INCOMPLETE, 1);
  }
  Ranks ranks(2, [](int) { return five_all_reduces(start()); });
  for (const Outcome& outcome : ranks.finish()) {
    CHECK_THAT(outcome.text,
               Catch::StartsWith("ddp::StartError: NCCL was asked for, but rank 0: "));
    CHECK_THAT(outcome.text, Catch::Contains(old ? "is NCCL 21705; 2.18 or later is needed"
                                                 : "has no ncclCommAbort"));
  }
}
