#include "agent/output/folded_console.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/output/output_pump.h"
#include "rendezvous/base/fd.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::test::read_file;
using ddprun::test::TempDir;

namespace {

namespace asio = boost::asio;

std::string label(const std::vector<int>& members) {
  return members.size() > 1 ? "[" + rank_list(members) + "] " : "";
}

/// Eight workers' stderr on one console that is a file.
struct Bench {
  Bench() {
    for (int i = 0; i < kWorkers; ++i) {
      auto relay = OutputPump::create(io, fold->sink(i));
      REQUIRE(relay.has_value());
      relays.push_back(std::move(*relay));
      workers.emplace_back(::open(relays.back()->path().c_str(), O_WRONLY | O_CLOEXEC));
      relays.back()->close_write_end();
    }
  }
  void write(int worker, const std::string& text) {
    REQUIRE(::write(workers[static_cast<std::size_t>(worker)].get(), text.data(), text.size()) ==
            static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string shown() const { return read_file(dir.file("agent")); }

  static constexpr int kWorkers = 8;
  TempDir dir;
  Fd stream{::open(dir.write("agent", "").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
  asio::io_context io;
  Console console{io, stream.get()};
  std::unique_ptr<FoldedConsole> fold = std::make_unique<FoldedConsole>(
      io, console, StreamFold(kWorkers, StreamFold::Unfinished::passed, label));
  std::vector<std::unique_ptr<OutputPump>> relays;
  std::vector<Fd> workers;
};

}  // namespace

TEST_CASE("what eight workers write is shown once, and each keeps its own tail", "[agent][fold]") {
  Bench bench;
  for (int i = 0; i < Bench::kWorkers; ++i) {
    bench.write(i, "same\n");
  }
  for (int i = 0; i < Bench::kWorkers; ++i) {
    CHECK(bench.relays[static_cast<std::size_t>(i)]->tail() == "same\n");
  }
  CHECK(bench.shown() == "[0-7] same\n");
}

TEST_CASE("a line of one worker comes by itself, without anything else happening",
          "[agent][fold]") {
  Bench bench;
  bench.write(3, "mine\n");
  const auto deadline = std::chrono::steady_clock::now() + test::kPatience;
  while (bench.shown().empty() && std::chrono::steady_clock::now() < deadline) {
    bench.io.run_one_for(1s);
  }
  CHECK(bench.shown() == "mine\n");
}

TEST_CASE("the end of a folded console shows what waits", "[agent][fold]") {
  Bench bench;
  bench.write(3, "mine\npart");
  bench.io.poll();
  CHECK(bench.shown().empty());
  SECTION("by a flush") {
    bench.fold->flush();
  }
  SECTION("by its own end") {
    bench.fold.reset();
  }
  CHECK(bench.shown() == "mine\npart");
}

TEST_CASE("workers that end are not waited for", "[agent][fold]") {
  Bench bench;
  for (int i = 0; i < 3; ++i) {
    bench.write(i, "same\n");
  }
  bench.workers.clear();
  bench.io.run();  // until all pipes have ended
  CHECK(bench.shown() == "[0-2] same\n");
}

TEST_CASE("an unfinished teed line that is shown also reaches the file of filtered lines",
          "[agent][fold]") {
  const TempDir dir;
  const Fd stream(::open(dir.write("agent", "").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  asio::io_context io;
  Console console{io, stream.get()};
  std::vector<std::string> filtered(2);
  auto fold = std::make_unique<FoldedConsole>(io, console,
                                              StreamFold(2, StreamFold::Unfinished::kept, label));
  std::vector<OutputSink> sinks;
  for (int i = 0; i < 2; ++i) {
    sinks.push_back(fold->sink(
        i, "[p" + std::to_string(i) + "]:", {"WARN"},
        [&filtered, i](std::string_view text) { filtered[static_cast<std::size_t>(i)] += text; }));
  }
  sinks[0].take("WARN of the first");
  sinks[1].take("nothing of note");
  SECTION("by a flush") {
    fold->flush();
    CHECK(filtered[0] == "[p0]:WARN of the first");
    sinks[0].take(" worker\n");  // the line goes on in both places
    CHECK(filtered[0] == "[p0]:WARN of the first worker\n");
  }
  SECTION("by the console's own end") {
    fold.reset();
    CHECK(filtered[0] == "[p0]:WARN of the first");
  }
  CHECK(filtered[1].empty());
  CHECK(read_file(dir.file("agent")).starts_with("WARN of the first"));
}
