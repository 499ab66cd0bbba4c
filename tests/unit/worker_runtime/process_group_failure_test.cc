#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddp/ddp.h"
#include "ranks.h"
#include "tests/support/temp_dir.h"

using ddp::Context;
using ddp::Tensor;
using ddp_test::expect;
using ddp_test::Outcome;
using ddp_test::Ranks;
using ddp_test::require_on_all_ranks;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

ddp::InitOptions options(milliseconds timeout) {
  return {.timeout = timeout, .connect_timeout = seconds(10)};
}

constexpr int kRanks = 4;

/// One operation on this rank, again and again for ever.
using Loop = std::function<void(ddp::ProcessGroup& group, std::size_t count)>;

Tensor zeros(std::size_t count) {
  return Tensor::zeros({static_cast<std::int64_t>(count)});
}

/// How long ranks took to name a dead one. The promise is a second; a rank that a busy machine does
/// not let run for longer than that must not fail the test, so the median is held to it, and each
/// to ten. None of them can be a timeout of the operation's own: that is a minute.
class Delays {
 public:
  void add(const Outcome& outcome, steady_clock::time_point since) {
    delays_.push_back(outcome.time - since);
    CHECK(delays_.back() < seconds(10));
  }
  ~Delays() {
    std::sort(delays_.begin(), delays_.end());
    CHECK(!delays_.empty());
    CHECK(delays_.at(delays_.size() / 2) < seconds(1));
  }

 private:
  std::vector<steady_clock::duration> delays_;
};

void check_names(const Outcome& outcome, const std::string& operation, int lost) {
  CHECK_THAT(outcome.text, Catch::Matches("ddp::PeerLost: " + operation +
                                          " #[0-9]+ .*failed: "
                                          "rank " +
                                          std::to_string(lost) + " is gone \\(.*"));
}

/// Kills one of the ranks that run `loop`; all others must end by themselves and say so.
void kill_in(const std::string& operation, const Loop& loop) {
  Delays delays;
  for (const int victim : {3, 0, 1}) {
    for (const std::size_t count : {8, 800000}) {
      Ranks ranks(kRanks, [&](int) -> std::string {
        const Context context = ddp::init(options(seconds(60)));
        for (int i = 0;; ++i) {
          if (i == 20) {
            Ranks::event();
          }
          loop(context.group(), count);
        }
      });
      for (int rank = 0; rank < kRanks; ++rank) {
        REQUIRE(ranks.await_event(rank));
      }
      const auto when = steady_clock::now();
      ranks.signal(victim, SIGKILL);
      const auto outcomes = ranks.finish();
      for (int rank = 0; rank < kRanks; ++rank) {
        const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        INFO("victim " << victim << ", rank " << rank << ", " << count << " elements");
        if (rank != victim) {
          CHECK(outcome.exit_code == 1);
          check_names(outcome, operation, victim);
          delays.add(outcome, when);
        }
      }
    }
  }
}

/// Waits for the texts of these ranks, which go on for ever with others that do not.
std::vector<Outcome> outcomes_of(Ranks& ranks, const std::vector<int>& which) {
  const auto limit = steady_clock::now() + seconds(30);
  const auto all_there = [&] {
    return std::all_of(which.begin(), which.end(),
                       [&](int rank) { return !ranks.outcome_so_far(rank).text.empty(); });
  };
  while (!all_there() && steady_clock::now() < limit) {
    ranks.read_more();
  }
  std::vector<Outcome> outcomes;
  for (const int rank : which) {
    outcomes.push_back(ranks.outcome_so_far(rank));
    outcomes.back().text.erase(0, 1);  // the R
  }
  return outcomes;
}

}  // namespace

TEST_CASE("a rank killed in an all-reduce is named by every survivor, by most within a second",
          "[worker_runtime]") {
  kill_in("all_reduce",
          [](ddp::ProcessGroup& group, std::size_t count) { group.all_reduce(zeros(count)); });
}

TEST_CASE("a rank killed in a broadcast is named by every survivor, by most within a second",
          "[worker_runtime]") {
  kill_in("broadcast",
          [](ddp::ProcessGroup& group, std::size_t count) { group.broadcast(zeros(count), 2); });
}

TEST_CASE("a rank killed in an all-gather is named by every survivor, by most within a second",
          "[worker_runtime]") {
  kill_in("all_gather", [](ddp::ProcessGroup& group, std::size_t count) {
    group.all_gather(zeros(count), zeros(count * kRanks));
  });
}

TEST_CASE("a rank killed in a reduce-scatter is named by every survivor, by most within a second",
          "[worker_runtime]") {
  kill_in("reduce_scatter", [](ddp::ProcessGroup& group, std::size_t count) {
    group.reduce_scatter(zeros(count), zeros(count / kRanks));
  });
}

