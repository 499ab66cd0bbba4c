// A real server and real sockets: many connections, slow and silent ones, the C++ client.
#include "rendezvous/store/store_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/store/store_client.h"
#include "rendezvous/store/store_protocol.h"
#include "tests/unit/store/hex.h"
#include "tests/unit/store/verified_rows.h"

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

TEST_CASE("requests pipelined far beyond the limit of one reply are all answered") {
  RunningServer server;
  auto client = server.client();
  REQUIRE(client.set("big", std::string(proto::kValueBytesMax, 'b')));
  REQUIRE(client.get("big"));
  Fd reader = raw_connection(server.port);
  std::string requests = from_hex("00 cef7853c");
  constexpr std::size_t kGets = 40;
  for (std::size_t i = 0; i < kGets; ++i) {
    requests += from_hex("03 0400000000000000 2f626967");
  }
  requests += from_hex("0d 45230100");
  send_all(reader.get(), requests);
  std::size_t left = kGets * (8 + proto::kValueBytesMax);
  while (left > 0) {
    const auto got = receive(reader.get(), std::min<std::size_t>(left, 1024 * 1024)).size();
    REQUIRE(got > 0);
    left -= got;
  }
  CHECK(to_hex(receive(reader.get(), 4)) == "45230100");
}

TEST_CASE("a peer that has sent its last still gets its answers") {
  boost::asio::io_context io;
  auto server = StoreServer::without_port(io);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd peer(ends[0]);
  // Below the limit at which reading stops, and more than the pair takes at once: the server sees
  // the end while it still owes.
  const int small = 4096;
  ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  std::string set = from_hex("00 cef7853c 01 0400000000000000 2f626967");
  const std::string value(512 * 1024, 'v');
  proto::put_bytes(set, value);
  server->adopt(Fd(ends[1]), set);
  send_all(peer.get(), from_hex("03 0400000000000000 2f626967"));
  REQUIRE(::shutdown(peer.get(), SHUT_WR) == 0);
  std::size_t got = 0;
  ssize_t size = -1;
  const auto limit = std::chrono::steady_clock::now() + 10s;
  while (size != 0 && std::chrono::steady_clock::now() < limit) {
    io.poll();
    char buffer[65536];
    size = ::recv(peer.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    got += size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  CHECK(got == 8 + value.size());
  CHECK(size == 0);  // then it is closed
}

TEST_CASE("no socket of the server is inherited by a worker") {
  const auto sockets = [] {
    std::set<int> found;
    for (int fd = 0; fd < 1'024; ++fd) {
      struct stat file {};
      if (::fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode)) {
        found.insert(fd);
      }
    }
    return found;
  };
  const auto before = sockets();
  RunningServer server;
  auto client = server.client();
  int ours = 0;
  for (const int fd : sockets()) {
    if (!before.contains(fd)) {
      ++ours;
      CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    }
  }
  CHECK(ours == 3);  // listening, accepted, and the client's end
}

TEST_CASE("a server without descriptors waits for one, and does not spin") {
  RunningServer server;
  auto client = server.client();
  REQUIRE(client.add("n", 1).has_value());
  Fd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(::dup(0));  // the lowest free one: from there on, none
  ::close(static_cast<int>(none.rlim_cur));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool connected =
      ::connect(late.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  rusage begin{};
  ::getrusage(RUSAGE_SELF, &begin);
  pollfd entry{late.get(), POLLIN, 0};
  const int answered = ::poll(&entry, 1, 400);
  rusage end{};
  ::getrusage(RUSAGE_SELF, &end);
  const bool others_served = client.add("n", 1).has_value();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(connected);
  CHECK(answered == 0);
  CHECK(others_served);
  const auto cpu_us = [](const rusage& usage) {
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  CHECK(cpu_us(end) - cpu_us(begin) < 200'000);
  send_all(late.get(), from_hex("00 cef7853c 0d 45230100"));
  CHECK(to_hex(receive(late.get(), 4)) == "45230100");
}

#ifndef DDPRUN_SANITIZED
TEST_CASE("an idle connection costs less than 2 KiB, whatever it has sent before") {
  RunningServer server;
  auto client = server.client();
  constexpr int kConnections = 200;
  const std::string large(256 * 1024, 'x');
  REQUIRE(client.set("large", large));
  REQUIRE(client.add("n", 1).has_value());  // a set has no answer: now it has arrived
  std::string requests = from_hex("00 cef7853c 01");
  proto::put_bytes(requests, "/large");
  proto::put_bytes(requests, large);
  requests += from_hex("03 0600000000000000 2f6c61726765");
  std::vector<Fd> idle(kConnections);
  const auto make_all = [&] {
    for (Fd& fd : idle) {
      fd = raw_connection(server.port);
      send_all(fd.get(), requests);
      REQUIRE(receive(fd.get(), 8 + large.size()).size() == 8 + large.size());
    }
    REQUIRE(client.add("n", 1).has_value());
  };
  const std::size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  make_all();
  const std::size_t after = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  INFO((after - before) / kConnections << " bytes per connection");
  CHECK(after - before < kConnections * 2'048u);
}
#endif

namespace {

/// Listens, shakes hands with one client, then answers as it is told: a server that is not ours.
struct ScriptedServer {
  /// `replies`: what is sent after each further arrival of bytes.
  explicit ScriptedServer(std::vector<std::string> replies)
      : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener.get(), 8) == 0);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread = std::thread([this, script = std::move(replies)] {
      const Fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char bytes[4096];
      if (::recv(peer.get(), bytes, 10, MSG_WAITALL) != 10 ||
          ::send(peer.get(), bytes + 6, 4, MSG_NOSIGNAL) != 4) {
        return;
      }
      for (std::size_t i = 0; ::recv(peer.get(), bytes, sizeof bytes, 0) > 0; ++i) {
        if (i < script.size()) {
          (void)!::send(peer.get(), script[i].data(), script[i].size(), MSG_NOSIGNAL);
        }
      }
    });
  }
  ~ScriptedServer() { thread.join(); }  // after its client
  StoreClient client() const {
    auto connected = StoreClient::connect({"127.0.0.1", port}, 20s);
    REQUIRE(connected.has_value());
    return std::move(*connected);
  }
  Fd listener;
  std::uint16_t port = 0;
  std::thread thread;
};

}  // namespace

TEST_CASE("a wait whose end crosses its cancellation has succeeded, and the stream is in step") {
  ScriptedServer server({"", from_hex("00 01"), from_hex("0700000000000000")});
  auto client = server.client();
  CHECK(client.wait({"k"}, 30ms).has_value());
  CHECK_FALSE(client.timed_out());
  CHECK(*client.num_keys() == 7);
}

TEST_CASE("a wait on a server that has died silently ends soon after its timeout") {
  ScriptedServer server({});
  auto client = server.client();  // its other calls may take 20 s
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(client.wait({"k"}, 50ms).has_value());
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  // What the server says later belongs to nobody: the client has given the connection up.
  CHECK_FALSE(client.num_keys().has_value());
}

TEST_CASE("keys and values beyond the limits are refused before anything is sent") {
  RunningServer server;
  auto client = server.client();
  const std::string longest(proto::kKeyBytesMax - 1, 'k');  // and the '/' in front
  CHECK(client.set(longest, "v").has_value());
  CHECK_FALSE(client.set(longest + "k", "v").has_value());
  CHECK_FALSE(client.get(longest + "k").has_value());
  CHECK(client.set("k", std::string(proto::kValueBytesMax, 'v')).has_value());
  CHECK_FALSE(client.set("k", std::string(proto::kValueBytesMax + 1, 'v')).has_value());
  CHECK_FALSE(client.multi_set({{"a", "1"}, {longest + "k", "2"}}).has_value());
  CHECK_FALSE(client.check(std::vector<std::string>(proto::kKeysMax + 1, "k")).has_value());
  CHECK(*client.num_keys() == 2);  // still connected, and nothing of the refused has arrived
}

TEST_CASE("a get with no time left takes what is there and misses what is not") {
  RunningServer server;
  auto client = server.client();
  REQUIRE(client.set("empty", ""));
  REQUIRE(client.set("full", "v"));
  CHECK(*client.get("full", 0ms) == "v");
  CHECK(client.get("empty", 0ms)->empty());
  CHECK_FALSE(client.get("missing", 0ms).has_value());
  CHECK(client.timed_out());
  CHECK(*client.get("full", std::chrono::milliseconds::max()) == "v");
}

TEST_CASE("every verified row is answered over a socket, glued together and a byte at a time") {
  for (const auto* rows : {&kLegacyRows, &kModernRows}) {
    std::string requests;
    std::string replies;
    for (const Row& row : *rows) {
      requests += from_hex(row.request);
      replies += from_hex(row.reply);
    }
    for (const bool in_bytes : {false, true}) {
      RunningServer server;
      const Fd peer = raw_connection(server.port);
      const int on = 1;
      REQUIRE(::setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
      for (std::size_t at = 0; at < requests.size(); at += in_bytes ? 1 : requests.size()) {
        send_all(peer.get(), in_bytes ? requests.substr(at, 1) : requests);
      }
      CHECK(to_hex(receive(peer.get(), replies.size())) == to_hex(replies));
    }
  }
}

TEST_CASE("what is no request closes its own connection over a socket, and no other") {
  RunningServer server;
  auto client = server.client();
  for (const char* garbage :
       {"ffffffff", "07 0200000000000000 2f70", "00 cef7853c 63", "00 cef7853c 00 cef7853c",
        "00 cef7853c 01 0120000000000000", "00 cef7853c 06 0100020000000000"}) {
    INFO(garbage);
    const Fd peer = raw_connection(server.port);
    send_all(peer.get(), from_hex(garbage));
    pollfd entry{peer.get(), POLLIN, 0};
    CHECK(::poll(&entry, 1, 10'000) == 1);
    char byte = 0;
    CHECK(::recv(peer.get(), &byte, 1, 0) <= 0);
    CHECK(client.add("n", 1).has_value());
  }
}
