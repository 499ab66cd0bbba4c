#include "rendezvous/consensus/kubernetes_answer.h"

#include <catch2/catch.hpp>
#include <string>

namespace ddprun {
namespace {

using Kind = LeaseReply::Kind;

const KubernetesAsked kAsked{"https://10.96.0.1:443", "ml", "ddprun-job", "/token"};

LeaseReply replied(LeaseVerb verb, unsigned status, const std::string& body,
                   const char* retry_after = nullptr) {
  HttpReply said{status, body};
  if (retry_after != nullptr) {
    said.headers.emplace_back("retry-after", retry_after);
  }
  return lease_reply(verb, said, kAsked);
}

std::string status(const std::string& reason, const std::string& message, const std::string& kind) {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" +
         message + R"(","reason":")" + reason + R"(","details":{"name":"x","kind":")" + kind +
         R"("}})";
}

bool says(const LeaseReply& reply, const std::string& words) {
  CAPTURE(reply.why.sentence());
  const bool found = reply.why.sentence().find(words) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("A Lease that is not there is told from an API that is not") {
  const std::string none =
      status("NotFound", R"(leases.coordination.k8s.io \"ddprun-job\" not found)", "leases");
  CHECK(replied(LeaseVerb::get, 404, none).kind == Kind::absent);
  CHECK(replied(LeaseVerb::update, 404, none).kind == Kind::conflict);
  const auto no_api = replied(LeaseVerb::get, 404, "404 page not found\n");
  CHECK(no_api.kind == Kind::refused);
  says(no_api, "answers 404: 404 page not found; it has no coordination.k8s.io/v1");
  const auto no_namespace = replied(
      LeaseVerb::create, 404, status("NotFound", R"(namespaces \"ml\" not found)", "namespaces"));
  CHECK(no_namespace.kind == Kind::refused);
  says(no_namespace, R"(namespaces "ml" not found; give the pods' own namespace)");
}

TEST_CASE("A rule that is missing is named with its verb") {
  const std::string forbidden = status(
      "Forbidden",
      R"(leases.coordination.k8s.io is forbidden: User \"system:serviceaccount:ml:default\" )"
      "cannot create "
      R"(resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"ml\")",
      "leases");
  const auto reply = replied(LeaseVerb::create, 403, forbidden);
  CHECK(reply.kind == Kind::refused);
  says(reply, "Role in the namespace ml with the verb 'create' on leases of coordination.k8s.io");
}

TEST_CASE("What else refuses is named with what to do about it") {
  const std::pair<const char*, const char*> cases[] = {
      {"forbidden: unable to create new content in namespace ml because it is being terminated",
       "start the job in a namespace that is not being deleted"},
      {"leases is forbidden: exceeded quota: few, requested: count/leases=1, used: 1, limited: 1",
       "delete Leases of ended jobs in the namespace ml, or ask who runs the cluster"},
      {"admission webhook policy denied the request", "ask who runs the cluster what"}};
  for (const auto& [message, todo] : cases) {
    INFO(message);
    const auto refused = replied(LeaseVerb::create, 403, status("Forbidden", message, "leases"));
    CHECK(refused.kind == Kind::refused);
    CHECK(refused.why.todo.starts_with(todo));
  }
  const auto webhook = replied(
      LeaseVerb::update, 500,
      status("InternalError", "Internal error occurred: failed calling webhook x: EOF", ""));
  CHECK(webhook.kind == Kind::unclear);
  CHECK(webhook.why.todo == "ask who runs the cluster: its webhook does not answer");
  CHECK(replied(LeaseVerb::update, 500, "x").why.todo.empty());
}

TEST_CASE("Conflicts are read again, and servers that are busy are asked again") {
  const std::string conflict = status("Conflict", "the object has been modified", "leases");
  CHECK(replied(LeaseVerb::update, 409, conflict).kind == Kind::conflict);
  CHECK(replied(LeaseVerb::create, 409, status("AlreadyExists", "x", "leases")).kind ==
        Kind::conflict);
  CHECK(replied(LeaseVerb::update, 410, status("Expired", "x", "leases")).kind == Kind::conflict);
  CHECK(replied(LeaseVerb::get, 410, status("Expired", "x", "leases")).kind == Kind::unclear);
  const auto busy = replied(LeaseVerb::update, 429, status("TooManyRequests", "x", ""), "2");
  CHECK(busy.kind == Kind::busy);
  CHECK(busy.retry_after == std::chrono::seconds(2));
  CHECK(replied(LeaseVerb::get, 503, "x", "1").kind == Kind::busy);
  CHECK(replied(LeaseVerb::get, 429, "x").kind == Kind::refused);
  CHECK(replied(LeaseVerb::update, 504, status("Timeout", "x", "")).kind == Kind::unclear);
  CHECK(replied(LeaseVerb::update, 500, "x", "Fri, 31 Dec 1999 23:59:59 GMT").kind ==
        Kind::unclear);
}

TEST_CASE("Who is not let in is told which file says who asks") {
  const auto reply = replied(LeaseVerb::get, 401, status("Unauthorized", "Unauthorized", ""));
  CHECK(reply.kind == Kind::refused);
  says(reply, "answers 401: Unauthorized; check that /token holds a token of this cluster");
  const KubernetesAsked bare{"http://127.0.0.1:8001", "ml", "l", ""};
  CHECK(lease_reply(LeaseVerb::get, {401, ""}, bare).why.todo.find("protocol=http") !=
        std::string::npos);
  CHECK(
      lease_reply(LeaseVerb::get, {400, "Client sent an HTTP request to an HTTPS server.\n"}, bare)
          .why.todo.find("TLS") != std::string::npos);
}

TEST_CASE("Whatever a server answers is read or refused") {
  std::string deep;
  for (int i = 0; i < 200'000; ++i) {
    deep += R"({"a":)";
  }
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("{}"), std::string("<html>"),
        std::string(R"({"kind":"Lease"})"),
        std::string(R"({"kind":"Lease","metadata":5,"spec":[]})"),
        std::string(R"({"kind":"Lease","metadata":{"resourceVersion":7}})"),
        R"({"kind":"Lease","x":)" + deep + "1" + std::string(200'000, '}') + "}", deep}) {
    CAPTURE(body.substr(0, 60));
    const auto reply = replied(LeaseVerb::get, 200, body);
    CHECK(reply.kind != Kind::done);
    CHECK_FALSE(reply.why.sentence().empty());
    CHECK(replied(LeaseVerb::get, 422, body).kind == Kind::refused);
  }
  const auto long_line = replied(LeaseVerb::get, 400, std::string(100'000, 'x') + "\x1b");
  CHECK(long_line.why.sentence().size() < 600);
  const auto deep_but_fine =
      replied(LeaseVerb::get, 200,
              R"({"kind":"Lease","metadata":{"resourceVersion":"7","managedFields":)" +
                  std::string(1'000, '[') + std::string(1'000, ']') + "}}");
  CHECK(deep_but_fine.kind == Kind::done);
}

}  // namespace ddprun
