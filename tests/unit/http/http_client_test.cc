// HttpClient over real connections, against a server that says what a test wants.
#include "rendezvous/http/http_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/tls/tls_context.h"
#include "tests/support/skip.h"

using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

/// Takes one connection after the other; in each it reads a question and writes the next of that
/// connection's answers. An empty answer closes the connection. What stands behind a \f is written
/// again and again, until the client closes. Then it waits for the other end.
class Server {
 public:
  explicit Server(std::vector<std::vector<std::string>> connections)
      : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
        thread_([this, connections = std::move(connections)] { serve(connections); }) {}
  ~Server() { thread_.join(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  /// Heads of the questions; once the client has gone.
  std::vector<std::string> asked;

 private:
  void serve(const std::vector<std::vector<std::string>>& connections) {
    for (const auto& answers : connections) {
      tcp::socket socket = acceptor_.accept();
      boost::system::error_code failed;
      std::string bytes;
      for (const std::string& answer : answers) {
        const std::size_t size =
            asio::read_until(socket, asio::dynamic_buffer(bytes), "\r\n\r\n", failed);
        if (failed) {
          break;  // the client has gone
        }
        asked.push_back(bytes.substr(0, size));
        bytes.erase(0, size);
        const std::size_t flood = answer.find('\f');
        asio::write(socket, asio::buffer(answer.substr(0, flood)), failed);
        while (flood != std::string::npos && !failed) {
          asio::write(socket, asio::buffer(answer.substr(flood + 1)), failed);
        }
        if (answer.empty() || answer.find("Connection: close") != std::string::npos) {
          break;
        }
      }
      if (!answers.empty() && answers.back() == "...") {
        char rest = 0;  // until the client gives up
        asio::read(socket, asio::buffer(&rest, 1), failed);
      }
    }
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

std::string ok(const std::string& body, const std::string& headers = {}) {
  return "HTTP/1.1 200 OK\r\n" + headers + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

struct Asker {
  explicit Asker(HttpService service) : client(io, std::move(service)) {}
  explicit Asker(std::uint16_t port) : Asker(HttpService{{"127.0.0.1", port}}) {}

  Result<HttpReply> ask(HttpCall call = {.target = "/x", .patience = 5s}) {
    std::optional<Result<HttpReply>> answer;
    client.ask(std::move(call), [&](const Result<HttpReply>& said) { answer = said; });
    io.restart();
    while (!answer && io.run_one() > 0) {
    }
    REQUIRE(answer.has_value());
    return *answer;
  }

  asio::io_context io;
  HttpClient client;
};

}  // namespace

TEST_CASE("questions go over one connection, each with what it has to say") {
  Server server({{ok("one", "ETag: 7\r\n"), ok("two")}});
  {
    Asker asker(server.port());
    const auto first = asker.ask({"PUT", "/a?b", {{"X-Y", "z"}}, "body"});
    REQUIRE(first.has_value());
    CHECK((first->status == 200 && first->body == "one" && first->header("etag") == "7"));
    CHECK(first->header("none").empty());
  }
  Server other({{ok("one"), ok("two")}});
  {
    Asker asker(other.port());
    CHECK(asker.ask().value().body == "one");
    CHECK(asker.ask().value().body == "two");
  }
}

TEST_CASE("a connection that was closed while it was idle is made anew, a silent one is not") {
  Server server({{ok("one"), ""}, {ok("two")}});
  Asker asker(server.port());
  CHECK(asker.ask().value().body == "one");
  CHECK(asker.ask().value().body == "two");
  Server silent({{ok("one"), "..."}});
  Asker other(silent.port());
  CHECK(other.ask().value().body == "one");
  const auto begun = std::chrono::steady_clock::now();
  const auto none = other.ask({.target = "/", .patience = 100ms});
  REQUIRE(none.has_error());
  CHECK(none.error().what == "no answer came in time");
  CHECK(none.error().where == "http://127.0.0.1:" + std::to_string(silent.port()));
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
}

TEST_CASE("answers of every form are read, and no more of them than is wanted") {
  Server server({{"HTTP/1.1 100 Continue\r\n\r\n" + ok("late")},
                 {"HTTP/1.0 200 OK\r\n\r\nto the end"},
                 {ok("x") + "HTTP/1.1 200 OK\r\n"},
                 {ok("own")},
                 {ok(std::string(70'000, 'x'))},
                 {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"},
                 {""},
                 {"hello\r\n\r\n"}});
  Asker asker(server.port());
  CHECK(asker.ask().value().body == "late");
  Asker old(server.port());
  CHECK(old.ask().value().body == "to the end");
  CHECK(old.ask().value().body == "x");
  CHECK(old.ask().value().body == "own");  // what came behind the answer before is none
  CHECK(Asker(server.port()).ask().error().what == "body limit exceeded");
  CHECK(Asker(server.port()).ask().error().what.find("closed the connection") == 3);
  CHECK(Asker(server.port()).ask().error().what.find("closed the connection") == 3);
  CHECK(Asker(server.port()).ask().has_error());
}

TEST_CASE("a server that never stops sending takes neither time nor memory without bound") {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string many(1'000, 'e');
  Server server({{"\fHTTP/1.1 100 Continue\r\n\r\n"},
                 {chunked + "1;\f" + many},
                 {chunked + "0\r\n\f" + many}});
  Asker asker(server.port());
  const auto interim = asker.ask({.target = "/x", .patience = 300ms});
  REQUIRE_FALSE(interim.has_value());
  CHECK(interim.error().what == "no answer came in time");
  CHECK_FALSE(asker.ask({.target = "/x", .patience = 60s}).has_value());
  CHECK_FALSE(asker.ask({.target = "/x", .patience = 60s}).has_value());
}

TEST_CASE("a header that no request can have is an error, and the client goes on") {
  Server server({{ok("later")}});
  Asker asker(server.port());
  const auto ask = [&](std::string value) {
    return asker.ask({.target = "/x", .headers = {{"Authorization", std::move(value)}}});
  };
  const auto large = ask(std::string(70'000, 'a'));
  REQUIRE_FALSE(large.has_value());
  CHECK(large.error().what == "the header Authorization would have 70000 bytes, more than 32768");
  CHECK_FALSE(ask("a\r\nHost: other").has_value());
  const auto fine = ask("Bearer a");
  REQUIRE(fine.has_value());
  CHECK(fine->body == "later");
}

TEST_CASE("a host of several addresses is asked at the one that answers") {
  Server server({{ok("here")}});
  // As in /etc/hosts: localhost is ::1, too, where nobody listens.
  Asker asker(HttpService{{"localhost", server.port()}});
  CHECK(asker.ask().value().body == "here");
  Asker nowhere(HttpService{{"no-such-host.invalid", 80}});
  CHECK(nowhere.ask().has_error());
}

TEST_CASE("a server that ends a connection within the TLS handshake may speak no TLS") {
  const auto tls = TlsContext::make({});
  if (!tls) {
    SKIP_TEST("program", tls.error().what);
  }
  // A connection that still has unread bytes is reset when it is closed.
  const bool resets = GENERATE(false, true);
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::thread server([&] {
    tcp::socket socket = acceptor.accept();
    socket.set_option(asio::socket_base::linger(resets, 0));
  });
  Asker asker(HttpService{{"127.0.0.1", acceptor.local_endpoint().port()}, *tls});
  const auto answer = asker.ask();
  server.join();
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().what ==
        "it closed the connection within the TLS handshake; maybe it speaks no TLS");
}

TEST_CASE("who destroys a client hears nothing of its question any more") {
  Server server({{"..."}});
  asio::io_context io;
  auto client = std::make_unique<HttpClient>(io, HttpService{{"127.0.0.1", server.port()}});
  client->ask({.target = "/"}, [](const Result<HttpReply>&) { FAIL("it is gone"); });
  io.run_one();
  client.reset();
  io.run();
}

}  // namespace ddprun
