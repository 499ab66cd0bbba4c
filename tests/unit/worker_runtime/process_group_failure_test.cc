#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "ddp/ddp.h"
#include "ranks.h"

using ddp::Context;
using ddp::Tensor;
using ddp_test::Outcome;
using ddp_test::Ranks;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

ddp::InitOptions options(milliseconds timeout) {
  return {.timeout = timeout, .connect_timeout = seconds(10)};
}

/// An endless loop of all-reduces that says when it is well under way.
std::string reduce_for_ever(std::size_t count) {
  const Context context = ddp::init(options(seconds(60)));
  const Tensor tensor = Tensor::zeros({static_cast<std::int64_t>(count)});
  for (int i = 0;; ++i) {
    if (i == 20) {
      Ranks::event();
    }
    context.group().all_reduce(tensor);
  }
}

void check_survivor(const Outcome& outcome, int lost, steady_clock::time_point when) {
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.text, Catch::StartsWith("ddp::PeerLost: all_reduce #"));
  CHECK_THAT(outcome.text, Catch::Contains("rank " + std::to_string(lost) + " is gone"));
  CHECK(outcome.time - when < seconds(1));
}

}  // namespace

TEST_CASE("when a rank is killed in an all-reduce every survivor names it within a second",
          "[worker_runtime]") {
  for (const int victim : {3, 0, 1}) {
    for (const std::size_t count : {10, 3000000}) {
      Ranks ranks(4, [count](int) { return reduce_for_ever(count); });
      for (int rank = 0; rank < 4; ++rank) {
        REQUIRE(ranks.await_event(rank));
      }
      const auto when = steady_clock::now();
      ranks.signal(victim, SIGKILL);
      const auto outcomes = ranks.finish();
      for (int rank = 0; rank < 4; ++rank) {
        INFO("victim " << victim << ", rank " << rank << ", " << count << " elements");
        if (rank != victim) {
          check_survivor(outcomes[static_cast<std::size_t>(rank)], victim, when);
        }
      }
    }
  }
}

TEST_CASE("survivors that only meet at barriers name the dead rank within a second",
          "[worker_runtime]") {
  for (const int victim : {0, 2}) {
    Ranks ranks(3, [](int) -> std::string {
      const Context context = ddp::init(options(seconds(60)));
      for (int i = 0;; ++i) {
        if (i == 20) {
          Ranks::event();
        }
        context.group().barrier();
      }
    });
    for (int rank = 0; rank < 3; ++rank) {
      REQUIRE(ranks.await_event(rank));
    }
    const auto when = steady_clock::now();
    ranks.signal(victim, SIGKILL);
    const auto outcomes = ranks.finish();
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != victim) {
        const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        CHECK_THAT(outcome.text, Catch::StartsWith("ddp::PeerLost: barrier #"));
        CHECK_THAT(outcome.text, Catch::Contains("rank " + std::to_string(victim) + " is gone"));
        CHECK(outcome.time - when < seconds(1));
      }
    }
  }
}

TEST_CASE("ranks that reduce tensors of different sizes get an error, not a hang",
          "[worker_runtime]") {
  Ranks ranks(2, [](int rank) -> std::string {
    const Context context = ddp::init(options(seconds(60)));
    context.group().all_reduce(Tensor::zeros({rank == 0 ? 10 : 12}));
    return "passed";
  });
  const auto outcomes = ranks.finish();
  CHECK_THAT(outcomes[0].text, Catch::Contains("rank 1 runs operation #"));
  CHECK_THAT(outcomes[1].text, Catch::StartsWith("ddp::PeerLost: all_reduce #"));
}

TEST_CASE("a rank that waits for one which is busy still learns of a third one's death",
          "[worker_runtime]") {
  // Rank 1 waits for rank 2, which computes; rank 3 dies. No data flows between 1 and 3.
  Ranks ranks(4, [](int rank) -> std::string {
    const Context context = ddp::init(options(seconds(60)));
    context.group().barrier();
    Ranks::event();
    if (rank == 1) {
      context.group().recv(Tensor::zeros({4}), 2);
    }
    ::pause();
    return "";
  });
  for (int rank = 0; rank < 4; ++rank) {
    REQUIRE(ranks.await_event(rank));
  }
  const auto when = steady_clock::now();
  ranks.signal(3, SIGKILL);
  while (ranks.outcome_so_far(1).text.empty() && steady_clock::now() - when < seconds(5)) {
    ranks.read_more();
  }
  const Outcome waiting = ranks.outcome_so_far(1);
  CHECK_THAT(waiting.text, Catch::Contains("ddp::PeerLost: recv #1"));
  CHECK_THAT(waiting.text, Catch::Contains("rank 3 is gone"));
  CHECK(waiting.time - when < seconds(1));
  for (const int rank : {0, 2}) {
    ranks.signal(rank, SIGKILL);
  }
}

