#include "rendezvous/consensus/etcd_records.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using nlohmann::json;

LeaderRecord some_leader() {
  return {Term{3}, VoterId{(1ULL << 62) + 1}, JobInstance{77}, {"10.0.0.1", "fd00::1"}, 4'000};
}

/// etcd's answer to read_question(), where the keys have what `put` wrote there.
json answer_with(const json& written) {
  json responses = json::array();
  for (const json& one : written) {
    json range = json::object();
    if (!one.is_null()) {
      json entry = one;
      entry["mod_revision"] = "12";
      range["kvs"] = json::array({entry});
      range["count"] = "1";
    }
    responses.push_back({{"response_range", range}});
  }
  return {{"header", {{"revision", "12"}}}, {"succeeded", true}, {"responses", responses}};
}

const EtcdKeys kKeys("job");

}  // namespace

TEST_CASE("What a leader writes into etcd is read again") {
  const json lead = transaction_question(kKeys, enter_leader({}, some_leader(), "5"));
  const json commit =
      transaction_question(kKeys, write_state(12, 11, std::string("\0\xff state", 8), "6"));
  const json& puts = lead["success"];
  CHECK(puts[0]["requestPut"]["lease"] == "5");
  CHECK_FALSE(puts[1]["requestPut"].contains("lease"));  // terms only rise
  const json& state = commit["success"][0]["requestPut"];
  CHECK(state["lease"] == "6");
  const auto view = view_of(kKeys, answer_with({{{"value", puts[0]["requestPut"]["value"]}},
                                                {{"value", puts[1]["requestPut"]["value"]}},
                                                {{"value", state["value"]}}}));
  REQUIRE(view.has_value());
  CHECK(view->leader == some_leader());
  CHECK(view->leader_revision == 12);
  CHECK(view->newest_term == Term{3});
  CHECK(view->term_revision == 12);
  CHECK(view->state == std::string("\0\xff state", 8));
  CHECK(view->state_revision == 12);
}

TEST_CASE("An address that no host has is not one that a leader wrote") {
  for (const char* const address : {"", "host\x1b[31m", "a\nb", "10.0.0.1:99", "a b"}) {
    INFO(address);
    LeaderRecord leader = some_leader();
    leader.addresses.emplace_back(address);
    const json lead = transaction_question(kKeys, enter_leader({}, leader, "5"));
    const json written = {{{"value", lead["success"][0]["requestPut"]["value"]}}, nullptr, nullptr};
    const auto view = view_of(kKeys, answer_with(written));
    REQUIRE_FALSE(view.has_value());
    CHECK(view.error().what == "etcd holds no coordinator of this job there, but something else");
  }
}

TEST_CASE("A leader is entered where nothing has changed since it looked") {
  ServiceView seen;
  seen.leader_revision = 40;
  seen.term_revision = 30;
  seen.state_revision = 35;
  const json compare =
      transaction_question(kKeys, enter_leader(seen, some_leader(), "5"))["compare"];
  REQUIRE(compare.size() == 3);
  CHECK(compare[0]["mod_revision"] == "40");
  CHECK(compare[1]["mod_revision"] == "30");
  CHECK(compare[2]["mod_revision"] == "35");
  CHECK(compare[0]["key"] != compare[1]["key"]);
  const json commit = transaction_question(kKeys, write_state(40, 35, "s", "6"))["compare"];
  CHECK(commit == json::array({compare[0], compare[2]}));
  // The end of a job leaves nothing.
  CHECK(transaction_question(kKeys, remove_leader(40, false))["success"].size() == 1);
  CHECK(transaction_question(kKeys, remove_leader(40, true))["success"].size() == 3);
}

TEST_CASE("A refused transaction tells what has changed") {
  const json asked = transaction_question(kKeys, write_state(40, 35, "s", "6"))["failure"];
  REQUIRE(asked.size() == 2);
  CHECK(asked[0]["requestRange"]["keys_only"] == true);
  const auto both = revisions_now(answer_with({json::object(), json::object()}));
  REQUIRE(both.has_value());
  CHECK(both->leader == 12);
  CHECK(both->state == 12);
  const auto none = revisions_now(answer_with({nullptr, nullptr}));
  REQUIRE(none.has_value());
  CHECK(none->leader == 0);
  CHECK_FALSE(revisions_now(json::object()).has_value());
}

TEST_CASE("A coordinator's numbers are whole and as large as they may be") {
  const auto read = [](const char* term, const char* port) {
    const std::string record =
        std::string(R"({"voter":"7","instance":"3","addresses":["a"],"term":)") + term +
        R"(,"port":)" + port + "}";
    json asked = transaction_question(kKeys, write_state(12, 11, record, "6"));
    return view_of(
        kKeys,
        answer_with({{{"value", asked["success"][0]["requestPut"]["value"]}}, nullptr, nullptr}));
  };
  CHECK(read("1", "65535").has_value());
  for (const char* const bad : {"-1", "0", "1.5", "1e300", "9223372036854775808", "\"1\""}) {
    CAPTURE(bad);
    CHECK_FALSE(read("1", bad).has_value());
    CHECK_FALSE(read(bad, "1").has_value());
  }
  CHECK_FALSE(read("1", "65536").has_value());
  CHECK(read("1", "0").error().sentence().find("ddprun/job/leader") != std::string::npos);
}

TEST_CASE("An etcd without the job has no leader and no state") {
  const auto view = view_of(kKeys, answer_with({nullptr, nullptr, nullptr}));
  REQUIRE(view.has_value());
  CHECK_FALSE(view->leader);
  CHECK(view->leader_revision == 0);
  CHECK(view->state.empty());
}

TEST_CASE("Whatever etcd answers is read or refused") {
  // Of one transaction with three ranges: what stands for the first, and for the second.
  const std::pair<const char*, const char*> ranges[] = {
      {"[]", "{}"},
      {R"({"kvs":{}})", "{}"},
      {R"({"kvs":[7]})", "{}"},
      {R"({"kvs":[{"value":"?"}]})", "{}"},
      {R"({"kvs":[{"value":"e30="}]})", "{}"},
      {"{}", R"({"kvs":[{"value":"eA=="}]})"},
  };
  std::vector<std::string> answers{"{}", R"({"responses":5})", R"({"responses":[]})",
                                   R"({"responses":[1,2,3]})", R"({"responses":[{},{},{}]})"};
  for (const auto& [first, second] : ranges) {
    answers.push_back(std::string(R"({"responses":[{"response_range":)") + first +
                      R"(},{"response_range":)" + second + R"(},{"response_range":{}}]})");
  }
  for (const std::string& answer : answers) {
    CAPTURE(answer);
    CHECK_FALSE(view_of(kKeys, json::parse(answer)).has_value());
  }
  CHECK_FALSE(has_succeeded(json::parse(R"({"succeeded":"yes"})")));
  CHECK(revision_of(json::parse(R"({"header":[]})")) == 0);
  CHECK(text_at(json::parse(R"({"ID":5})"), "ID").empty());
}

}  // namespace ddprun
