#include "worker_runtime/bootstrap/hub_channel.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

using ddp::HubChannel;
using ddprun::Fd;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// Rank 0's and rank 1's ends of a world of two.
struct Ends {
  HubChannel hub;
  HubChannel other;
};

std::vector<Fd> only(int place, int fd) {
  std::vector<Fd> links(static_cast<std::size_t>(place) + 1);
  links.back() = Fd(fd);
  return links;
}

Ends make_ends() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return {HubChannel(only(1, fds[0])), HubChannel(only(0, fds[1]))};
}

HubChannel::Deadline in(milliseconds time) {
  return steady_clock::now() + time;
}

}  // namespace

TEST_CASE("the star carries any number of bytes, also more than a socket buffer holds",
          "[worker_runtime]") {
  Ends ends = make_ends();
  std::uint64_t sequence = 0;
  for (const std::size_t bytes : {0UL, 1UL, 15UL, 17UL, 100'000UL, 5'000'000UL}) {
    ++sequence;
    std::vector<unsigned char> sent(bytes);
    std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(sequence));
    std::vector<unsigned char> got(bytes);
    std::thread sender(
        [&] { ends.other.send(0, {sequence}, sent.data(), bytes, in(milliseconds(10'000))); });
    ends.hub.recv(1, {sequence}, got.data(), bytes, in(milliseconds(10'000)));
    sender.join();
    CHECK((got == sent));
  }
}

TEST_CASE("ranks that run different operations are told at once", "[worker_runtime]") {
  const std::vector<char> bytes(8);
  std::vector<char> room(64);
  {
    Ends ends = make_ends();
    ends.other.send(0, {5}, bytes.data(), bytes.size(), in(milliseconds(1000)));
    CHECK_THROWS_WITH(ends.hub.recv(1, {4}, room.data(), 8, in(milliseconds(10'000))),
                      "rank 1 runs operation #5, this rank #4");
  }
  // Fewer bytes than expected: nothing more will come, so nobody may wait for it.
  Ends ends = make_ends();
  ends.other.send(0, {5}, bytes.data(), bytes.size(), in(milliseconds(1000)));
  const auto start = steady_clock::now();
  CHECK_THROWS_WITH(
      ends.hub.recv(1, {5}, room.data(), 64, in(milliseconds(10'000))),
      "rank 1 runs another operation #5, or the same with a tensor of another size or "
      "type");
  CHECK(steady_clock::now() - start < milliseconds(5000));
}

TEST_CASE("the star's waits end at the deadline, at a closed end and at an abort",
          "[worker_runtime]") {
  char room[8];
  SECTION("deadline") {
    Ends ends = make_ends();
    CHECK_THROWS_WITH(ends.hub.recv(1, {1}, room, 8, in(milliseconds(20))),
                      "Timed out waiting for rank 1");
    const std::vector<char> much(10'000'000);
    CHECK_THROWS_WITH(ends.hub.send(1, {1}, much.data(), much.size(), in(milliseconds(20))),
                      "Timed out waiting for rank 1");
  }
  SECTION("closed end") {
    Ends ends = make_ends();
    { const HubChannel gone = std::move(ends.other); }
    CHECK_THROWS_WITH(ends.hub.recv(1, {1}, room, 8, in(milliseconds(10'000))),
                      "the connection with rank 1 is closed");
    CHECK_THROWS_WITH(ends.hub.send(1, {1}, room, 8, in(milliseconds(10'000))),
                      "the connection with rank 1 is closed");
  }
  SECTION("abort, before, during and after, at both ends") {
    Ends ends = make_ends();
    std::string other;
    std::thread waiting([&] {
      try {
        char there[8];
        ends.other.recv(0, {1}, there, 8, in(milliseconds(10'000)));
      } catch (const std::exception& error) {
        other = error.what();
      }
    });
    ends.hub.abort();
    ends.hub.abort();
    waiting.join();
    CHECK(other == "the connection with rank 0 is closed");
    CHECK_THROWS_WITH(ends.hub.recv(1, {1}, room, 8, in(milliseconds(10'000))),
                      "the connection with rank 1 is closed");
  }
}
