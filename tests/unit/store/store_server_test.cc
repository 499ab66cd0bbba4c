// A real server and real sockets: many connections, slow and silent ones, the C++ client.
#include "rendezvous/store/store_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/store/store_client.h"
#include "rendezvous/store/store_protocol.h"
#include "tests/unit/store/hex.h"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace proto = ddprun::store_protocol;

namespace {

/// A server on a thread of its own; destroyed on that thread.
struct RunningServer {
  RunningServer() {
    auto listening = StoreServer::listen(io, 0);
    REQUIRE(listening.has_value());
    server = std::move(*listening);
    port = server->port();
    thread = std::thread([this] { io.run(); });
  }
  ~RunningServer() {
    boost::asio::post(io, [this] {
      server.reset();
      work.reset();
    });
    thread.join();
  }
  StoreClient client(StoreClient::Timeout timeout = 20s) const {
    auto connected = StoreClient::connect({"127.0.0.1", port}, timeout);
    REQUIRE(connected.has_value());
    return std::move(*connected);
  }
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  std::unique_ptr<StoreServer> server;
  std::uint16_t port = 0;
  std::thread thread;
};

Fd raw_connection(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

/// What comes within 10 s, up to `size` bytes; less when the peer closes.
std::string receive(int fd, std::size_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    pollfd entry{fd, POLLIN, 0};
    char buffer[65536];
    if (::poll(&entry, 1, 10'000) <= 0) {
      break;
    }
    const ssize_t got = ::recv(fd, buffer, std::min(sizeof buffer, size - bytes.size()), 0);
    if (got <= 0) {
      break;
    }
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
  return bytes;
}

void send_all(int fd, const std::string& bytes) {
  REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

}  // namespace

TEST_CASE("the client does every operation on a real server") {
  RunningServer server;
  auto a = server.client();
  REQUIRE(a.set("k", "v1"));
  CHECK(*a.get("k") == "v1");
  CHECK(*a.compare_set("k", "v1", "v2") == "v2");
  CHECK(*a.compare_set("k", "zz", "v3") == "v2");
  CHECK(*a.add("n", 5) == 5);
  CHECK(*a.add("n", -7) == -2);
  CHECK(*a.check({"k", "n"}));
  CHECK_FALSE(*a.check({"k", "gone"}));
  CHECK(*a.num_keys() == 2);
  REQUIRE(a.append("k", "zz"));
  CHECK(*a.get("k") == "v2zz");
  REQUIRE(a.multi_set({{"x", "1"}, {"y", ""}}));
  CHECK(*a.multi_get({"x", "y"}) == std::vector<std::string>{"1", ""});
  CHECK(*a.delete_key("x"));
  CHECK_FALSE(*a.delete_key("x"));
  REQUIRE(a.queue_push("q", "first"));
  REQUIRE(a.queue_push("q", "second"));
  CHECK(*a.queue_len("q") == 2);
  CHECK(*a.queue_pop("q") == "first");
  CHECK(*a.queue_pop("q") == "second");
  CHECK_FALSE(a.queue_try_pop("q")->has_value());
  auto names = *a.list_keys();
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"k", "n", "y"});
  const std::string large(proto::kValueBytesMax, 'L');
  REQUIRE(a.set("large", large));
  CHECK(*a.get("large") == large);
}

TEST_CASE("a get waits for another client's set") {
  RunningServer server;
  auto reader = server.client();
  auto value = std::async(std::launch::async, [&] { return reader.get("late"); });
  auto writer = server.client();
  REQUIRE(writer.set("late", "here"));
  const auto got = value.get();
  REQUIRE(got.has_value());
  CHECK(*got == "here");
}

TEST_CASE("a wait that times out is taken back and the client goes on") {
  RunningServer server;
  auto client = server.client();
  CHECK_FALSE(client.wait({"never"}, 20ms).has_value());
  CHECK(client.timed_out());
  REQUIRE(client.set("k", "v"));
  CHECK(*client.get("k") == "v");
  // The race: keys that appear at about the moment of the timeout.
  auto other = server.client();
  for (int i = 0; i < 200; ++i) {
    const std::string key = "race" + std::to_string(i);
    auto setter = std::async(std::launch::async, [&] { return other.set(key, "v").has_value(); });
    (void)client.wait({key}, std::chrono::milliseconds(i % 2));
    CHECK(setter.get());
    CHECK(*client.get(key) == "v");
  }
}

TEST_CASE("a barrier of several clients ends for all of them") {
  RunningServer server;
  std::vector<std::future<bool>> done;
  for (int i = 0; i < 4; ++i) {
    done.push_back(std::async(std::launch::async, [&server] {
      auto client = StoreClient::connect({"127.0.0.1", server.port}, 20s);
      return client && client->barrier("b", 4, 20s).has_value();
    }));
  }
  for (auto& one : done) {
    CHECK(one.get());
  }
}

TEST_CASE("nobody listening is said with host, port and how long was tried") {
  const auto client = StoreClient::connect({"127.0.0.1", 1}, 100ms);
  REQUIRE_FALSE(client.has_value());
  CHECK(client.error().sentence().find("127.0.0.1:1") != std::string::npos);
  CHECK(client.error().sentence().find("refused") != std::string::npos);
}

TEST_CASE("a thousand silent connections and garbage do not slow the others down") {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2'200) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4'096);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  RunningServer server;
  auto client = server.client();
  const auto rounds = [&client] {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 500; ++i) {
      REQUIRE(client.add("n", 1).has_value());
    }
    return std::chrono::steady_clock::now() - begin;
  };
  const auto alone = std::min({rounds(), rounds(), rounds()});
  std::vector<Fd> silent;
  for (int i = 0; i < 1'000; ++i) {
    silent.push_back(raw_connection(server.port));
  }
  for (int i = 0; i < 20; ++i) {
    Fd garbage = raw_connection(server.port);
    send_all(garbage.get(), "GET / HTTP/1.1\r\n\r\n");
    CHECK(receive(garbage.get(), 1).empty());  // closed
  }
  const auto crowded = std::min({rounds(), rounds(), rounds()});
  CHECK(crowded < 5 * alone);
}

