#include "rendezvous/consensus/etcd_client.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/etcd_error.h"
#include "rendezvous/consensus/etcd_records.h"
#include "rendezvous/http/http_client.h"

namespace ddprun {
namespace {

using nlohmann::json;

/// etcd takes requests of 1.5 MiB by default, which JSON makes a third larger.
constexpr std::uint64_t kBodyBytesMax = 4 * 1'024 * 1'024;
/// Of one member. One that is there and does not answer has lost its majority, or hangs.
constexpr std::chrono::milliseconds kMemberPatience{1'500};
constexpr char kSignIn[] = "/v3/auth/authenticate";
/// Codes of gRPC (grpc/status.h): the token that authenticate() gave is no longer known.
constexpr int kUnauthenticated = 16;
constexpr int kUnavailable = 14;
constexpr int kDeadlineExceeded = 4;

HttpCall to_http(const std::string& path, const std::string& body, const std::string& token) {
  HttpCall request{"POST", path, {{"Content-Type", "application/json"}}, body, kMemberPatience};
  if (!token.empty() && path != kSignIn) {
    request.headers.emplace_back("Authorization", token);
  }
  return request;
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
    bool signed_in = false;
  };

  Impl(boost::asio::io_context& io, EtcdAccess the_access) : access(std::move(the_access)) {
    DDP_CHECK(!access.members.empty(), "a cluster has a member");
    for (const Endpoint& endpoint : access.members) {
      members.push_back(std::make_unique<HttpClient>(
          io, HttpService{endpoint, access.tls, kMemberPatience, kBodyBytesMax}));
    }
  }

  /// The next question, unless one is under way. A token is asked for before the first.
  void begin() {
    if (!busy && !questions.empty()) {
      busy = true;
      !access.user.empty() && token.empty() && !is_open ? sign_in() : send();
    }
  }

  Question& question() { return questions.front(); }
  [[nodiscard]] const Endpoint& member() const { return access.members[at]; }

  // --- One question to one member -----------------------------------------------------------

  /// Before the question that waits: etcd forgets a token after five idle minutes.
  void sign_in() {
    Question in{
        kSignIn, json{{"name", access.user}, {"password", access.password}}.dump(),
        [this](const Result<json>& answer) {
          token = answer ? text_at(*answer, "token") : std::string();
          is_open = !answer && answer.error().what.find(kEtcdNotEnabled) != std::string::npos;
          if (token.empty() && !is_open) {
            sign_in_failed =
                answer ? etcd_unknown_form("etcd at " + to_text(member()) + " gave no token")
                       : answer.error();
          }
        }};
    in.signed_in = true;
    questions.push_front(std::move(in));
    send();
  }

  /// The member that answered last is asked first: it has a connection, and a token of its own.
  void send() {
    // An answer's callback may end the client, and has to find this until it is through.
    members[at]->ask(to_http(question().path, question().body, token),
                     [weak = weak_from_this()](const Result<HttpReply>& answer) {
                       if (const auto self = weak.lock(); self && !self->gone) {
                         answer ? self->answered(*answer)
                                : self->next_member(etcd_unasked(self->member(), answer.error(),
                                                                 self->access.tls == nullptr));
                       }
                     });
  }

  // --- What it says -------------------------------------------------------------------------

  /// An answer is an object, whatever its HTTP status: etcd's errors have one too.
  void answered(const HttpReply& said) {
    json answer = json::parse(said.body, nullptr, false);
    if (!answer.is_object()) {
      return next_member(etcd_stranger(member(), said.status, said.body));
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
    const std::string message = text_at(error, "message");
    const bool is_old = message.find(kEtcdOldRevision) != std::string::npos ||
                        (is_open && message.find(kEtcdNobodyAsks) != std::string::npos);
    if ((code == kUnauthenticated || is_old) && !access.user.empty() && !question().signed_in) {
      question().signed_in = true;
      token.clear();
      return sign_in();
    }
    const Error why = etcd_refusal(member(), message, code, access.user);
    if (code == kUnavailable || code == kDeadlineExceeded) {
      return next_member(why);
    }
    is_refusal = true;
    end(why);
  }

  /// The last error is the one that is told: of one member people look at its own.
  void next_member(const Error& why) {
    token.clear();  // it may be known to that member alone
    at = (at + 1) % access.members.size();
    if (++question().members_tried < access.members.size()) {
      send_anew();
    } else {
      end(why);
    }
  }

  /// To another member, which wants to know who asks.
  void send_anew() {
    const bool signs_in = question().path == kSignIn;
    !access.user.empty() && !signs_in && !is_open ? sign_in() : send();
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

  EtcdAccess access;
  std::vector<std::unique_ptr<HttpClient>> members;
  std::size_t at = 0;              ///< the member that is asked
  std::deque<Question> questions;  ///< the first is under way where busy
  std::string token;
  std::optional<Error> sign_in_failed;
  bool is_open = false;  ///< authentication is off: no token is needed
  std::string trouble;
  bool is_refusal = false;  ///< the error that end() is given
  bool busy = false;
  bool gone = false;
};

EtcdClient::EtcdClient(boost::asio::io_context& io, EtcdAccess access)
    : impl_(std::make_shared<Impl>(io, std::move(access))) {}

EtcdClient::~EtcdClient() {
  impl_->gone = true;
}

void EtcdClient::ask(std::string path, const json& question, OnAnswer on_answer) {
  impl_->questions.push_back({std::move(path), question.dump(), std::move(on_answer)});
  impl_->begin();
}

const std::string& EtcdClient::trouble() const {
  return impl_->trouble;
}

}  // namespace ddprun
