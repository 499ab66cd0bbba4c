#include "rendezvous/consensus/kubernetes_answer.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/base/utf8.h"

namespace ddprun {
namespace {

using nlohmann::json;
using Kind = LeaseReply::Kind;

/// Of an error: the server's own are a line, a stranger's may be megabytes.
constexpr std::size_t kQuotedBytesMax = 400;
/// Where a Lease has its fields; managedFields go deeper, and are not used. What is nested deeply
/// enough would use up the stack.
constexpr int kDepthMax = 16;

/// What lies deeper is left out. Errors of the text make a value that is no object.
json parse_bounded(const std::string& text) {
  return json::parse(
      text, [](int depth, json::parse_event_t, const json&) { return depth < kDepthMax; }, false);
}

/// What the server says of an error: a Status (apimachinery, meta/v1).
struct Status {
  std::string reason;
  std::string message;
  std::string kind;  ///< of what it speaks; empty: it does not say
};

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// A server's other handlers, and what stands before a server, answer in plain text.
Status status_of(const HttpReply& said) {
  const json body = parse_bounded(said.body);
  Status status;
  if (body.is_object() && text_of(body, "kind") == "Status") {
    status.reason = text_of(body, "reason");
    status.message = text_of(body, "message");
    const auto details = body.find("details");
    status.kind = details != body.end() && details->is_object() ? text_of(*details, "kind") : "";
  } else {
    status.message = std::string(trimmed(said.body));
  }
  status.message = printable(std::string(utf8_prefix(status.message, kQuotedBytesMax)));
  return status;
}

/// With the server, since people have to look into its log, or ask who runs it.
std::string server_says(const KubernetesAsked& asked, unsigned status, const std::string& message) {
  return fmt::format("Kubernetes at {} answers {}{}", asked.server, status,
                     message.empty() ? "" : ": " + message);
}

/// RBAC's refusals say "cannot VERB resource"; a namespace that is going, a quota and a policy say
/// 403, too, each in words of its own.
std::string what_allows(LeaseVerb verb, const Status& status, const KubernetesAsked& asked) {
  const auto says = [&](const std::string& words) {
    return status.message.find(words) != std::string::npos;
  };
  if (says(fmt::format("cannot {} resource", to_text(verb)))) {
    return fmt::format(
        "give the pods' service account a Role in the namespace {} with the verb "
        "'{}' on leases of coordination.k8s.io (docs/kubernetes.md)",
        asked.name_space, to_text(verb));
  }
  if (says("exceeded quota")) {
    return fmt::format(
        "delete Leases of ended jobs in the namespace {}, or ask who runs the "
        "cluster for a larger quota",
        asked.name_space);
  }
  if (says("is being terminated")) {
    return "start the job in a namespace that is not being deleted (--rdzv-conf namespace=NAME)";
  }
  return "ask who runs the cluster what refuses it";
}

LeaseReply forbidden(LeaseVerb verb, const Status& status, const KubernetesAsked& asked) {
  return {Kind::refused,
          {},
          {},
          {server_says(asked, 403, status.message), {}, what_allows(verb, status, asked)}};
}

/// A PUT that finds no Lease meets one that was deleted after it was read. A GET does not look
/// whether there is such a namespace; a POST does.
LeaseReply not_found(LeaseVerb verb, const Status& status, const KubernetesAsked& asked) {
  // Of the Lease itself. A server without this API says it in plain text.
  if (status.reason == "NotFound" && status.kind == "leases") {
    return {verb == LeaseVerb::get ? Kind::absent : Kind::conflict};
  }
  const bool no_namespace = status.kind == "namespaces";
  return {Kind::refused,
          {},
          {},
          {server_says(asked, 404, status.message),
           {},
           no_namespace ? "give the pods' own namespace as --rdzv-conf namespace=NAME"
                        : "it has no coordination.k8s.io/v1: ddprun needs a Kubernetes of 1.14 or "
                          "later at this address"}};
}

/// In seconds (RFC 9110, 10.2.3); a date, which Kubernetes does not use, is none.
/// What is longer than half a day fits into no patience of ours either.
std::optional<std::chrono::seconds> retry_after(const HttpReply& said) {
  const auto number = parse_number<std::uint16_t>(said.header("Retry-After"));
  return number ? std::optional(std::chrono::seconds(*number)) : std::nullopt;
}

/// A GET, PUT or POST that went well has the object as it is then.
LeaseReply found(LeaseVerb verb, const HttpReply& said, const KubernetesAsked& asked) {
  const json object = parse_bounded(said.body);
  if (!object.is_object() || text_of(object, "kind") != "Lease") {
    return {Kind::unclear,
            {},
            {},
            {fmt::format("{} does not speak Kubernetes' protocol: its answer is no Lease",
                         asked.server),
             {},
             "give the API server's address as --rdzv-endpoint HOST:PORT"}};
  }
  auto lease = job_lease_of(object, asked.lease);
  if (lease) {
    return {Kind::done, std::move(*lease)};
  }
  DDP_CHECK(!lease.error().what.empty(), "an object that is refused has a reason");
  // By somebody else, right after this process wrote it.
  return {verb == LeaseVerb::get ? Kind::refused : Kind::unclear, {}, {}, lease.error()};
}

}  // namespace

const char* to_text(LeaseVerb verb) {
  switch (verb) {
    case LeaseVerb::get:
      return "get";
    case LeaseVerb::create:
      return "create";
    case LeaseVerb::update:
      return "update";
  }
  DDP_CHECK(false, "a verb is one of three");
}

LeaseReply lease_reply(LeaseVerb verb, const HttpReply& said, const KubernetesAsked& asked) {
  if (said.status == 200 || said.status == 201) {
    return found(verb, said, asked);
  }
  const Status status = status_of(said);
  Error why{server_says(asked, said.status, status.message), {}, {}};
  switch (said.status) {
    case 401:
      why.todo = asked.token_file.empty()
                     ? "it wants a token: leave out protocol=http, or ask through kubectl proxy"
                     : "check that " + asked.token_file +
                           " holds a token of this cluster (--rdzv-conf token_file=FILE)";
      return {Kind::refused, {}, {}, std::move(why)};
    case 403:
      return forbidden(verb, status, asked);
    case 404:
      return not_found(verb, status, asked);
    case 409:
    case 410:
      // Of a question that reads, neither is known.
      return {verb == LeaseVerb::get ? Kind::unclear : Kind::conflict, {}, {}, std::move(why)};
    case 400:
      if (status.message.find("HTTPS server") != std::string::npos) {
        why.todo = "it wants TLS: leave out --rdzv-conf protocol=http";
      }
      return {Kind::refused, {}, {}, std::move(why)};
    case 500:
      if (status.message.find("failed calling webhook") != std::string::npos) {
        why.todo = "ask who runs the cluster: its webhook does not answer";
      }
      break;
    default:
      break;
  }
  // Not done (429), or maybe done (5xx): it is asked again in either case.
  if (const auto later = retry_after(said); later && (said.status == 429 || said.status >= 500)) {
    return {Kind::busy, {}, *later, std::move(why)};
  }
  return {said.status >= 500 ? Kind::unclear : Kind::refused, {}, {}, std::move(why)};
}

/// It may have arrived all the same.
LeaseReply no_lease_reply(const Error& why, const KubernetesAsked& asked) {
  return {Kind::unclear,
          {},
          {},
          {fmt::format("Kubernetes at {} cannot be asked: {}", asked.server, why.what), {}, {}}};
}

}  // namespace ddprun
