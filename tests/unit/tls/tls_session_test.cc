#include "rendezvous/tls/tls_session.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/certificates.h"
#include "tests/support/skip.h"

using namespace ddprun;
using ddprun::test::authority;
using ddprun::test::Certificates;

namespace {

std::shared_ptr<const TlsContext> context_of(const TlsFiles& files) {
  auto made = TlsContext::make_mutual(files);
  REQUIRE(made.has_value());
  return *made;
}

/// Two sessions against each other; what each says is cut into pieces on its way.
struct Pair {
  TlsSession client;
  TlsSession server;
  std::string to_client;  ///< plain text that came
  std::string to_server;
  std::size_t piece = 4'096;

  Pair(const TlsFiles& of_client, const TlsFiles& of_server)
      : client(context_of(of_client), TlsSide::connects),
        server(context_of(of_server), TlsSide::accepts) {}

  static bool pass(TlsSession& from, TlsSession& to, std::string& plain, std::size_t piece) {
    const std::string bytes = from.take_output();
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      to.receive(std::string_view(bytes).substr(at, piece), plain);
    }
    return !bytes.empty();
  }

  /// Until neither says anything more.
  void run() {
    bool said = true;
    while (said) {
      said = pass(client, server, to_server, piece);
      said = pass(server, client, to_client, piece) || said;
    }
  }
};

}  // namespace

TEST_CASE("two agents of one authority talk, whatever the pieces that arrive", "[tls]") {
  NEEDS_OPENSSL();
  Pair pair(authority().issue("one"), authority().issue("two"));
  pair.piece = GENERATE(1, 7, 100'000);
  pair.run();
  REQUIRE(pair.client.is_established());
  REQUIRE(pair.server.is_established());
  // More than fits in one record, and in what a session keeps.
  const std::string large(1'000'000, 'x');
  pair.client.send("from the client");
  pair.server.send(large);
  pair.run();
  CHECK(pair.to_server == "from the client");
  CHECK(pair.to_client == large);
  CHECK(pair.client.failure().empty());
  CHECK_FALSE(pair.server.failed_by_certificate());
}

TEST_CASE("what comes right behind the handshake is not lost", "[tls]") {
  NEEDS_OPENSSL();
  const TlsFiles files = authority().issue("one");
  Pair pair(files, files);
  Pair::pass(pair.client, pair.server, pair.to_server, pair.piece);
  Pair::pass(pair.server, pair.client, pair.to_client, pair.piece);
  REQUIRE(pair.client.is_established());
  REQUIRE_FALSE(pair.server.is_established());
  pair.client.send("hello");  // with the client's last part of the handshake, in one piece
  Pair::pass(pair.client, pair.server, pair.to_server, 100'000);
  CHECK(pair.server.is_established());
  CHECK(pair.to_server == "hello");
}

TEST_CASE("each side learns why the other one is not trusted", "[tls]") {
  NEEDS_OPENSSL();
  const Certificates others("others");
  const TlsFiles good = authority().issue("one");
  const TlsFiles alien = others.issue("alien");
  const TlsFiles expired = authority().issue("expired", -1);
  const TlsFiles pretends{good.ca, alien.certificate, alien.key};

  Pair unknown(pretends, good);
  unknown.run();
  CHECK(unknown.server.failure() ==
        "its certificate is not trusted: unable to get local issuer certificate");
  CHECK(unknown.client.failure() == "it does not trust this agent's certificate: unknown ca");
  CHECK(unknown.client.failed_by_certificate());
  CHECK(unknown.server.failed_by_certificate());

  // An authority of the same name, which was made anew.
  const Certificates again;
  const TlsFiles former = again.issue("former");
  Pair renamed({good.ca, former.certificate, former.key}, good);
  renamed.run();
  CHECK(renamed.server.failure() ==
        "its certificate is not trusted: certificate signature failure");
  CHECK(renamed.client.failure() == "it does not trust this agent's certificate: decrypt error");

  Pair late(expired, good);
  late.run();
  CHECK(late.server.failure() == "its certificate is not trusted: certificate has expired");
  CHECK(late.client.failure() == "it does not trust this agent's certificate: certificate expired");

  Pair listener_is_late(good, expired);
  listener_is_late.run();
  CHECK(listener_is_late.client.failure() ==
        "its certificate is not trusted: certificate has expired");
  CHECK(listener_is_late.server.failure() ==
        "it does not trust this agent's certificate: certificate expired");
  CHECK_FALSE(listener_is_late.client.is_established());
}

TEST_CASE("who shows no certificate is told, and is no agent", "[tls]") {
  NEEDS_OPENSSL();
  const TlsFiles good = authority().issue("one");
  const auto client_context = TlsContext::make({.ca = good.ca});
  REQUIRE(client_context.has_value());
  TlsSession client(*client_context, "one");
  TlsSession server(context_of(good), TlsSide::accepts);
  std::string plain;
  for (int i = 0; i < 3; ++i) {
    Pair::pass(client, server, plain, 4'096);
    Pair::pass(server, client, plain, 4'096);
  }
  CHECK_FALSE(server.is_established());
  CHECK(server.failure() == "it shows no certificate");
  CHECK(client.failure().find("it does not take this client's certificate, or misses one") !=
        std::string::npos);
}

TEST_CASE("garbage, a cut record and a changed byte end a session with a reason", "[tls]") {
  NEEDS_OPENSSL();
  const TlsFiles good = authority().issue("one");
  std::string plain;
  TlsSession garbled(context_of(good), TlsSide::accepts);
  garbled.receive("DDPRUN is no TLS at all", plain);
  CHECK(garbled.failure() == "it does not speak TLS");
  CHECK_FALSE(garbled.failed_by_certificate());

  TlsSession cut(context_of(good), TlsSide::accepts);
  TlsSession client(context_of(good), TlsSide::connects);
  const std::string hello = client.take_output();
  cut.receive(std::string_view(hello).substr(0, hello.size() / 2), plain);
  CHECK(cut.failure().empty());
  CHECK_FALSE(cut.is_established());

  Pair pair(good, good);
  pair.run();
  pair.client.send("the job's secret");
  std::string bytes = pair.client.take_output();
  CHECK(bytes.find("secret") == std::string::npos);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  pair.server.receive(bytes, pair.to_server);
  CHECK_FALSE(pair.server.failure().empty());
  CHECK(pair.to_server.empty());
}

TEST_CASE("a version before TLS 1.3 is refused among agents", "[tls]") {
  NEEDS_OPENSSL();
  TlsSession server(context_of(authority().issue("one")), TlsSide::accepts);
  // A hello of TLS 1.2: no supported_versions (RFC 5246, 7.4.1.2).
  std::string hello("\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03", 11);
  hello += std::string(32, 'r') + std::string("\x00\x00\x02\xc0\x2b\x01\x00", 7);
  std::string plain;
  server.receive(hello, plain);
  CHECK(server.failure().find("unsupported protocol") != std::string::npos);
}
