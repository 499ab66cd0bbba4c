// The store's protocol against the byte rows that were verified with real servers
// (docs/store-protocol.md): parser, key space and session together, without a socket.
#include "rendezvous/store/store_session.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/store/hex.h"
#include "tests/unit/store/verified_rows.h"

using namespace ddprun;
using namespace ddprun::test;
namespace proto = ddprun::store_protocol;

namespace {

struct Client {
  explicit Client(KeySpace& keys, std::uint64_t id = 1) : session(keys, ConnectionId{id}) {}
  /// The reply to these bytes, as hex.
  std::string ask(const std::string& hex) {
    std::string reply;
    open = session.receive(from_hex(hex), reply, woken);
    return to_hex(reply);
  }
  StoreSession session;
  KeySpace::Woken woken;
  bool open = true;
};

}  // namespace

TEST_CASE("every verified row of both dialects is answered byte for byte") {
  for (const auto* rows : {&kLegacyRows, &kModernRows}) {
    KeySpace keys;
    Client client(keys);
    for (const Row& row : *rows) {
      INFO(row.request);
      CHECK(client.ask(row.request) == to_hex(from_hex(row.reply)));
      CHECK(client.open);
    }
  }
}

TEST_CASE("requests may come glued together or a byte at a time") {
  for (const auto* rows : {&kLegacyRows, &kModernRows}) {
    std::string requests;
    std::string replies;
    for (const Row& row : *rows) {
      requests += from_hex(row.request);
      replies += from_hex(row.reply);
    }
    KeySpace glued_keys;
    Client glued(glued_keys);
    CHECK(glued.ask(to_hex(requests)) == to_hex(replies));
    KeySpace slow_keys;
    Client slow(slow_keys);
    std::string seen;
    for (const char byte : requests) {
      seen += slow.ask(to_hex(std::string(1, byte)));
    }
    CHECK(seen == to_hex(replies));
  }
}

TEST_CASE("a wait ends when the last of its keys has been created, whichever operation did it") {
  KeySpace keys;
  Client waiter(keys, 1);
  Client maker(keys, 2);
  maker.ask("00 cef7853c");
  CHECK(waiter.ask("05 0200000000000000 0300000000000000 2f7731 0300000000000000 2f7732").empty());
  maker.ask("01 0300000000000000 2f7731 0000000000000000");
  CHECK(maker.woken.empty());
  maker.ask("04 0300000000000000 2f7732 0100000000000000");
  CHECK(maker.woken == KeySpace::Woken{ConnectionId{1}});
  CHECK(keys.waiting() == 0);
}

TEST_CASE("each creating operation wakes, deleting and failing to compare do not") {
  const std::vector<std::pair<const char*, bool>> operations{
      {"01 0200000000000000 2f77 0100000000000000 31", true},                       // set
      {"02 0200000000000000 2f77 0000000000000000 0100000000000000 31", true},      // compare_set
      {"02 0200000000000000 2f77 0100000000000000 78 0100000000000000 31", false},  // not equal
      {"04 0200000000000000 2f77 0000000000000000", true},                          // add 0
      {"09 0200000000000000 2f77 0100000000000000 31", true},                       // append
      {"0b 0100000000000000 0200000000000000 2f77 0100000000000000 31", true},      // multi_set
      {"0e 0200000000000000 2f77 0100000000000000 31", true},                       // queue_push
      {"08 0200000000000000 2f77", false}};                                         // delete
  for (const auto& [request, wakes] : operations) {
    KeySpace keys;
    Client waiter(keys, 1);
    Client maker(keys, 2);
    maker.ask("00 cef7853c");
    waiter.ask("00 cef7853c");
    CHECK(waiter.ask("06 0100000000000000 0200000000000000 2f77").empty());
    maker.ask(request);
    INFO(request);
    CHECK(maker.woken.size() == (wakes ? 1u : 0u));
  }
}

TEST_CASE("a key named twice in a wait is counted twice and created once") {
  KeySpace keys;
  Client waiter(keys, 1);
  Client maker(keys, 2);
  CHECK(waiter.ask("05 0200000000000000 0100000000000000 61 0100000000000000 61").empty());
  maker.ask("00 0100000000000000 61 0000000000000000");
  CHECK(maker.woken == KeySpace::Woken{ConnectionId{1}});
}

