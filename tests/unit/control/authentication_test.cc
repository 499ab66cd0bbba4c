#include "rendezvous/control/authentication.h"

#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/connection.h"
#include "rendezvous/control/job_tls.h"
#include "rendezvous/control/job_token.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/protocol/message_codec.h"
#include "tests/support/certificates.h"
#include "tests/support/skip.h"
#include "tests/unit/control/job.h"
#include "tests/unit/control/loop.h"

using namespace ddprun;
using ddprun::test::authority;
using ddprun::test::Certificates;
using Who = AuthenticationOutcome::Who;

namespace {

std::shared_ptr<JobTls> tls_of(const TlsFiles& files) {
  auto made = TlsContext::make_mutual(files);
  REQUIRE(made.has_value());
  return std::make_shared<JobTls>(std::move(*made));
}

std::shared_ptr<const JobToken> token_of(const std::string& secret) {
  auto made = JobToken::from(secret, "test");
  REQUIRE(made.has_value());
  return std::make_shared<const JobToken>(std::move(*made));
}

/// One connection: the guest's end, and the host's.
struct Ends : AuthenticationOwner {
  static constexpr std::uint64_t kGuest = 1;  ///< what the host learns of it
  static constexpr std::uint64_t kHost = 2;

  Loop loop;
  Fd guest;
  Fd host;
  std::map<std::uint64_t, AuthenticationOutcome> outcomes;
  Authentication of_guest;
  Authentication of_host;

  Ends() {
    Listening here = listen_ephemeral("127.0.0.1", {});
    REQUIRE(here.socket);
    guest = connect_to("127.0.0.1", port_of(here.socket));
    host = Fd(::accept(here.socket.get(), nullptr, nullptr));
    REQUIRE(host);
  }

  void listen(const Credentials& credentials) {
    of_guest = authenticate_guest(loop.io, std::move(host), credentials, *this, kGuest);
  }
  void both(const Credentials& of_who_connects, const Credentials& of_who_listens) {
    listen(of_who_listens);
    of_host = authenticate_host(loop.io, std::move(guest), of_who_connects, *this, kHost);
  }
  AuthenticationOutcome& wait(std::uint64_t id) {
    loop.until([&] { return outcomes.contains(id); });
    return outcomes.at(id);
  }

 private:
  void on_authenticated(std::uint64_t id, AuthenticationOutcome outcome) override {
    outcomes[id] = std::move(outcome);
  }
};

/// Both ends of a connection over TLS.
struct Talk : private ConnectionHandler {
  std::vector<message::Message> said[3];
  std::optional<CloseReason> ended[3];
  std::shared_ptr<Connection> end[3];

  Talk(Ends& ends, std::chrono::milliseconds timeout = 2'000ms) {
    for (const std::uint64_t id : {Ends::kGuest, Ends::kHost}) {
      ConnectionOptions how;
      how.expect_preamble = false;
      how.heartbeat_timeout = timeout;
      how.beats = id == Ends::kHost;
      how.frame_bytes_max = kCoordinatorFrameBytesMax;
      end[id] =
          Connection::create(ends.loop.io, std::move(ends.outcomes.at(id).channel), how, *this, id);
      end[id]->start();
    }
  }

 private:
  void on_message(std::uint64_t id, message::Message told) override {
    said[id].push_back(std::move(told));
  }
  void on_no_preamble(std::uint64_t, PreambleCheck, std::string) override {}
  void on_ended(std::uint64_t id, const CloseReason& how) override { ended[id] = how; }
};

}  // namespace

