#include "rendezvous/consensus/etcd_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/base/held_signals.h"
#include "rendezvous/base/text.h"
#include "rendezvous/consensus/etcd_records.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using nlohmann::json;
using tcp = asio::ip::tcp;

/// etcd takes requests of 1.5 MiB by default, which JSON makes a third larger.
constexpr std::uint64_t kBodyBytesMax = 4 * 1'024 * 1'024;
/// Of one member. One that is there and does not answer has lost its majority, or hangs.
constexpr std::chrono::milliseconds kMemberPatience{1'500};
constexpr char kSignIn[] = "/v3/auth/authenticate";
/// Codes of gRPC (grpc/status.h): the token that authenticate() gave is no longer known.
constexpr int kUnauthenticated = 16;
constexpr int kUnavailable = 14;
constexpr int kDeadlineExceeded = 4;

/// Of the member, since people have to look into its log.
std::string sentence(const Endpoint& member, const std::string& why) {
  return "etcd at " + to_text(member) + " " + why;
}

/// Of a stream's error, or of another's (status.proto, and the gateway's own form).
int code_of(const json& error) {
  for (const char* const name : {"code", "grpc_code"}) {
    const auto found = error.find(name);
    if (found != error.end() && found->is_number_integer()) {
      return found->get<int>();
    }
  }
  return 0;
}

}  // namespace

struct EtcdClient::Impl : std::enable_shared_from_this<EtcdClient::Impl> {
  struct Question {
    std::string path;
    std::string body;
    OnAnswer on_answer;
    std::size_t members_tried = 0;
    bool again = false;  ///< over a new connection: the old one had been closed
    bool signed_in = false;
  };

  Impl(asio::io_context& the_io, EtcdAccess the_access)
      : io(the_io),
        access(std::move(the_access)),
        found(access.members.size()),
        resolver(the_io),
        resolve_timer(the_io) {
    DDP_CHECK(!access.members.empty(), "a cluster has a member");
  }

  /// For callbacks of operations: they do nothing once the client is gone. How many bytes came, or
  /// which address answered, does not matter.
  template <class Action>
  auto while_alive(Action action) {
    return [weak = weak_from_this(), action](error_code failed, const auto&... /*how*/) {
      if (const auto self = weak.lock(); self && !self->gone) {
        action(*self, failed);
      }
    };
  }

  /// The next question, unless one is under way. A token is asked for before the first.
  void begin() {
    if (!busy && !questions.empty()) {
      busy = true;
      !access.user.empty() && token.empty() ? sign_in() : send();
    }
  }

  Question& question() { return questions.front(); }
  [[nodiscard]] const Endpoint& member() const { return access.members[at]; }

  // --- One question to one member -----------------------------------------------------------

  /// Before the question that waits: etcd forgets a token after five idle minutes.
  void sign_in() {
    Question in{kSignIn, json{{"name", access.user}, {"password", access.password}}.dump(),
                [this](const Result<json>& answer) {
                  token = answer ? text_at(*answer, "token") : std::string();
                  if (token.empty()) {
                    sign_in_failed = answer ? Error{sentence(member(), "gave no token"), {}, {}}
                                            : answer.error();
                  }
                }};
    in.signed_in = true;
    questions.push_front(std::move(in));
    send();
  }

  /// Over the connection that is there, if any: a leader asks each second.
  void send() {
    request = http::request<http::string_body>(http::verb::post, question().path, 11);
    request.set(http::field::host, to_text(member()));
    request.set(http::field::user_agent, "ddprun");
    request.set(http::field::content_type, "application/json");
    if (!token.empty() && question().path != kSignIn) {
      request.set(http::field::authorization, token);
    }
    request.body() = question().body;
    request.keep_alive(true);
    request.prepare_payload();
    if (stream && stream->socket().is_open()) {
      write();
    } else {
      connect();
    }
  }

  /// A host of several addresses is tried at each of them, within one patience.
  void connect() {
    question().again = true;  // over a new connection: what fails now is the member's
    stream.emplace(io);
    buffer.clear();
    error_code not_numeric;
    const auto address = asio::ip::make_address(member().host, not_numeric);
    if (!not_numeric) {
      found[at] = {tcp::endpoint(address, member().port)};
    }
    if (found[at].empty()) {
      return resolve();
    }
    stream->expires_after(kMemberPatience);
    stream->async_connect(found[at], while_alive([](Impl& self, error_code failed) {
                            if (failed) {
                              self.found[self.at].clear();  // the name may mean another host by now
                              self.failed_by(failed);
                            } else {
                              self.write();
                            }
                          }));
  }

  /// A name service that is down must not hold up the other members: its answer, which comes after
  /// many seconds, is for another time then.
  void resolve() {
    const std::size_t asked = at;
    const std::uint64_t round = ++resolve_round;
    resolve_timer.expires_after(kMemberPatience);
    resolve_timer.async_wait(while_alive([round](Impl& self, error_code cancelled) {
      if (!cancelled && self.resolve_round == round) {
        ++self.resolve_round;
        self.failed_by(beast::error::timeout);
      }
    }));
    const HeldSignals held;  // the resolver has a thread of its own
    resolver.async_resolve(member().host, std::to_string(member().port),
                           [weak = weak_from_this(), asked, round](
                               error_code failed, const tcp::resolver::results_type& results) {
                             if (const auto self = weak.lock(); self && !self->gone) {
                               self->found[asked].assign(results.begin(), results.end());
                               self->resolved(round, failed);
                             }
                           });
  }