TEST_CASE("CANCEL_WAIT is always answered once, and the wait is forgotten") {
  KeySpace keys;
  Client waiter(keys, 1);
  Client maker(keys, 2);
  waiter.ask("00 cef7853c");
  CHECK(waiter.ask("06 0100000000000000 0100000000000000 61").empty());
  CHECK(waiter.ask("0c") == "01");
  CHECK(waiter.ask("0c") == "01");
  maker.ask("00 0100000000000000 61 0000000000000000");
  CHECK(maker.woken.empty());
}

TEST_CASE("a connection that ends while it waits leaves no waiter behind") {
  KeySpace keys;
  {
    Client waiter(keys, 1);
    CHECK(waiter.ask("05 0100000000000000 0100000000000000 61").empty());
    CHECK(keys.waiting() == 1);
  }
  CHECK(keys.waiting() == 0);
  Client maker(keys, 2);
  maker.ask("00 0100000000000000 61 0000000000000000");
  CHECK(maker.woken.empty());
}

TEST_CASE("a barrier lets all through with the last, and its key serves once") {
  KeySpace keys;
  Client first(keys, 1);
  Client second(keys, 2);
  Client third(keys, 3);
  for (Client* client : {&first, &second, &third}) {
    client->ask("00 cef7853c");
  }
  const std::string barrier = "12 0200000000000000 2f62 0300000000000000";
  CHECK(first.ask(barrier).empty());
  CHECK(second.ask(barrier).empty());
  CHECK(second.woken.empty());
  CHECK(third.ask(barrier) == "00");
  CHECK(third.woken == KeySpace::Woken{ConnectionId{1}, ConnectionId{2}});
  CHECK(first.ask(barrier) == "00");
}

TEST_CASE("one queue element wakes the one that has waited longest") {
  KeySpace keys;
  Client first(keys, 1);
  Client second(keys, 2);
  Client maker(keys, 3);
  for (Client* client : {&first, &second, &maker}) {
    client->ask("00 cef7853c");
  }
  CHECK(first.ask("06 0100000000000000 0100000000000000 71").empty());
  CHECK(second.ask("06 0100000000000000 0100000000000000 71").empty());
  maker.ask("0e 0100000000000000 71 0100000000000000 78");
  CHECK(maker.woken == KeySpace::Woken{ConnectionId{1}});
  maker.woken.clear();
  maker.ask("0e 0100000000000000 71 0100000000000000 79");
  CHECK(maker.woken == KeySpace::Woken{ConnectionId{2}});
}

TEST_CASE("ADD reads numbers as strtoll does and closes on text without one") {
  KeySpace keys;
  Client client(keys);
  client.ask("00 0100000000000000 61 0600000000000000 203132616263");  // " 12abc"
  CHECK(client.ask("03 0100000000000000 61 0100000000000000") == "0d00000000000000");
  client.ask("00 0100000000000000 62 0300000000000000 616263");
  CHECK(client.ask("03 0100000000000000 62 0100000000000000").empty());
  CHECK_FALSE(client.open);
  CHECK(keys.get("b") == "abc");
}

TEST_CASE("LIST_KEYS tells every stored key with its full name") {
  KeySpace keys;
  Client client(keys);
  client.ask("00 cef7853c");
  client.ask("01 0200000000000000 2f6b 0000000000000000");
  CHECK(client.ask("11") ==
        "0100000000000000"
        "0200000000000000"
        "2f6b");
}

TEST_CASE("lengths at the limit are served and one more closes, before anything is stored") {
  struct Limit {
    std::uint64_t max;
    bool key;
  };
  for (const Limit limit :
       {Limit{proto::kKeyBytesMax, true}, Limit{proto::kValueBytesMax, false}}) {
    for (const int more : {-1, 0, 1}) {
      const std::string text(limit.max + static_cast<std::uint64_t>(more), 'x');
      std::string request = from_hex("00 cef7853c 01");
      proto::put_bytes(request, limit.key ? text : "k");
      if (limit.key || more <= 0) {
        proto::put_bytes(request, limit.key ? "v" : text);
      } else {
        proto::put_i64(request, static_cast<std::int64_t>(text.size()));  // the length is enough
      }
      KeySpace keys;
      Client client(keys);
      std::string reply;
      CHECK(client.session.receive(request, reply, client.woken) == (more <= 0));
      CHECK(keys.size() == (more <= 0 ? 1u : 0u));
    }
  }
}

TEST_CASE("more keys than PyTorch allows close the connection") {
  for (const int more : {0, 1}) {
    std::string request = from_hex("00 cef7853c 05");
    const std::uint64_t count = proto::kKeysMax + static_cast<std::uint64_t>(more);
    proto::put_i64(request, static_cast<std::int64_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      proto::put_bytes(request, "");
    }
    KeySpace keys;
    Client client(keys);
    std::string reply;
    CHECK(client.session.receive(request, reply, client.woken) == (more == 0));
  }
}