TEST_CASE("Agents with certificates of one authority, and the token, are members") {
  NEEDS_OPENSSL();
  const bool has_token = GENERATE(false, true);
  const auto token = has_token ? token_of("0123456789abcdef") : nullptr;
  Ends ends;
  ends.both({token, tls_of(authority().issue("one"))}, {token, tls_of(authority().issue("two"))});
  CHECK(ends.wait(Ends::kGuest).who == Who::member);
  CHECK(ends.wait(Ends::kHost).who == Who::member);
  Talk talk(ends);
  // Beats go both ways, and more than any socket's buffer takes.
  const std::string one = encode(message::Rejected{std::string(3'000, 'x'), "nothing"});
  constexpr std::size_t kTimes = 2'000;
  std::string large;
  for (std::size_t i = 0; i < kTimes; ++i) {
    large += one;
  }
  talk.end[Ends::kGuest]->send(large);
  talk.end[Ends::kHost]->send(encode(message::Leaving{}));
  ends.loop.until([&] {
    return talk.said[Ends::kHost].size() == kTimes && talk.said[Ends::kGuest].size() == 1;
  });
  CHECK_FALSE(talk.ended[Ends::kHost]);
  // The end of the socket is what it is without TLS: that of a process that died, or a reset.
  SECTION("in order") {
    talk.end[Ends::kGuest]->close();
    ends.loop.until([&] { return talk.ended[Ends::kHost].has_value(); });
    CHECK(talk.ended[Ends::kHost]->by_peer);
  }
  SECTION("by a reset") {
    talk.end[Ends::kGuest]->close_by_reset();
    ends.loop.until([&] { return talk.ended[Ends::kHost].has_value(); });
    CHECK(talk.ended[Ends::kHost]->by_reset);
    CHECK_FALSE(talk.ended[Ends::kHost]->by_peer);
  }
  SECTION("what was changed on its way gives it up") {
    Channel raw = talk.end[Ends::kGuest]->release();
    write_all(raw.socket, std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'z'));
    ends.loop.until([&] { return talk.ended[Ends::kHost].has_value(); });
    CHECK(talk.ended[Ends::kHost]->why.find("its connection broke: TLS failed") == 0);
    CHECK_FALSE(talk.ended[Ends::kHost]->by_peer);
  }
}

TEST_CASE("What is said right behind the handshake reaches the connection") {
  NEEDS_OPENSSL();
  Ends ends;
  const auto tls = tls_of(authority().issue("one"));
  ends.both({nullptr, tls}, {nullptr, tls});
  // The guest is a member before the host has read its last part: both arrive in one piece.
  ends.loop.until([&] { return ends.outcomes.contains(Ends::kHost); });
  Channel& channel = ends.outcomes.at(Ends::kHost).channel;
  channel.tls->send(encode(message::Leaving{}) + encode(message::Leaving{}));
  write_all(channel.socket, channel.tls->take_output());
  REQUIRE(ends.wait(Ends::kGuest).who == Who::member);
  Talk talk(ends, 0ms);
  ends.loop.until([&] { return talk.said[Ends::kGuest].size() == 2; });
}

TEST_CASE("Both sides learn why a certificate does not count") {
  NEEDS_OPENSSL();
  const Certificates others("others");
  const TlsFiles alien = others.issue("alien");
  const TlsFiles good = authority().issue("one");
  Ends ends;
  ends.both({nullptr, tls_of({good.ca, alien.certificate, alien.key})}, {nullptr, tls_of(good)});
  CHECK(ends.wait(Ends::kGuest).who == Who::refused);
  CHECK(ends.outcomes.at(Ends::kGuest).said ==
        "its certificate is not trusted: unable to get local issuer certificate");
  // The guest has done its part of the handshake by then, and reads the alert in place of an
  // answer.
  REQUIRE(ends.wait(Ends::kHost).who == Who::member);
  Talk talk(ends, 0ms);
  ends.loop.until([&] { return talk.ended[Ends::kHost].has_value(); });
  CHECK(talk.ended[Ends::kHost]->why ==
        "its connection broke: it does not trust this agent's certificate: unknown ca");
}

TEST_CASE("An agent without TLS is told, in plain text") {
  NEEDS_OPENSSL();
  const bool has_token = GENERATE(false, true);
  Ends ends;
  ends.listen({nullptr, tls_of(authority().issue("one"))});
  write_all(ends.guest,
            preamble(has_token ? kTokenVersion : kProtocolVersion) + std::string(8, 'x'));
  CHECK(ends.wait(Ends::kGuest).who == Who::refused);
  CHECK(ends.outcomes.at(Ends::kGuest).said ==
        "the job has TLS, and this agent was started without it");
  std::string answer;
  ends.loop.until([&] {
    char bytes[512];
    const ssize_t n = ::recv(ends.guest.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    answer.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return answer.find("--tls-ca") != std::string::npos;
  });
  CHECK(answer.find(preamble()) == 0);
}

TEST_CASE("Strangers to TLS are handed on with all that they said") {
  NEEDS_OPENSSL();
  Ends ends;
  ends.listen({nullptr, tls_of(authority().issue("one"))});
  const std::string validation("\x00\xce\xf7\x85\x3c", 5);  // a client of the store
  write_all(ends.guest, validation);
  CHECK(ends.wait(Ends::kGuest).who == Who::other);
  CHECK(ends.outcomes.at(Ends::kGuest).said == validation);
  CHECK(ends.outcomes.at(Ends::kGuest).channel);
}

TEST_CASE("Half a hello, silence behind a hello, and garbage in records end within 5 s") {
  NEEDS_OPENSSL();
  TlsSession client(tls_of(authority().issue("one"))->newest(), TlsSide::connects);
  const std::string hello = client.take_output();
  Ends half;
  half.listen({nullptr, tls_of(authority().issue("two"))});
  write_all(half.guest, hello.substr(0, hello.size() / 2));
  Ends silent;
  silent.listen({nullptr, tls_of(authority().issue("two"))});
  write_all(silent.guest, hello);
  Ends garbage;
  garbage.listen({nullptr, tls_of(authority().issue("two"))});
  write_all(garbage.guest, std::string("\x16\x03\x01\x00\x10", 5) + std::string(16, 'g'));
  CHECK(garbage.wait(Ends::kGuest).who == Who::refused);
  half.loop.until([&] {
    silent.loop.run_for(1ms);
    return half.outcomes.contains(Ends::kGuest);
  });
  CHECK(half.outcomes.at(Ends::kGuest).who == Who::other);
  CHECK(silent.wait(Ends::kGuest).who == Who::other);
}

TEST_CASE("A hello that goes on behind its record ends at once, whatever comes") {
  NEEDS_OPENSSL();
  Ends ends;
  ends.listen({nullptr, tls_of(authority().issue("one"))});
  const auto begin = std::chrono::steady_clock::now();
  // A ClientHello of 127 KB, in a record of 16 KB.
  std::string endless("\x16\x03\x01\x40\x00\x01\x01\xf0\x00", 9);
  endless.resize(5 + 0x4000);
  write_all(ends.guest, endless);
  CHECK(ends.wait(Ends::kGuest).who == Who::other);
  CHECK(std::chrono::steady_clock::now() - begin < 4s);
}

TEST_CASE("A handshake that fails by no certificate is not believed") {
  NEEDS_OPENSSL();
  const std::string junk = std::string("\x16\x03\x03\x00\x40", 5) + std::string(64, 'j');
  const std::string other_version("\x15\x03\x01\x00\x02\x02\x46", 7);  // protocol_version
  for (const std::string& said : {junk, other_version}) {
    Ends ends;
    const Fd listener = std::move(ends.host);
    write_all(listener, said);
    ends.of_host =
        authenticate_host(ends.loop.io, std::move(ends.guest),
                          {nullptr, tls_of(authority().issue("one"))}, ends, Ends::kHost);
    CHECK(ends.wait(Ends::kHost).who == Who::garbled);
    CHECK(ends.outcomes.at(Ends::kHost).said.find("TLS failed: ") != std::string::npos);
  }
}

TEST_CASE("Files that were replaced count if a peer would take them") {
  NEEDS_OPENSSL();
  const TlsFiles files = authority().issue("before");
  const auto before = TlsContext::make_mutual(files);
  REQUIRE(before.has_value());
  const auto replace_by = [&files](const TlsFiles& others) {
    std::filesystem::rename(others.certificate, files.certificate);
    std::filesystem::rename(others.key, files.key);
  };
  replace_by(authority().issue("late", -1));
  JobTls late(*before);
  CHECK(late.newest() == *before);
  CHECK(late.stale().find(files.certificate + ": has expired") == 0);
  replace_by(authority().issue("after"));
  JobTls after(*before);
  CHECK(after.newest() != *before);
  CHECK(after.stale().empty());
}

TEST_CASE("A hello of who has gone meanwhile is not answered") {
  NEEDS_OPENSSL();
  TlsSession client(tls_of(authority().issue("one"))->newest(), TlsSide::connects);
  Ends ends;
  write_all(ends.guest, client.take_output());
  ::shutdown(ends.guest.get(), SHUT_WR);
  ends.listen({nullptr, tls_of(authority().issue("two"))});
  CHECK(ends.wait(Ends::kGuest).who == Who::gone);
  char byte = 0;
  CHECK(::recv(ends.guest.get(), &byte, 1, MSG_DONTWAIT) <= 0);
}

TEST_CASE("An agent with TLS learns that a job has none, and that a stranger listens") {
  NEEDS_OPENSSL();
  const Credentials credentials{nullptr, tls_of(authority().issue("one"))};
  Ends ends;
  ends.of_host =
      authenticate_host(ends.loop.io, std::move(ends.guest), credentials, ends, Ends::kHost);
  write_all(ends.host, preamble() + "and more");
  CHECK(ends.wait(Ends::kHost).who == Who::other);
  CHECK(ends.outcomes.at(Ends::kHost).channel.unread == preamble() + "and more");
}
