#include "rendezvous/control/join.h"

#include <sys/socket.h>

#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/peer_listener.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"
#include "rendezvous/store/store_server.h"
#include "tests/support/free_port.h"
#include "tests/unit/control/loop.h"
#include "tests/unit/control/orders_ignored.h"

using namespace ddprun;
using ddprun::test::free_port;

namespace {

NodeDescription describe(const std::string& host) {
  NodeDescription d;
  d.host_name = host;
  d.job_id = "job";
  d.min_nodes = d.max_nodes = 2;
  d.program = "train";
  return d;
}

struct Outcome {
  std::optional<Result<Joined>> result;
  JoinHandle handle;
  [[nodiscard]] bool host() const {
    return result && result->has_value() && std::holds_alternative<JoinedAsHost>(**result);
  }
  [[nodiscard]] bool client() const {
    return result && result->has_value() && std::holds_alternative<JoinedAsClient>(**result);
  }
};

std::unique_ptr<Outcome> join(Loop& loop, Endpoint endpoint, std::optional<bool> is_host = {},
                              std::chrono::milliseconds timeout = 60s,
                              NodeDescription node = describe("n1")) {
  auto outcome = std::make_unique<Outcome>();
  outcome->handle = join_endpoint(
      loop.io, SearchRequest{{std::move(endpoint)}, std::move(node), is_host, timeout}, {},
      [o = outcome.get()](Result<Joined> r) { o->result.emplace(std::move(r)); }, loop.log);
  return outcome;
}

/// At the first of these, and then the others.
std::unique_ptr<Outcome> join_any(Loop& loop, std::vector<Endpoint> endpoints,
                                  NodeDescription node = describe("n1")) {
  auto outcome = std::make_unique<Outcome>();
  outcome->handle = join_endpoint(
      loop.io, SearchRequest{std::move(endpoints), std::move(node), {}, 60s}, {},
      [o = outcome.get()](Result<Joined> r) { o->result.emplace(std::move(r)); }, loop.log);
  return outcome;
}

std::unique_ptr<Coordinator> serve(Loop& loop, Fd listener) {
  CoordinatorOptions options;
  options.job_id = "job";
  options.min_nodes = options.max_nodes = 2;
  CoordinatorHooks hooks;
  hooks.open_store = [](AttemptNumber, const std::vector<std::string>&) {
    return Result<std::uint16_t>(std::uint16_t{1});
  };
  return Coordinator::create(loop.io, std::move(listener), options, hooks, loop.log);
}

/// A program that is not ours: says `words` to each connection, then stays or closes.
class Stranger {
 public:
  Stranger(Loop& loop, std::string words, bool closes)
      : listening_(listen_at("127.0.0.1", 0)), words_(std::move(words)), closes_(closes) {
    REQUIRE(listening_.socket);
    (void)loop;
  }
  [[nodiscard]] std::uint16_t port() const { return port_of(listening_.socket); }
  void serve() {
    Fd one(::accept(listening_.socket.get(), nullptr, nullptr));
    if (one) {
      (void)!::send(one.get(), words_.data(), words_.size(), MSG_NOSIGNAL);
      guests_.push_back(std::move(one));
    }
    // Half closed: to close over bytes that are unread, or still come, is a reset.
    for (const Fd& guest : guests_) {
      char bytes[1024];
      if (closes_ && ::recv(guest.get(), bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
        ::shutdown(guest.get(), SHUT_WR);
      }
    }
  }

 private:
  Listening listening_;
  std::string words_;
  bool closes_;
  std::vector<Fd> guests_;
};

}  // namespace

TEST_CASE("The first agent at a loopback endpoint hosts it, the second is its client") {
  for (const std::string host : {"127.0.0.1", "localhost", "::1"}) {
    Loop loop;
    const Endpoint endpoint{host, free_port()};
    const auto first = join(loop, endpoint);
    loop.until([&] { return first->result.has_value(); });
    REQUIRE(first->host());
    auto& as_host = std::get<JoinedAsHost>(**first->result);
    CHECK(as_host.bound.port == endpoint.port);
    const auto coordinator = serve(loop, std::move(as_host.listener));
    const auto second = join(loop, endpoint, {}, 60s, describe("n2"));
    loop.until([&] { return second->result.has_value(); });
    REQUIRE(second->client());
    CHECK(std::get<JoinedAsClient>(**second->result).peer ==
          to_text(Endpoint{host == "localhost" ? "127.0.0.1" : host, endpoint.port}));
  }
}

TEST_CASE("A joined client works on from where the join left the connection") {
  Loop loop;
  const Endpoint endpoint{"127.0.0.1", free_port()};
  Listening listening = listen_at("127.0.0.1", endpoint.port);
  REQUIRE(listening.socket);
  const auto coordinator = serve(loop, std::move(listening.socket));
  const auto a = join(loop, endpoint, {}, 60s, describe("n1"));
  const auto b = join(loop, endpoint, {}, 60s, describe("n2"));
  // Both are assigned at once, so the assignment is in the socket when the join is done.
  loop.until([&] { return a->client() && b->client(); });
  loop.run_for(20ms);
  struct Orders : OrdersIgnored {
    std::optional<World> world;
    void assign(const message::Assigned& order) override { world = order.world; }
  } orders;
  const auto client = CoordinatorClient::create(
      loop.io, std::move(std::get<JoinedAsClient>(**b->result).connection), message::Accepted{},
      describe("n2"), 3s, orders, loop.log);
  loop.until([&] { return orders.world.has_value(); });
  CHECK(orders.world->world_size == 2);
}

TEST_CASE("Two agents that start at once always end as one host and one client") {
  for (int i = 0; i < 50; ++i) {
    Loop loop;
    const Endpoint endpoint{"127.0.0.1", free_port()};
    const auto a = join(loop, endpoint, {}, 60s, describe("n1"));
    const auto b = join(loop, endpoint, {}, 60s, describe("n2"));
    std::unique_ptr<Coordinator> coordinator;
    loop.until([&] {
      for (Outcome* one : {a.get(), b.get()}) {
        if (one->host() && !coordinator) {
          coordinator = serve(loop, std::move(std::get<JoinedAsHost>(**one->result).listener));
        }
      }
      return a->result && b->result;
    });
    CHECK(a->host() + b->host() == 1);
    CHECK(a->client() + b->client() == 1);
  }
}

TEST_CASE("An agent at the first endpoint follows the coordinator that it finds at another one") {
  Loop loop;
  Listening silent = listen_at("127.0.0.1", 0);  // a stopped agent: it takes the connection
  Listening listening = listen_at("127.0.0.1", 0);
  const Endpoint first{"127.0.0.1", free_port()};
  const Endpoint third{"127.0.0.1", port_of(listening.socket)};
  const auto coordinator = serve(loop, std::move(listening.socket));
  const auto anew = join_any(loop, {first, {"127.0.0.1", port_of(silent.socket)}, third});
  loop.until([&] { return anew->result.has_value(); });
  REQUIRE(anew->client());
  const auto& as_client = std::get<JoinedAsClient>(**anew->result);
  CHECK(as_client.peer == to_text(third));
  CHECK_FALSE(as_client.at_endpoint);
}

TEST_CASE("An agent at the first endpoint hosts it when no other one knows of a coordinator") {
  Loop loop;
  const Endpoint first{"127.0.0.1", free_port()};
  std::vector<Endpoint> endpoints{first, {"127.0.0.1", free_port()}};
  Listening listening = listen_at("127.0.0.1", 0);
  const Endpoint other{"127.0.0.1", port_of(listening.socket)};
  std::shared_ptr<PeerListener> gate;
  std::unique_ptr<Coordinator> coordinator;
  auto node = describe("n1");
  SECTION("nobody is there") {}
  SECTION("somebody is there who does not answer") {
    endpoints.push_back(other);
  }
  SECTION("an agent that is seeking, too") {
    endpoints.push_back(other);
    gate = PeerListener::open(loop.io, std::move(listening.socket),
                              [](const message::Message&, const std::string&) {
                                return message::Moved{Term{3}, {}, 0};
                              },
                              {});
  }
  SECTION("an agent that does not know yet that the coordinator that was here is gone") {
    endpoints.push_back(other);
    gate = PeerListener::open(loop.io, std::move(listening.socket),
                              [&first](const message::Message&, const std::string&) {
                                return message::Moved{Term{3}, {"127.0.0.1"}, first.port};
                              },
                              {});
  }
  SECTION("another job is there") {
    endpoints.push_back(other);
    coordinator = serve(loop, std::move(listening.socket));
    node.job_id = "other";
  }
  const auto anew = join_any(loop, endpoints, node);
  loop.until([&] { return anew->result.has_value(); });
  REQUIRE(anew->host());
  CHECK(std::get<JoinedAsHost>(**anew->result).bound.port == first.port);
}

TEST_CASE("Port 0 takes any free port") {
  Loop loop;
  const auto a = join(loop, {"127.0.0.1", 0});
  loop.until([&] { return a->result.has_value(); });
  REQUIRE(a->host());
  CHECK(std::get<JoinedAsHost>(**a->result).bound.port != 0);
}

TEST_CASE("Who is told to host binds, who is told not to never does") {
  Loop loop;
  const Endpoint endpoint{"127.0.0.1", free_port()};
  const auto never = join(loop, endpoint, false, 300ms);
  loop.until([&] { return never->result.has_value(); });
  REQUIRE(never->result->has_error());
  const Error& error = never->result->error();
  CHECK(error.where == "127.0.0.1 port " + std::to_string(endpoint.port));
  CHECK_THAT(error.what,
             Catch::StartsWith("cannot reach the coordinator: connection refused, tried for "));
  CHECK(error.todo == "start the agent on that host, or check the endpoint's host and port");
  const auto must = join(loop, endpoint, true);
  loop.until([&] { return must->result.has_value(); });
  CHECK(must->host());
}

TEST_CASE("A client waits for a coordinator that comes late (I-1)") {
  Loop loop;
  const Endpoint endpoint{"127.0.0.1", free_port()};
  const auto early = join(loop, endpoint, false);
  loop.run_for(200ms);
  CHECK_FALSE(early->result);
  Listening listening = listen_at("127.0.0.1", endpoint.port);
  REQUIRE(listening.socket);
  const auto coordinator = serve(loop, std::move(listening.socket));
  loop.until([&] { return early->client(); });
}

TEST_CASE("A rejection is final and carries the coordinator's reason (I-2)") {
  Loop loop;
  Listening listening = listen_at("127.0.0.1", 0);
  const Endpoint endpoint{"127.0.0.1", port_of(listening.socket)};
  const auto coordinator = serve(loop, std::move(listening.socket));
  NodeDescription other = describe("n2");
  other.job_id = "other";
  const auto b = join(loop, endpoint, {}, 60s, other);
  loop.until([&] { return b->result.has_value(); });
  REQUIRE(b->result->has_error());
  CHECK(b->result->error().what ==
        "the coordinator rejected this node: this endpoint serves the job 'job', not 'other'");
}

TEST_CASE("A port of this machine that another program has is said to be taken (I-5)") {
  Loop loop;
  std::string words;
  bool closes = false;
  std::string expected;
  SECTION("it speaks otherwise") {
    words = "SSH-2.0-OpenSSH_9.2\r\n";
    expected = "an SSH server listens there, and it does not speak ddprun's protocol";
  }
  SECTION("it says a little and hangs up") {
    words = "no\n";
    closes = true;
    expected = "does not speak ddprun's protocol";
  }
  SECTION("it hangs up") {
    closes = true;
    expected = "closes the connection without an answer";
  }
  SECTION("it says nothing") {
    expected = "does not answer";
  }
  Stranger stranger(loop, words, closes);
  const auto a = join(loop, {"127.0.0.1", stranger.port()});
  loop.until(
      [&] {
        stranger.serve();
        return a->result.has_value();
      },
      12s);
  REQUIRE(a->result->has_error());
  CHECK(a->result->error().what.starts_with("port " + std::to_string(stranger.port()) +
                                            " is taken by another program"));
  CHECK_THAT(a->result->error().what, Catch::Contains(expected));
}

TEST_CASE("Who must host says that the port is taken") {
  Loop loop;
  Listening other = listen_at("127.0.0.1", 0);
  const auto a = join(loop, {"127.0.0.1", port_of(other.socket)}, true);
  loop.until([&] { return a->result.has_value(); });
  REQUIRE(a->result->has_error());
  CHECK(a->result->error().what.find("is taken by another program") != std::string::npos);
}

TEST_CASE("Another protocol version is named") {
  Loop loop;
  Stranger stranger(loop, preamble(99), false);
  const auto a = join(loop, {"127.0.0.1", stranger.port()}, false);
  loop.until([&] {
    stranger.serve();
    return a->result.has_value();
  });
  REQUIRE(a->result->has_error());
  CHECK(a->result->error().what.find("version 99") != std::string::npos);
}

TEST_CASE("A name that does not resolve is said so") {
  Loop loop;
  const auto a = join(loop, {"no-such-host.invalid", 29400}, {}, 500ms);
  loop.until([&] { return a->result.has_value(); }, 30s);
  REQUIRE(a->result->has_error());
  CHECK(a->result->error().where == "no-such-host.invalid port 29400");
  CHECK(a->result->error().what.find("cannot be resolved") != std::string::npos);
}

TEST_CASE("People are told what is waited for after some seconds") {
  Loop loop;
  const auto a = join(loop, {"127.0.0.1", free_port()}, false);
  loop.until([&] { return loop.logged("waiting for the coordinator at 127.0.0.1 port"); }, 8s);
  CHECK(loop.logged("connection refused, tried for"));
}

TEST_CASE("A join that is dropped never calls back") {
  Loop loop;
  bool called = false;
  auto handle = join_endpoint(
      loop.io, SearchRequest{{{"127.0.0.1", free_port()}}, describe("n1"), false, 60s}, {},
      [&](Result<Joined>) { called = true; }, loop.log);
  loop.run_for(100ms);
  handle.reset();
  loop.run_for(100ms);
  CHECK_FALSE(called);
}

TEST_CASE("Two agents that call one machine by different names meet (I-3)") {
  for (const std::string other : {"0.0.0.0", "::"}) {
    INFO(other);
    Loop loop;
    const std::uint16_t port = free_port();
    const auto first = join(loop, {"127.0.0.1", port});
    loop.until([&] { return first->result.has_value(); });
    REQUIRE(first->host());
    auto& as_host = std::get<JoinedAsHost>(**first->result);
    CHECK(as_host.note.find("only agents on this one come here") != std::string::npos);
    const auto coordinator = serve(loop, std::move(as_host.listener));
    const auto second = join(loop, {other, port}, {}, 60s, describe("n2"));
    loop.until([&] { return second->result.has_value(); });
    CHECK(second->client());
  }
}

TEST_CASE("A PyTorch store on the port is called by its name (I-1)") {
  Loop loop;
  boost::asio::io_context& io = loop.io;
  auto store = StoreServer::listen(io, 0);
  REQUIRE(store.has_value());
  const auto a = join(loop, {"127.0.0.1", (*store)->port()}, false, 8s);
  loop.until([&] { return loop.logged("a PyTorch store"); }, 12s);
  CHECK_FALSE(a->client());
}

TEST_CASE("Own addresses are recognised by the interfaces, not by names (I-3)") {
  CHECK(is_own_address("127.0.0.1"));
  CHECK(is_own_address("127.3.2.1"));
  CHECK(is_own_address("::1"));
  CHECK(is_own_address("::ffff:127.0.0.1"));
  CHECK(is_own_address("0.0.0.0"));
  CHECK(is_own_address("::"));
  CHECK_FALSE(is_own_address("192.0.2.1"));
  CHECK_FALSE(is_own_address("2001:db8::1"));
  CHECK_FALSE(is_own_address("localhost"));
}