TEST_CASE("a rank killed in a barrier is named by every survivor, by most within a second",
          "[worker_runtime]") {
  kill_in("barrier", [](ddp::ProcessGroup& group, std::size_t) { group.barrier(); });
}

TEST_CASE("ranks that send where nobody receives name the dead one, most within a second",
          "[worker_runtime]") {
  // Rank 0 sends to the victim, the others each to one that sends too.
  Delays delays;
  for (const std::size_t count : {8, 800000}) {
    Ranks ranks(kRanks, [count](int rank) -> std::string {
      const Context context = ddp::init(options(seconds(60)));
      context.group().barrier();
      Ranks::event();
      if (rank == 3) {
        ::pause();
      }
      context.group().send(zeros(count), rank == 0 ? 3 : rank - 1);
      return "sent";
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      REQUIRE(ranks.await_event(rank));
    }
    const auto when = steady_clock::now();
    ranks.signal(3, SIGKILL);
    const auto outcomes = ranks.finish();
    for (int rank = 0; rank < 3; ++rank) {
      INFO("rank " << rank << ", " << count << " elements");
      check_names(outcomes[static_cast<std::size_t>(rank)], "send", 3);
      delays.add(outcomes[static_cast<std::size_t>(rank)], when);
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
  CHECK_THAT(outcomes[0].text, Catch::StartsWith("ddp::OperationError: all_reduce #") &&
                                   Catch::Contains("rank 1 runs another operation #"));
  CHECK_THAT(outcomes[1].text, Catch::StartsWith("ddp::PeerLost: all_reduce #"));
}

TEST_CASE("what two ranks do differently is never a tensor that is filled wrongly",
          "[worker_runtime]") {
  using Differs = std::function<void(ddp::ProcessGroup&, int)>;
  const auto large = [](int rank, ddp::DType type) {
    return Tensor::zeros({rank == 0 ? 1'000'000 : 1'000'001}, type);
  };
  const std::pair<const char*, Differs> cases[] = {
      {"a type",
       [](auto& group, int rank) {
         group.all_reduce(Tensor::zeros({4}, rank == 0 ? ddp::DType::f32 : ddp::DType::i32));
       }},
      {"a reduction",
       [](auto& group, int rank) {
         group.all_reduce(Tensor::zeros({2'000'000}),
                          rank == 0 ? ddp::ReduceOp::sum : ddp::ReduceOp::max);
       }},
      {"a longer broadcast",
       [](auto& group, int rank) { group.broadcast(Tensor::zeros({rank == 0 ? 100 : 10}), 0); }},
      {"a shorter broadcast",
       [](auto& group, int rank) { group.broadcast(Tensor::zeros({rank == 0 ? 10 : 100}), 0); }},
      {"a root", [](auto& group, int rank) { group.broadcast(Tensor::zeros({10}), rank); }},
      {"a gathered part",
       [](auto& group, int rank) {
         group.all_gather(Tensor::zeros({rank + 4}), Tensor::zeros({2 * (rank + 4)}));
       }},
      {"a scattered part",
       [](auto& group, int rank) {
         group.reduce_scatter(Tensor::zeros({2 * (rank + 4)}), Tensor::zeros({rank + 4}));
       }},
      {"a large tensor",
       [&large](auto& group, int rank) { group.all_reduce(large(rank, ddp::DType::f32)); }},
      {"a message",
       [](auto& group, int rank) {
         const Tensor tensor = Tensor::zeros({rank == 0 ? 100 : 10});
         rank == 0 ? group.send(tensor, 1) : group.recv(tensor, 0);
       }},
      {"an operation",
       [](auto& group, int rank) {
         rank == 0 ? group.barrier() : group.all_reduce(Tensor::zeros({1}));
       }},
  };
  for (const auto& [what, differs] : cases) {
    Ranks ranks(2, [&differs = differs](int rank) -> std::string {
      const Context context = ddp::init(options(std::chrono::milliseconds(500)));
      differs(context.group(), rank);
      return "passed";
    });
    const auto outcomes = ranks.finish();
    INFO(what);
    for (const auto& outcome : outcomes) {
      INFO(outcome.text);
      CHECK((outcome.text.starts_with("ddp::OperationError: ") ||
             outcome.text.starts_with("ddp::Timeout: ") ||
             outcome.text.starts_with("ddp::PeerLost: ")));
    }
    CHECK(std::any_of(outcomes.begin(), outcomes.end(), [](const auto& outcome) {
      return !outcome.text.starts_with("ddp::PeerLost: ");
    }));
  }
}

TEST_CASE("a child that was forked has no part in the world, and may end", "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int rank) -> std::string {
    auto context = std::make_unique<Context>(ddp::init(options(seconds(60))));
    if (rank == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        context.reset();
        ::_exit(7);
      }
      int status = 0;
      expect(::waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "the child's end");
    }
    context->group().barrier();
    return "ok";
  });
}

