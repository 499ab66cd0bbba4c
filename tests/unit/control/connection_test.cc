#include "rendezvous/control/connection.h"

#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/listener.h"
#include "rendezvous/protocol/message_codec.h"
#include "tests/support/event_wait.h"
#include "tests/unit/control/job.h"
#include "tests/unit/control/loop.h"

using namespace ddprun;

namespace {

/// An agent's side and a coordinator's of one TCP connection.
struct Pair : private ConnectionHandler {
  static constexpr std::uint64_t kAgent = 1;
  static constexpr std::uint64_t kCoordinator = 2;

  Loop loop;
  std::vector<message::Message> to_agent;
  std::optional<CloseReason> agent_ended;
  std::optional<CloseReason> coordinator_ended;
  std::optional<Connection::Clock::duration> age;
  std::shared_ptr<Connection> agent;
  std::shared_ptr<Connection> coordinator;
  int beats_answered = 0;

  explicit Pair(std::chrono::milliseconds timeout) {
    Listening here = listen_ephemeral("127.0.0.1", {});
    REQUIRE(here.socket);
    Fd agent_end = connect_to("127.0.0.1", port_of(here.socket));
    Fd coordinator_end(::accept(here.socket.get(), nullptr, nullptr));
    REQUIRE(coordinator_end);
    agent = Connection::create(
        loop.io, std::move(agent_end),
        {.expect_preamble = false, .heartbeat_timeout = timeout, .beats = true}, *this, kAgent);
    coordinator = Connection::create(loop.io, std::move(coordinator_end),
                                     {.expect_preamble = false, .heartbeat_timeout = timeout},
                                     *this, kCoordinator);
    coordinator->start();
    agent->start();
  }

  /// The coordinator has answered one beat more.
  void after_a_beat() {
    const int before = beats_answered;
    loop.until([&] { return beats_answered > before; });
  }

 private:
  void on_message(std::uint64_t id, message::Message said) override {
    if (id == kAgent) {
      to_agent.push_back(std::move(said));
    }
  }
  void on_no_preamble(std::uint64_t, PreambleCheck, std::string) override {}
  void on_ended(std::uint64_t id, const CloseReason& end) override {
    (id == kAgent ? agent_ended : coordinator_ended) = end;
  }
  std::optional<std::chrono::nanoseconds> quorum_age() override {
    ++beats_answered;
    return age;
  }
};

constexpr auto kTimeout = 2000ms;
/// A beat is half a timeout after the one before: a message that waited for one would be late.
constexpr auto kAtOnce = kTimeout / 5;

/// What a listener learns of one connection that has not said its preamble.
struct Silent : ConnectionHandler {
  bool no_preamble = false;
  void on_message(std::uint64_t, message::Message) override {}
  void on_no_preamble(std::uint64_t, PreambleCheck, std::string) override { no_preamble = true; }
  void on_ended(std::uint64_t, const CloseReason&) override {}
};

}  // namespace

TEST_CASE("Who says its preamble byte by byte has no more time than who is silent") {
  Listening here = listen_ephemeral("127.0.0.1", {});
  REQUIRE(here.socket);
  const Fd guest = connect_to("127.0.0.1", port_of(here.socket));
  Loop loop;
  Silent owner;
  const auto connection =
      Connection::create(loop.io, Fd(::accept(here.socket.get(), nullptr, nullptr)),
                         {.preamble_timeout = 400ms}, owner);
  connection->start();
  const std::string words = preamble();
  std::size_t said = 0;
  for (; said < words.size() && !owner.no_preamble; ++said) {
    REQUIRE(::send(guest.get(), &words[said], 1, MSG_NOSIGNAL) == 1);
    loop.run_for(200ms);
  }
  CHECK(owner.no_preamble);
  CHECK(said < words.size());
  connection->close();
}

TEST_CASE("What the coordinator says between two beats reaches the agent at once") {
  Pair pair(kTimeout);
  for (int i = 0; i < 3; ++i) {
    pair.after_a_beat();
    for (int said = 0; said < 2; ++said) {
      pair.to_agent.clear();
      pair.coordinator->send(encode(message::Leaving{}));  // the shortest: shorter than an answer
      pair.loop.until([&] { return pair.to_agent.size() == 1; }, kAtOnce);
    }
  }
}

TEST_CASE("The end of a connection reaches the agent at once, between two beats too") {
  Pair pair(kTimeout);
  pair.after_a_beat();
  pair.after_a_beat();
  pair.coordinator->close();
  pair.loop.until([&] { return pair.agent_ended.has_value(); }, kAtOnce);
  CHECK(pair.agent_ended->by_peer);
}

TEST_CASE("An idle connection lives on, and a silent peer is lost within its timeout") {
  Pair pair(kTimeout);
  for (int i = 0; i < 4; ++i) {  // longer than the timeout
    pair.after_a_beat();
  }
  CHECK_FALSE(pair.agent_ended);
  const auto silent = pair.coordinator->release();
  pair.loop.until([&] { return pair.agent_ended.has_value(); }, 10s);
  CHECK(pair.agent_ended->silent_for >= kTimeout - kTimeout / 10);
}

/// The end comes when the timer of the lease is due already, and is called next: its process stood
/// still.
TEST_CASE("How the peer closed says more than that it was silent, on both sides") {
  constexpr auto kShort = 300ms;
  Pair pair(kShort);
  pair.after_a_beat();
  pair.coordinator->send(encode(message::Leaving{}));
  pair.loop.until([&] { return !pair.to_agent.empty(); });  // nothing is unread: no reset
  std::shared_ptr<Connection> dies;
  SECTION("the coordinator dies") {
    dies = pair.coordinator;
  }
  SECTION("the agent dies") {
    dies = pair.agent;
  }
  const bool by_reset = GENERATE(false, true);  // then it lives, and gave the connection up
  boost::asio::steady_timer death(pair.loop.io, 1ms);
  death.async_wait(
      [&](boost::system::error_code) { by_reset ? dies->close_by_reset() : dies->close(); });
  const auto over = std::chrono::steady_clock::now() + 2 * kShort;
  REQUIRE(test::wait_until([&] { return std::chrono::steady_clock::now() >= over; }, 10s));
  pair.loop.until([&] { return pair.agent_ended || pair.coordinator_ended; });
  const CloseReason& end = pair.agent_ended ? *pair.agent_ended : *pair.coordinator_ended;
  CHECK(end.by_peer == !by_reset);
  CHECK(end.by_reset == by_reset);
  CHECK(end.silent_for == 0ns);
}

TEST_CASE("A coordinator that begins to need a quorum gets its beats at that pace from the next") {
  Pair pair(kTimeout);
  pair.after_a_beat();
  pair.after_a_beat();
  pair.age = 0s;
  pair.after_a_beat();  // whose answer tells so
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) {
    pair.after_a_beat();
  }
  CHECK(std::chrono::steady_clock::now() - begin < kTimeout / 2);
}
