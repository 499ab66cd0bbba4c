#include "rendezvous/consensus/lease_exchange.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "tests/unit/consensus/played_api_server.h"

namespace ddprun {
namespace {

using std::chrono::seconds;

const KubernetesAsked kAsked{"https://k:443", "default", "ddprun-job", "token"};

/// A node asks to lead; `answer` gives the server's reply to each request, `most` at most.
template <class Answer>
Result<ServiceAnswer> ask_to_lead(LeaseExchange& exchange, int most, Answer answer) {
  const LeaseExchange::Moment at{seconds(100), WallTime(seconds(1'793'880'000))};
  const LeaderRecord self{Term{1}, VoterId{1}, JobInstance{1}, {"10.0.0.1"}, 1};
  auto actions = exchange.asked(at, 1, enter_leader({}, self, "0000000000000007-99"));
  while (const auto* request = std::get_if<lease_exchange::Request>(&actions.back())) {
    REQUIRE(most-- > 0);
    const HttpReply said = answer(*request);
    actions = exchange.replied(at, lease_reply(request->verb, said, kAsked));
  }
  const auto* ended = std::get_if<lease_exchange::Ended>(&actions.back());
  REQUIRE(ended != nullptr);
  return ended->answer;
}

}  // namespace

TEST_CASE("A server that says it has written, and has not, lets nobody lead") {
  const bool strips = GENERATE(false, true);
  test::PlayedApiServer server;
  LeaseExchange exchange({"job", "host", 7}, {seconds(15), seconds(600)});
  const auto answer = ask_to_lead(exchange, 4, [&](const lease_exchange::Request& request) {
    HttpReply said = server.take(request.verb, request.body);
    if (strips && server.object) {
      (*server.object)["metadata"]["annotations"] = nlohmann::json::object();
      (*server.object)["spec"]["holderIdentity"] = "";
      said.body = server.object->dump();
    }
    return said;
  });
  CHECK(answer.has_value() == !strips);
  CHECK((answer && answer->renews) == !strips);  // each write of a leader renews its lease
  CHECK(exchange.trouble().empty() == !strips);
  if (strips) {
    CHECK(answer.error().what.find("is not in the Lease of this job") != std::string::npos);
  }
}

TEST_CASE("A server that refuses each write as too late is asked about once a second") {
  test::PlayedApiServer server;
  LeaseExchange exchange({"job", "host", 7}, {seconds(15), seconds(600)});
  std::vector<std::chrono::milliseconds> pauses;
  const auto answer_of = [&](const lease_exchange::Request& request) {
    if (request.pause.count() > 0) {
      pauses.push_back(request.pause);
    }
    return request.verb != LeaseVerb::get ? HttpReply{409, "it was modified"}
                                          : server.take(request.verb, request.body);
  };
  for (int question = 0; question < 2; ++question) {
    const auto answer = ask_to_lead(exchange, 20, answer_of);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().what.find("8 writes in a row") == 0);
    CHECK(answer.error().what.find("it was modified") != std::string::npos);
  }
  // Of each of 16 writes but the first; the last one's would come before a third question.
  REQUIRE(pauses.size() == 14);
  for (std::size_t at = 4; at < pauses.size(); ++at) {
    CHECK(pauses[at] >= kConflictPauseMax / 2);
    CHECK(pauses[at] <= kConflictPauseMax);
  }
}

TEST_CASE("A server that fails is asked to write twice, and then again only after a pause") {
  test::PlayedApiServer server;
  LeaseExchange exchange({"job", "host", 7}, {seconds(15), seconds(600)});
  int writes = 0;
  const auto answer = ask_to_lead(exchange, 6, [&](const lease_exchange::Request& request) {
    const bool is_write = request.verb != LeaseVerb::get;
    writes += is_write ? 1 : 0;
    return is_write ? HttpReply{500, "etcdserver: request timed out"}
                    : server.take(request.verb, request.body);
  });
  REQUIRE_FALSE(answer.has_value());
  CHECK(writes == 2);
  CHECK(exchange.trouble().find("500") != std::string::npos);
}

}  // namespace ddprun
