#include "rendezvous/consensus/kubernetes_client.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/base/text.h"
#include "rendezvous/http/http_client.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using std::chrono::steady_clock;

/// A server that is well answers within one second (Kubernetes' service level objectives).
constexpr std::chrono::milliseconds kServerPatience{3'000};
/// For a server that is busy: a leader has to renew meanwhile, and others wait to ask.
constexpr std::chrono::seconds kBusyPatience{5};
/// Annotations, each character escaped, and what else an object has.
/// An answer that is longer is none of a job's Lease.
constexpr std::uint64_t kObjectBytesMax = 2 * 1'024 * 1'024;

/// It was there when the agent began.
Error no_token(const std::string& file) {
  return {"there is no token in it that could be read", file,
          "see to it that the service account's token stays mounted"};
}

}  // namespace

struct KubernetesClient::Impl : std::enable_shared_from_this<KubernetesClient::Impl> {
  Impl(asio::io_context& the_io, KubernetesAccess the_access, std::string lease)
      : io(the_io),
        access(std::move(the_access)),
        client(the_io, {access.server, access.tls, kServerPatience, kObjectBytesMax}),
        timer(the_io) {
    asked = {to_text(HttpService{access.server, access.tls}), access.name_space, std::move(lease),
             access.token_file};
  }

  /// Without ?resourceVersion=: that would allow an answer from a cache, which may be old. A Lease
  /// that is read so is the newest one (API concepts, "Resource versions").
  [[nodiscard]] HttpCall call() const {
    const std::string all =
        "/apis/coordination.k8s.io/v1/namespaces/" + access.name_space + "/leases";
    HttpCall call{"GET", all + "/" + asked.lease, {{"Accept", "application/json"}}};
    call.patience = kServerPatience;
    if (verb != LeaseVerb::get) {
      call.headers.emplace_back("Content-Type", "application/json");
      call.body = body;
    }
    if (verb == LeaseVerb::create) {
      call.method = "POST";
      call.target = all;
    } else if (verb == LeaseVerb::update) {
      call.method = "PUT";
    }
    return call;
  }

  /// What stands in a token's file goes into a header, so it has to be one line.
  void send() {
    HttpCall question = call();
    if (!access.token_file.empty()) {
      const auto token = read_named_file(access.token_file);
      if (!token || trimmed(*token).empty()) {
        return asio::post(io, [weak = weak_from_this()] {
          if (const auto self = weak.lock()) {
            self->end({LeaseReply::Kind::refused, {}, {}, no_token(self->access.token_file)});
          }
        });
      }
      question.headers.emplace_back("Authorization",
                                    "Bearer " + printable(std::string(trimmed(*token))));
    }
    client.ask(std::move(question), [weak = weak_from_this()](const Result<HttpReply>& said) {
      if (const auto self = weak.lock()) {
        self->answered(said ? lease_reply(self->verb, *said, self->asked)
                            : no_lease_reply(said.error(), self->asked));
      }
    });
  }

  /// A server that says "in 0 seconds" is not pressed either.
  void answered(LeaseReply reply) {
    if (reply.kind != LeaseReply::Kind::busy) {
      return end(std::move(reply));
    }
    const auto again = steady_clock::now() + std::max(reply.retry_after, std::chrono::seconds(1));
    if (again > busy_until) {
      reply.kind = LeaseReply::Kind::unclear;
      return end(std::move(reply));
    }
    send_at(again);
  }

  void send_at(steady_clock::time_point when) {
    timer.expires_at(when);
    timer.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
      if (const auto self = weak.lock(); self && !failed && self->on_reply) {
        self->send();
      }
    });
  }

  /// The next question may come from within.
  void end(LeaseReply reply) { std::exchange(on_reply, nullptr)(std::move(reply)); }

  asio::io_context& io;
  KubernetesAccess access;
  KubernetesAsked asked;
  HttpClient client;
  boost::asio::steady_timer timer;
  LeaseVerb verb{};
  std::string body;
  steady_clock::time_point busy_until;
  OnReply on_reply;  ///< null: nothing is asked
};

KubernetesClient::KubernetesClient(asio::io_context& io, KubernetesAccess access, std::string lease)
    : impl_(std::make_shared<Impl>(io, std::move(access), std::move(lease))) {}

KubernetesClient::~KubernetesClient() {
  impl_->timer.cancel();
}

void KubernetesClient::ask(LeaseVerb verb, std::string body, std::chrono::milliseconds pause,
                           OnReply on_reply) {
  DDP_CHECK(!impl_->on_reply, "one question at a time");
  DDP_CHECK((verb == LeaseVerb::get) == body.empty(), "what is written has a body");
  impl_->verb = verb;
  impl_->body = std::move(body);
  impl_->on_reply = std::move(on_reply);
  const auto begins = steady_clock::now() + pause;
  impl_->busy_until = begins + kBusyPatience;
  pause.count() > 0 ? impl_->send_at(begins) : impl_->send();
}

}  // namespace ddprun
