// The relay of a worker that has a terminal: both terminals are real ones here.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "agent/output/output_pump.h"
#include "agent/output/pseudo_terminal.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/membership/failure.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

namespace asio = boost::asio;

/// The user's terminal, as a shell leaves it: "\n" becomes "\r\n" on the way out.
struct UserTerminal {
  UserTerminal() {
    auto made = open_pseudo_terminal(-1);
    REQUIRE(made.has_value());
    screen = std::move(made->ours);
    fd = std::move(made->workers);
    resize(77, 33);
  }
  void resize(unsigned short columns, unsigned short rows) const {
    winsize size{rows, columns, 0, 0};
    REQUIRE(::ioctl(fd.get(), TIOCSWINSZ, &size) == 0);
  }
  Fd screen;
  Fd fd;
};

struct Bench {
  Bench() {
    OutputSink sink;
    sink.take = [this](std::string_view bytes) { shown += bytes; };
    sink.at_end = [this] { ++ends; };
    auto made = OutputPump::create_terminal(io, std::move(sink), user.fd.get());
    REQUIRE(made.has_value());
    relay = std::move(*made);
    // As launch_session opens it.
    worker.reset(
        ::open(relay->path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644));
    REQUIRE(worker);
    relay->close_write_end();
  }
  void write(const std::string& text) const {
    REQUIRE(::write(worker.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string size() const {
    winsize size{};
    REQUIRE(::ioctl(worker.get(), TIOCGWINSZ, &size) == 0);
    return std::to_string(size.ws_col) + "x" + std::to_string(size.ws_row);
  }

  UserTerminal user;
  asio::io_context io;
  std::string shown;
  int ends = 0;
  std::unique_ptr<OutputPump> relay;
  Fd worker;
};

}  // namespace

TEST_CASE("a worker's terminal is one, of the user's size, and follows it", "[agent][terminal]") {
  Bench bench;
  CHECK(::isatty(bench.worker.get()) == 1);
  CHECK(bench.size() == "77x33");
  bench.user.resize(120, 50);
  bench.relay->copy_window_size_of(bench.user.fd.get());
  CHECK(bench.size() == "120x50");
}

TEST_CASE("bytes come out of a worker's terminal as they went in", "[agent][terminal]") {
  Bench bench;
  std::string bytes = "a\n\r50%\rtab\there \x1b[31mred\x1b[0m\n";
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<char>(i));
  }
  bench.write(bytes);
  bench.worker.reset();
  bench.io.run_for(30s);
  CHECK(bench.io.stopped());
  CHECK((bench.shown == bytes));
  CHECK(bench.ends == 1);  // EIO is a terminal's end
}

TEST_CASE("the agent's process does not get a worker's terminal for its own", "[agent][terminal]") {
  Bench bench;
  pid_t session = 0;
  CHECK(::ioctl(bench.worker.get(), TIOCGSID, &session) == -1);  // nobody's
}

TEST_CASE("last words on a terminal are kept, and cleaned", "[agent][terminal]") {
  Bench bench;
  bench.write("\x1b[31mError:\x1b[0m no\n 5%\r99%");
  CHECK(bench.relay->tail() == "Error: no\n99%");
  bench.worker.reset();
  CHECK(bench.relay->tail() == "Error: no\n99%");
  CHECK(bench.ends == 1);
}

TEST_CASE("a flood through a terminal is whole, and the loop has its turns", "[agent][terminal]") {
  Bench bench;
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
  std::size_t longest = 0;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (bench.ends == 0 && std::chrono::steady_clock::now() < deadline) {
    const std::size_t before = bench.shown.size();
    bench.io.run_one_for(1s);
    longest = std::max(longest, bench.shown.size() - before);
  }
  writer.join();
  CHECK((bench.shown == all));
  CHECK(longest <= OutputPump::kBytesPerTurn);
  CHECK(bench.relay->tail().size() <= kStderrTailBytesMax);
}

TEST_CASE("a relay that ends shows what a terminal still holds", "[agent][terminal]") {
  Bench bench;
  bench.write("late\n");
  bench.relay.reset();
  CHECK(bench.shown == "late\n");
  CHECK(bench.ends == 1);
  CHECK(::write(bench.worker.get(), "x", 1) == -1);  // nobody is left to read it
}