TEST_CASE("garbage, unknown opcodes and a second VALIDATE close the connection") {
  for (const char* garbage :
       {"47455420 2f204854 54502f31 2e310d0a", "09", "00 cef7853c 00 cef7853c", "00 cef7853c 13",
        "00 cef7853c 63", "07 0200000000000000 2f70", "ff"}) {
    KeySpace keys;
    Client client(keys);
    INFO(garbage);
    client.ask(garbage);
    // A legacy APPEND (09) is known: it only waits for the rest.
    CHECK(client.open == (std::string(garbage) == "09"));
  }
}

TEST_CASE("a MULTI_SET is applied when it is complete, not before") {
  KeySpace keys;
  Client client(keys);
  client.ask("00 cef7853c");
  client.ask("0b 0200000000000000 0100000000000000 61 0100000000000000 31");
  CHECK(keys.size() == 0);
  client.ask("0100000000000000 62 0100000000000000 32");
  CHECK(keys.size() == 2);
}

TEST_CASE("pipelined requests pause while the replies wait, and go on where they stopped") {
  KeySpace keys;
  Client client(keys);
  client.ask("00 cef7853c");
  const std::string value(proto::kValueBytesMax, 'v');
  keys.set("k", value, client.woken);
  constexpr std::size_t kGets = 64;  // 512 MiB in answers, were they made at once
  std::string requests;
  for (std::size_t i = 0; i < kGets; ++i) {
    requests += from_hex("03 0100000000000000 6b");
  }
  std::string reply;
  REQUIRE(client.session.receive(requests, reply, client.woken));
  std::size_t answers = 0;
  for (;;) {
    REQUIRE(reply.size() <= StoreSession::kReplyBacklogMax + 8 + value.size());
    answers += reply.size() / (8 + value.size());
    if (!client.session.paused()) {
      break;
    }
    reply.clear();
    REQUIRE(client.session.resume(reply, client.woken));
  }
  CHECK(answers == kGets);
}

TEST_CASE("a reply beyond its limit is not built: the connection is closed") {
  const std::uint64_t too_many = StoreSession::kReplyBytesMax / proto::kValueBytesMax;
  for (const std::uint64_t count : {std::uint64_t{2}, too_many}) {
    KeySpace keys;
    Client client(keys);
    keys.set("k", std::string(proto::kValueBytesMax, 'v'), client.woken);
    std::string request = from_hex("00 cef7853c 0a");
    proto::put_i64(request, static_cast<std::int64_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      proto::put_bytes(request, "k");
    }
    std::string reply;
    CHECK(client.session.receive(request, reply, client.woken) == (count < too_many));
    CHECK(reply.size() == (count < too_many ? count * (8 + proto::kValueBytesMax) : 0));
  }
}

TEST_CASE("a long list that comes in small pieces costs no more than its length") {
  // Were each piece to begin the list anew, this would be some 4 billion keys to walk over.
  KeySpace keys;
  Client client(keys);
  client.ask("00 cef7853c");
  std::string request = from_hex("05");
  proto::put_i64(request, static_cast<std::int64_t>(proto::kKeysMax));
  for (std::uint64_t i = 0; i < proto::kKeysMax; ++i) {
    proto::put_bytes(request, "key");
  }
  const auto begin = std::chrono::steady_clock::now();
  std::string reply;
  for (std::size_t at = 0; at < request.size(); at += 11) {
    REQUIRE(client.session.receive(request.substr(at, 11), reply, client.woken));
    REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  }
  CHECK(to_hex(reply) == "01");
}

TEST_CASE("a waiter that named a queue twice is woken by one element") {
  KeySpace keys;
  Client waiter(keys, 1);
  Client maker(keys, 2);
  maker.ask("00 cef7853c");
  CHECK(waiter.ask("05 0200000000000000 0100000000000000 71 0100000000000000 71").empty());
  maker.ask("0e 0100000000000000 71 0100000000000000 78");
  CHECK(maker.woken == KeySpace::Woken{ConnectionId{1}});
  CHECK(keys.waiting() == 0);
}

TEST_CASE("who passes a barrier while it waits for the same key is told once") {
  KeySpace keys;
  Client client(keys);
  client.ask("00 cef7853c");
  CHECK(client.ask("12 0100000000000000 62 0200000000000000").empty());
  CHECK(client.ask("12 0100000000000000 62 0200000000000000") == "00");
  CHECK(client.woken.empty());
}
