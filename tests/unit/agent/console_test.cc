#include "agent/output/console.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>

#include "rendezvous/base/fd.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using ddprun::Console;
using ddprun::Fd;
using ddprun::test::read_file;
using ddprun::test::TempDir;
using namespace std::chrono_literals;

namespace {

namespace asio = boost::asio;

/// Two ends of a stream; what is written to `out` is read from `in`.
struct Ends {
  Fd in;
  Fd out;
};

Ends make_pipe() {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

Ends make_socket() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

std::string read_some(const Fd& from, std::size_t bytes_max) {
  std::string text(bytes_max, '\0');
  const ssize_t size = ::read(from.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

/// Lines that differ, so that a lost or doubled piece shows.
std::string numbered(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  text.resize(bytes);
  return text;
}

/// Writes `text` while nobody reads, then reads it all. The console must never block: the loop
/// and the reader are one thread.
void check_slow_reader(const Ends& ends) {
  asio::io_context io;
  Console console(io, ends.out.get());
  const std::string text = numbered(3 * Console::kBufferBytesMax);
  console.write(text);
  CHECK(console.full());
  bool room = false;
  bool flushed = false;
  console.on_room([&] { room = true; });
  console.on_flushed([&] { flushed = true; });
  io.poll();
  CHECK(!room);
  std::string got;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  bool room_came_first = false;
  while (got.size() < text.size() && std::chrono::steady_clock::now() < deadline) {
    got += read_some(ends.in, 100'000);
    io.restart();
    io.poll();
    room_came_first = room_came_first || (room && !flushed);
  }
  io.restart();
  io.poll();
  CHECK((got == text));
  CHECK(room_came_first);
  CHECK(flushed);
  CHECK(!console.full());
}

}  // namespace

TEST_CASE("what a pipe takes is written at once", "[agent]") {
  const Ends ends = make_pipe();
  asio::io_context io;
  Console console(io, ends.out.get());
  console.write("first\n");
  console.write("second\n");
  CHECK(read_some(ends.in, 100) == "first\nsecond\n");
  CHECK(!console.full());
}

TEST_CASE("an open line ends before another writer's line, and only an open one", "[agent]") {
  const Ends ends = make_pipe();
  asio::io_context io;
  Console console(io, ends.out.get());
  console.end_line();
  console.write("whole\n");
  console.end_line();
  console.write("45 %");
  console.end_line();
  console.end_line();
  CHECK(read_some(ends.in, 100) == "whole\n45 %\n");
  const char stream = 0;
  console.write_from(&stream, "begun");
  console.end_line();
  console.write_from(&console, "another\n");
  console.write_from(&stream, "\nnext\n");
  CHECK(read_some(ends.in, 100) == "begun\nanother\nnext\n");
}

TEST_CASE("a slow reader of a pipe loses nothing and blocks nobody", "[agent]") {
  check_slow_reader(make_pipe());
}

TEST_CASE("a slow reader of a socket loses nothing and blocks nobody", "[agent]") {
  check_slow_reader(make_socket());
}

TEST_CASE("a pipe that belongs to another user is written to without blocking", "[agent]") {
  if (::geteuid() != 0) {
    SKIP_TEST("root", "only root can become another user");
  }
  const Ends ends = make_pipe();
  constexpr uid_t kNobody = 65534;
  REQUIRE(::seteuid(kNobody) == 0);
  const int reopened =
      ::open(("/proc/self/fd/" + std::to_string(ends.out.get())).c_str(), O_WRONLY | O_CLOEXEC);
  check_slow_reader(ends);
  REQUIRE(::seteuid(0) == 0);
  CHECK(reopened < 0);  // or this test shows nothing
  CHECK((::fcntl(ends.out.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("the flags of the descriptor stay as the user's shell has them", "[agent]") {
  for (const Ends& ends : {make_pipe(), make_socket()}) {
    const int before = ::fcntl(ends.out.get(), F_GETFL);
    asio::io_context io;
    {
      Console console(io, ends.out.get());
      console.write(numbered(2 * Console::kBufferBytesMax));
      io.poll();
      CHECK(::fcntl(ends.out.get(), F_GETFL) == before);
    }
    CHECK(::fcntl(ends.out.get(), F_GETFL) == before);
    CHECK((before & O_NONBLOCK) == 0);
  }
}

TEST_CASE("a file and /dev/null take everything", "[agent]") {
  const TempDir dir;
  const std::string text = numbered(2 * Console::kBufferBytesMax);
  for (const std::string& path : {dir.write("file", "before\n"), std::string("/dev/null")}) {
    const Fd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    asio::io_context io;
    Console console(io, file.get());
    console.write(text);
    CHECK(!console.full());
    bool flushed = false;
    console.on_flushed([&] { flushed = true; });
    io.run();
    CHECK(flushed);
  }
  CHECK((read_file(dir.file("file")) == "before\n" + text));
}

TEST_CASE("a reader that goes away is forgotten, and so is what it would have read", "[agent]") {
  std::signal(SIGPIPE, SIG_IGN);
  for (Ends& ends : std::array{make_pipe(), make_socket()}) {
    asio::io_context io;
    Console console(io, ends.out.get());
    console.write(numbered(2 * Console::kBufferBytesMax));
    CHECK(console.full());
    bool room = false;
    console.on_room([&] { room = true; });
    ends.in.reset();
    io.run_for(10s);
    CHECK(room);
    CHECK(!console.full());
    console.write("for nobody\n");
    CHECK(!console.full());
  }
}

TEST_CASE("a full disk swallows output and stops nobody", "[agent]") {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  asio::io_context io;
  Console console(io, full.get());
  console.write(numbered(2 * Console::kBufferBytesMax));
  CHECK(!console.full());
}

TEST_CASE("a stream that was closed before the start is no stream", "[agent]") {
  int number = -1;
  {
    const Fd closed(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    number = closed.get();
  }
  asio::io_context io;
  Console console(io, number);
  console.write("for nobody\n");
  CHECK(!console.full());
  bool flushed = false;
  console.on_flushed([&] { flushed = true; });
  io.run();
  CHECK(flushed);
}

TEST_CASE("a console may go away while bytes wait", "[agent]") {
  const Ends ends = make_pipe();
  asio::io_context io;
  bool called = false;
  {
    Console console(io, ends.out.get());
    console.write(numbered(2 * Console::kBufferBytesMax));
    console.on_room([&] { called = true; });
  }
  io.run_for(10s);
  CHECK(!called);
  CHECK(io.stopped());
}