TEST_CASE("a rank that fails with an exception is named as the cause", "[worker_runtime]") {
  Ranks ranks(3, [](int rank) -> std::string {
    const Context context = ddp::init(options(seconds(60)));
    context.group().barrier();
    if (rank == 2) {
      throw std::runtime_error("a bad batch");
    }
    context.group().barrier();
    return "passed";
  });
  const auto outcomes = ranks.finish();
  CHECK(outcomes[2].text == "std::runtime_error: a bad batch");
  for (const int rank : {0, 1}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    CHECK_THAT(outcome.text, Catch::StartsWith("ddp::PeerLost: barrier #"));
    CHECK_THAT(outcome.text, Catch::Contains("rank 2 is gone"));
  }
}

TEST_CASE("a stopped rank surfaces as a timeout, and later operations fail at once",
          "[worker_runtime]") {
  Ranks ranks(3, [](int rank) -> std::string {
    const Context context = ddp::init(options(milliseconds(700)));
    const Tensor tensor = Tensor::zeros({1000});
    context.group().all_reduce(tensor);
    Ranks::event();
    try {
      for (;;) {
        context.group().all_reduce(tensor);
      }
    } catch (const ddp::OperationError& error) {
      const auto start = steady_clock::now();
      try {
        context.group().barrier();
      } catch (const ddp::OperationError&) {
        ddp_test::expect(steady_clock::now() - start < milliseconds(100), "at once");
        throw error.sequence() > 1 ? std::runtime_error(error.what()) : std::runtime_error("?");
      }
    }
    return std::to_string(rank);
  });
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(ranks.await_event(rank));
  }
  ranks.signal(1, SIGSTOP);
  const auto start = steady_clock::now();
  while ((ranks.outcome_so_far(0).text.empty() || ranks.outcome_so_far(2).text.empty()) &&
         steady_clock::now() - start < seconds(10)) {
    ranks.read_more();
  }
  CHECK(steady_clock::now() - start < seconds(3));
  const std::string both = ranks.outcome_so_far(0).text + ranks.outcome_so_far(2).text;
  CHECK_THAT(both, Catch::Contains("did not finish within 0.7 s"));
}

TEST_CASE("a rank that never joins is named by all that did", "[worker_runtime]") {
  Ranks ranks(3, [](int rank) -> std::string {
    if (rank == 1) {
      ::pause();
    }
    const auto start = steady_clock::now();
    try {
      ddp::init({.connect_timeout = milliseconds(600)});
    } catch (const ddp::StartError& error) {
      ddp_test::expect(steady_clock::now() - start < seconds(2), "in time");
      return error.what();
    }
    return "connected";
  });
  const auto start = steady_clock::now();
  while ((ranks.outcome_so_far(0).text.empty() || ranks.outcome_so_far(2).text.empty()) &&
         steady_clock::now() - start < seconds(10)) {
    ranks.read_more();
  }
  for (const int rank : {0, 2}) {
    CHECK_THAT(ranks.outcome_so_far(rank).text, Catch::Contains("rank 1 did not arrive in time"));
  }
}

TEST_CASE("a group that was aborted says so here and is lost to the others", "[worker_runtime]") {
  Ranks ranks(2, [](int rank) -> std::string {
    const Context context = ddp::init(options(seconds(60)));
    const Tensor tensor = Tensor::zeros({10});
    context.group().all_reduce(tensor);
    if (rank == 1) {
      ddp::Work pending = context.group().recv_async(tensor, 0);
      context.group().abort("no more");
      try {
        pending.wait();
      } catch (const ddp::Aborted& error) {
        return error.what();
      }
    }
    context.group().barrier();
    return "passed";
  });
  const auto outcomes = ranks.finish();
  CHECK_THAT(outcomes[1].text, Catch::Contains("was aborted: no more"));
  CHECK_THAT(outcomes[0].text, Catch::StartsWith("ddp::PeerLost: barrier"));
  CHECK_THAT(outcomes[0].text, Catch::Contains("rank 1 is gone (it aborted its group: no more)"));
}
