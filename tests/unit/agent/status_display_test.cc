#include "agent/output/status_display.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <sstream>

#include "agent/output/console.h"
#include "rendezvous/base/fd.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

RendezvousStatus one_of_two() {
  RendezvousStatus t;
  t.min_nodes = t.max_nodes = 2;
  t.nodes_here = 1;
  t.left = 60s;
  t.here = {{"n1", "", 1, {}, true, 2s}};
  return t;
}

/// A terminal of 70 columns; what is written to it can be read.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
    REQUIRE(::grantpt(master_.get()) == 0);
    REQUIRE(::unlockpt(master_.get()) == 0);
    slave_.reset(::open(::ptsname(master_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(slave_);
    winsize size{};
    size.ws_col = 70;
    size.ws_row = 25;
    REQUIRE(::ioctl(slave_.get(), TIOCSWINSZ, &size) == 0);
  }
  [[nodiscard]] int fd() const { return slave_.get(); }
  std::string read() {
    std::array<char, 4096> bytes;
    for (ssize_t n = 0; (n = ::read(master_.get(), bytes.data(), bytes.size())) > 0;) {
      text_.append(bytes.data(), static_cast<std::size_t>(n));
    }
    return text_;
  }

 private:
  Fd master_;
  Fd slave_;
  std::string text_;
};

struct Desk {
  std::ostringstream lines;
  boost::asio::io_context io;
  std::shared_ptr<spdlog::logger> log = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(lines));
};

/// Where the table is redrawn.
struct LiveDesk : Desk {
  LiveDesk() { ::setenv("TERM", "xterm", 1); }
  Terminal terminal;
  Console console{io, terminal.fd()};
};

}  // namespace

TEST_CASE("In a log the table is plain lines, each time it is told") {
  Desk desk;
  desk.log->set_pattern("[ddprun] %v");
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Console console(desk.io, null.get());
  StatusDisplay board(desk.io, console, null.get(), desk.log);
  board.show(one_of_two());
  board.clear();
  const std::string text = desk.lines.str();
  CHECK(text.starts_with("[ddprun] 1 of 2 nodes here, waiting for 1 more"));
  CHECK(text.find("\n[ddprun]   here  n1") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("On a terminal the table is redrawn in place, cut to its width, and goes at the end") {
  LiveDesk desk;
  StatusDisplay board(desk.io, desk.console, desk.terminal.fd(), desk.log);
  board.show(one_of_two());
  CHECK(desk.terminal.read().find('\x1b') == std::string::npos);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (desk.terminal.read().find("for 1 s so far") == std::string::npos) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    desk.io.run_one_for(100ms);
  }
  CHECK(desk.terminal.read().find("\x1b[2F\x1b[J[ddprun] 1 of 2") != std::string::npos);
  std::istringstream lines(desk.terminal.read());
  for (std::string line; std::getline(lines, line);) {
    const auto text = line.rfind("[J") == std::string::npos ? 0 : line.rfind("[J") + 2;
    CHECK(line.size() - text <= 70);  // 69 and the terminal's own carriage return
  }
  board.clear();
  CHECK(desk.terminal.read().ends_with("\x1b[2F\x1b[J"));
  CHECK(desk.lines.str().empty());
}

TEST_CASE("A table with lines of the log below it is left where it is") {
  LiveDesk desk;
  StatusDisplay board(desk.io, desk.console, desk.terminal.fd(), desk.log);
  board.show(one_of_two());
  desk.log->warn("something else");
  board.show(one_of_two());
  CHECK(desk.terminal.read().find('\x1b') == std::string::npos);
  board.clear();
  CHECK(desk.terminal.read().ends_with("\x1b[2F\x1b[J"));
}

TEST_CASE("Lines of the log and the table begin a line, whatever a worker has left open") {
  LiveDesk desk;
  {
    StatusDisplay board(desk.io, desk.console, desk.terminal.fd(), desk.log);
    desk.console.write("epoch 1: 45 %");
    desk.log->info("something");
    desk.log->info("something else");
    CHECK(desk.terminal.read() == "epoch 1: 45 %\r\n");
    desk.console.write("epoch 1: 46 %");
    board.show(one_of_two());
    CHECK(desk.terminal.read().find("46 %\r\n[ddprun] 1 of 2 nodes here") != std::string::npos);
    board.clear();
    desk.log->info("at the begin of a line");
    CHECK(desk.terminal.read().ends_with("\x1b[J"));
  }
  desk.console.write("the last words");
  desk.log->info("without the display");
  CHECK(desk.terminal.read().ends_with("the last words"));
}