TEST_CASE("a second init while the first one's context lives is refused, and another one later not",
          "[worker_runtime]") {
  require_on_all_ranks(2, "ok", [](int /*rank*/) -> std::string {
    {
      const Context context = ddp::init(options(seconds(60)));
      try {
        (void)ddp::init(options(seconds(60)));
        return "a second one was made";
      } catch (const ddp::InvalidArgument&) {
        context.group().barrier();
      }
    }
    ddp::init(options(std::chrono::milliseconds::max())).group().barrier();
    return "ok";
  });
}

TEST_CASE("a rank that waits for one which is busy still learns of a third one's death",
          "[worker_runtime]") {
  // Rank 1 waits for rank 2, which computes; rank 3 dies. No data flows between 1 and 3, and nobody
  // else closes a connection.
  for (const std::string operation : {"recv", "send"}) {
    Delays delays;
    for (int turn = 0; turn < 3; ++turn) {
      Ranks ranks(kRanks, [&](int rank) -> std::string {
        const Context context = ddp::init(options(seconds(60)));
        context.group().barrier();
        Ranks::event();
        if (rank == 1 && operation == "recv") {
          context.group().recv(zeros(4), 2);
        } else if (rank == 1) {
          context.group().send(zeros(4), 2);
        }
        ::pause();
        return "";
      });
      for (int rank = 0; rank < kRanks; ++rank) {
        REQUIRE(ranks.await_event(rank));
      }
      const auto when = steady_clock::now();
      ranks.signal(3, SIGKILL);
      const auto waiting = outcomes_of(ranks, {1}).front();
      check_names(waiting, operation, 3);
      delays.add(waiting, when);
    }
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

TEST_CASE("the others learn of a failed rank when its error file is written, or after a while",
          "[worker_runtime]") {
  const ddprun::test::TempDir dir;
  const auto path = dir.file("error.json");
  // Nobody reads it yet, so the writer stands still in open(2).
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  Ranks ranks(2, [&path](int rank) -> std::string {
    if (rank == 0) {
      const Context context = ddp::init(options(seconds(60)));
      context.group().barrier();
      context.group().barrier();
      return "passed";
    }
    ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
    const int status = ddp::record([]() -> int {
      const Context context = ddp::init(options(seconds(60)));
      context.group().barrier();
      Ranks::event();
      throw ddp::DoNotRetry("a bad option");
    });
    return "status " + std::to_string(status);
  });
  REQUIRE(ranks.await_event(1));
  const auto failed = steady_clock::now();
  const bool written = GENERATE(true, false);
  INFO((written ? "written" : "not written"));
  while (steady_clock::now() - failed < milliseconds(300)) {
    ranks.read_more();
  }
  CHECK(ranks.outcome_so_far(0).text.empty());
  if (!written) {
    CHECK_THAT(outcomes_of(ranks, {0}).front().text, Catch::StartsWith("ddp::PeerLost: barrier #"));
  }
  std::ifstream reader(path);
  const std::string record{std::istreambuf_iterator<char>(reader), {}};
  CHECK_THAT(record, Catch::Contains("a bad option"));
  const auto outcomes = ranks.finish();
  CHECK(outcomes[1].text == "status 1");
  CHECK_THAT(outcomes[0].text, Catch::Contains("ddp::PeerLost: barrier #") &&
                                   Catch::Contains("rank 1 is gone (its worker ended with an"));
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
      // The median: one of them may lose the processor for a while.
      std::vector<steady_clock::duration> later;
      for (int i = 0; i < 5; ++i) {
        const auto start = steady_clock::now();
        try {
          context.group().barrier();
          return "passed";
        } catch (const ddp::OperationError&) {
          later.push_back(steady_clock::now() - start);
        }
      }
      std::sort(later.begin(), later.end());
      ddp_test::expect(later[2] < milliseconds(100), "at once");
      throw error.sequence() > 1 ? std::runtime_error(error.what()) : std::runtime_error("?");
    }
    return std::to_string(rank);
  });
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(ranks.await_event(rank));
  }
  const auto when = steady_clock::now();
  ranks.signal(1, SIGSTOP);
  const auto outcomes = outcomes_of(ranks, {0, 2});
  CHECK(outcomes[0].time - when < seconds(3));
  CHECK(outcomes[1].time - when < seconds(3));
  const std::string both = outcomes[0].text + outcomes[1].text;
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
  for (const auto& outcome : outcomes_of(ranks, {0, 2})) {
    CHECK_THAT(outcome.text, Catch::Contains("rank 1 did not arrive in time"));
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