TEST_CASE("a reader that does not read is held back alone") {
  RunningServer server;
  auto client = server.client();
  REQUIRE(client.set("big", std::string(1024 * 1024, 'b')));
  REQUIRE(client.get("big"));  // a set has no answer: now it has arrived
  Fd slow = raw_connection(server.port);
  std::string requests = from_hex("00 cef7853c");
  constexpr int kGets = 40;
  for (int i = 0; i < kGets; ++i) {
    requests += from_hex("03 0400000000000000 2f626967");
  }
  send_all(slow.get(), requests);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(client.add("n", 1).has_value());
  }
  // It gets all of it as soon as it reads.
  CHECK(receive(slow.get(), kGets * (8 + 1024 * 1024)).size() == kGets * (8u + 1024u * 1024u));
}

TEST_CASE("a client that goes away in the middle of a request or a wait leaves nothing behind") {
  RunningServer server;
  {
    Fd half = raw_connection(server.port);
    send_all(half.get(), from_hex("00 cef7853c 01 0400000000000000 2f68"));
    Fd waiting = raw_connection(server.port);
    send_all(waiting.get(), from_hex("00 cef7853c 06 0100000000000000 0200000000000000 2f68"));
  }
  auto client = server.client();
  REQUIRE(client.set("h", "v"));
  CHECK(*client.num_keys() == 1);  // in order on one connection
}

TEST_CASE("a key space without a port serves the connections it is given") {
  boost::asio::io_context io;
  auto server = StoreServer::without_port(io);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd client(ends[0]);
  server->adopt(Fd(ends[1]), from_hex("00 cef7853c 0d"));
  send_all(client.get(), from_hex("45230100"));
  std::string reply;
  for (int turn = 0; turn < 100 && reply.size() < 4; ++turn) {
    io.poll();
    char buffer[16];
    const ssize_t got = ::recv(client.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) {
      reply.append(buffer, static_cast<std::size_t>(got));
    }
  }
  CHECK(to_hex(reply) == "45230100");
}