  void resolved(std::uint64_t round, error_code failed) {
    if (resolve_round != round) {
      return;
    }
    ++resolve_round;
    resolve_timer.cancel();
    failed ? failed_by(failed) : connect();
  }

  /// Each step has its own patience: a member that takes the question may still hang.
  void write() {
    stream->expires_after(kMemberPatience);
    http::async_write(*stream, request, while_alive([](Impl& self, error_code failed) {
      failed ? self.failed_by(failed) : self.read();
    }));
  }

  /// A body over the limit is an error like any other, not a reason to take more memory.
  void read() {
    parser.emplace();
    parser->body_limit(kBodyBytesMax);
    stream->expires_after(kMemberPatience);
    http::async_read(*stream, buffer, *parser, while_alive([](Impl& self, error_code failed) {
      failed ? self.failed_by(failed) : self.answered();
    }));
  }

  // --- What it says -------------------------------------------------------------------------

  /// An answer is an object, whatever its HTTP status: etcd's errors have one too.
  void answered() {
    stream->expires_never();
    if (!parser->keep_alive()) {
      stream.reset();
    }
    const auto status = parser->get().result_int();
    json answer = json::parse(parser->get().body(), nullptr, false);
    if (!answer.is_object()) {
      return next_member(sentence(
          member(), "does not speak etcd's protocol (HTTP status " + std::to_string(status) + ")"));
    }
    if (answer.contains("error")) {
      return refused(answer);
    }
    // A stream of one answer: its gateway wraps it (lease/keepalive). Moved, not copied: a copy of
    // what is nested deeply enough would use up the stack.
    const bool wrapped = answer.contains("result") && answer["result"].is_object();
    end(wrapped ? json(std::move(answer["result"])) : std::move(answer));
  }

  /// A member without a leader may be cut off, so another is asked. What one of them refuses, all
  /// would.
  void refused(const json& answer) {
    // Of a stream, an object; else the text, with its code beside it.
    const json& error = answer["error"].is_object() ? answer["error"] : answer;
    const int code = code_of(error);
    std::string why = printable(text_at(error, "message"));
    if (why.empty()) {
      why = "error " + std::to_string(code) + " without a word";
    }
    if (code == kUnauthenticated && !access.user.empty() && !question().signed_in) {
      question().signed_in = true;
      token.clear();
      return sign_in();
    }
    if (code == kUnavailable || code == kDeadlineExceeded) {
      return next_member(sentence(member(), "says: " + why));
    }
    is_refusal = true;
    end(Error{sentence(member(), "says: " + why), {}, {}});
  }

  void failed_by(error_code failed) {
    stream.reset();
    if (!question().again) {
      connect();  // it had closed a connection that was idle
      return;
    }
    next_member(sentence(member(), failed == beast::error::timeout
                                       ? std::string("does not answer")
                                       : "cannot be asked: " + failed.message()));
  }

  /// The last error is the one that is told: of one member people look at its own.
  void next_member(const std::string& why) {
    stream.reset();
    token.clear();  // it may be known to that member alone
    at = (at + 1) % access.members.size();
    question().again = false;
    if (++question().members_tried < access.members.size()) {
      send_anew();
    } else {
      end(Error{why, {}, {}});
    }
  }

  /// To another member, which wants to know who asks.
  void send_anew() {
    const bool signs_in = question().path == kSignIn;
    !access.user.empty() && !signs_in ? sign_in() : send();
  }

  /// The question goes first: its callback may ask the next one, or end this client.
  void end(const Result<json>& answer) {
    trouble = answer || is_refusal ? std::string() : answer.error().what;
    is_refusal = false;
    Question done = std::move(question());
    questions.pop_front();
    done.on_answer(answer);
    if (gone) {
      return;
    }
    if (done.path == kSignIn) {
      if (sign_in_failed) {
        end(*std::exchange(sign_in_failed, std::nullopt));
      } else {
        send();  // what waited for the token
      }
      return;
    }
    busy = false;
    begin();
  }

  asio::io_context& io;
  EtcdAccess access;
  std::vector<std::vector<tcp::endpoint>> found;  ///< of each member's name; empty: not known
  tcp::resolver resolver;
  asio::steady_timer resolve_timer;
  std::uint64_t resolve_round = 0;  ///< of the answer that is waited for
  std::size_t at = 0;               ///< the member that is asked
  std::optional<beast::tcp_stream> stream;
  beast::flat_buffer buffer;
  http::request<http::string_body> request;
  std::optional<http::response_parser<http::string_body>> parser;
  std::deque<Question> questions;  ///< the first is under way where busy
  std::string token;
  std::optional<Error> sign_in_failed;
  std::string trouble;
  bool is_refusal = false;  ///< the error that end() is given
  bool busy = false;
  bool gone = false;
};

EtcdClient::EtcdClient(asio::io_context& io, EtcdAccess access)
    : impl_(std::make_shared<Impl>(io, std::move(access))) {}

EtcdClient::~EtcdClient() {
  impl_->gone = true;
  impl_->resolve_timer.cancel();
  impl_->stream.reset();
}

void EtcdClient::ask(std::string path, const json& question, OnAnswer on_answer) {
  impl_->questions.push_back({std::move(path), question.dump(), std::move(on_answer)});
  impl_->begin();
}

const std::string& EtcdClient::trouble() const {
  return impl_->trouble;
}

}  // namespace ddprun
