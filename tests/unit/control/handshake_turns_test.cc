#include "rendezvous/control/handshake_turns.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

using namespace ddprun;

namespace {

struct Waiter final : HandshakeTurn {
  Waiter(std::string the_name, std::string& the_story)
      : name(std::move(the_name)), story(the_story) {}
  void on_turn() override { story += name; }
  std::string name;
  std::string& story;
};

}  // namespace

TEST_CASE("Between two handshakes all that is ready is served") {
  boost::asio::io_context io;
  const auto turns = std::make_shared<HandshakeTurns>(io);
  std::string story;
  const auto first = std::make_shared<Waiter>("1", story);
  auto gone = std::make_shared<Waiter>("2", story);
  const auto last = std::make_shared<Waiter>("3", story);
  turns->wait(first);
  turns->wait(gone);
  turns->wait(last);
  boost::asio::post(io, [&] { story += "a beat "; });
  gone.reset();
  io.run();
  CHECK(story == "1a beat 3");
  turns->wait(first);  // and begins anew
  io.restart();
  io.run();
  CHECK(story == "1a beat 31");
}
