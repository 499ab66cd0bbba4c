#include "agent/output/output_pump.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "rendezvous/base/fd.h"
#include "rendezvous/membership/failure.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::test::read_file;
using ddprun::test::TempDir;

namespace {

namespace asio = boost::asio;

/// An agent's stderr that is a file, a relay, and a worker's stderr opened as its child would.
struct Bench {
  explicit Bench(bool hidden = false) {
    auto made = hidden ? OutputPump::create_hidden(io) : OutputPump::create(io, console);
    REQUIRE(made.has_value());
    relay = std::move(*made);
    worker.reset(::open(relay->path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    REQUIRE(worker);
    relay->close_write_end();
  }
  void write(const std::string& text) {
    REQUIRE(::write(worker.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string shown() const { return read_file(dir.file("agent")); }

  TempDir dir;
  Fd stream{::open(dir.write("agent", "").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
  asio::io_context io;
  Console console{io, stream.get()};
  std::unique_ptr<OutputPump> relay;
  Fd worker;
};

}  // namespace

TEST_CASE("stderr is shown at once and byte for byte, without a prefix", "[agent]") {
  Bench bench;
  bench.write("no newline yet");
  bench.io.run_one_for(10s);
  CHECK(bench.shown() == "no newline yet");
  const std::string bytes("\0\xff\r 5%\r 6%\n\x1b[0m", 15);
  bench.write(bytes);
  bench.worker.reset();
  bench.io.run_for(10s);
  CHECK(bench.io.stopped());  // the relay ended with its writers
  CHECK(bench.shown() == "no newline yet" + bytes);
}

TEST_CASE("the tail is what a terminal would show", "[agent]") {
  Bench bench;
  bench.write("\x1b[31mred\x1b[0m\n 5%\r 6%\r100%\n\x1b]0;title\aend");
  CHECK(bench.relay->tail() == "red\n100%\nend");
}

TEST_CASE("the tail reads what the loop has not come to yet, and shows it as well", "[agent]") {
  Bench bench;
  bench.write("last words\n");
  CHECK(bench.relay->tail() == "last words\n");
  CHECK(bench.shown() == "last words\n");
  CHECK(bench.relay->tail() == "last words\n");
  bench.write("after them\n");
  CHECK(bench.relay->tail() == "last words\nafter them\n");
  CHECK(bench.shown() == "last words\nafter them\n");
}

TEST_CASE("a rank that is filtered off the console still leaves its last words", "[agent]") {
  Bench bench(true);
  bench.write("hidden\n");
  bench.worker.reset();
  bench.io.run_for(10s);
  CHECK(bench.relay->tail() == "hidden\n");
  CHECK(bench.shown().empty());
}

TEST_CASE("the tail is bounded and made of whole lines", "[agent]") {
  Bench bench;
  std::string all;
  for (int i = 0; all.size() < 20 * kStderrTailBytesMax; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    all += line;
    bench.write(line);
    if (i % 100 == 0) {
      bench.io.restart();
      bench.io.poll();
    }
  }
  const std::string tail = bench.relay->tail();
  CHECK(tail.size() <= kStderrTailBytesMax);
  CHECK(tail.size() > kStderrTailBytesMax - 16);
  CHECK(tail.find("line ") == 0);
  CHECK((all.compare(all.size() - tail.size(), tail.size(), tail) == 0));
  CHECK((bench.shown() == all));
}

TEST_CASE("a worker's stderr blocks as a plain one does, and nothing is lost", "[agent]") {
  Bench bench;
  CHECK((::fcntl(bench.worker.get(), F_GETFL) & O_NONBLOCK) == 0);
  std::string all;
  for (int i = 0; all.size() < 5'000'000; ++i) {
    all += "line " + std::to_string(i) + "\n";
  }
  std::thread writer([&] {
    std::string_view rest = all;
    while (!rest.empty()) {
      const ssize_t size = ::write(bench.worker.get(), rest.data(), rest.size());
      if (size < 0) {
        break;
      }
      rest.remove_prefix(static_cast<std::size_t>(size));
    }
    bench.worker.reset();
  });
  bench.io.run_for(60s);
  writer.join();
  CHECK(bench.io.stopped());
  CHECK((bench.shown() == all));
}

TEST_CASE("a blocked console holds the worker, not the agent, and nothing is lost", "[agent]") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const Fd reader(ends[0]);
  const Fd stream(ends[1]);
  asio::io_context io;
  Console console(io, stream.get());
  auto relay = OutputPump::create(io, console);
  REQUIRE(relay.has_value());
  Fd worker(::open((*relay)->path().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  (*relay)->close_write_end();
  std::string written;
  // As much as the pipe, the relay and the console take while nobody reads.
  int refused = 0;
  for (int i = 0; refused < 3; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    const bool taken = ::write(worker.get(), line.data(), line.size()) > 0;
    refused = taken ? 0 : refused + 1;
    written += taken ? line : "";
    io.restart();
    io.poll();
    REQUIRE(written.size() < 4 * Console::kBufferBytesMax);
  }
  CHECK(console.full());
  worker.reset();
  std::string got;
  std::string piece(100'000, '\0');
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (got.size() < written.size() && std::chrono::steady_clock::now() < deadline) {
    const ssize_t size = ::read(reader.get(), piece.data(), piece.size());
    got.append(piece, 0, static_cast<std::size_t>(std::max<ssize_t>(0, size)));
    io.restart();
    io.poll();
  }
  CHECK((got == written));
}

TEST_CASE("a relay that ends shows what is still in the pipe", "[agent]") {
  Bench bench;
  bench.write("late\n");
  bench.relay.reset();
  CHECK(bench.shown() == "late\n");
  bench.io.run_for(10s);
  CHECK(bench.io.stopped());
}
