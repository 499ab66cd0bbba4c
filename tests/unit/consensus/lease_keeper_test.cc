#include "rendezvous/consensus/lease_keeper.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "tests/unit/consensus/played_api_server.h"

namespace ddprun {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using Write = LeaseKeeper::Write;

constexpr TenureLeases kLeases{seconds(15), seconds(600)};
const KubernetesAsked kAsked{"https://k:443", "default", "ddprun-job", "token"};

/// One process, beside a server. Time is the test's.
struct Process {
  Process(test::PlayedApiServer& the_server, const std::string& host, std::uint64_t drawn)
      : server(the_server), keeper({"job", host, drawn}, kLeases) {}

  [[nodiscard]] LeaseKeeper::Moment moment() const {
    return {now, WallTime(seconds(1'793'880'000) + wall)};
  }
  void read() {
    auto reply = lease_reply(LeaseVerb::get, server.take(LeaseVerb::get, {}), kAsked);
    keeper.saw(now, reply.lease ? *reply.lease : JobLease{});
  }
  ServiceView view() {
    read();
    return keeper.view(moment());
  }
  /// By what it knows: the answer, or that the server has refused the write.
  ServiceAnswer ask(const ServiceQuestion& question) {
    auto decision = keeper.decide(question, keeper.new_name(), moment());
    if (auto* write = std::get_if<Write>(&decision)) {
      const LeaseVerb verb = write->creates ? LeaseVerb::create : LeaseVerb::update;
      auto reply = lease_reply(verb, server.take(verb, write->body), kAsked);
      if (reply.kind != LeaseReply::Kind::done) {
        return {};
      }
      keeper.saw(now, *reply.lease);
      return write->done;
    }
    REQUIRE(std::holds_alternative<ServiceAnswer>(decision));
    return std::get<ServiceAnswer>(decision);
  }
  ServiceAnswer lead(const ServiceView& seen, std::uint32_t term) {
    lease = keeper.new_name();
    return ask(
        enter_leader(seen, {Term{term}, VoterId{9}, JobInstance{1}, {"10.0.0.1"}, 1}, lease));
  }

  /// And writes a state: the answer to that.
  ServiceAnswer lead_with_state() {
    const auto entered = lead(view(), 1);
    return ask(write_state(entered.revision, 0, "state", keeper.new_name()));
  }

  test::PlayedApiServer& server;
  LeaseKeeper keeper;
  Instant now{};
  seconds wall{};  ///< its clock on the wall
  ServiceLease lease;
};

}  // namespace

TEST_CASE("Of two who saw no leader one comes to lead") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  Process b(server, "b", 2);
  const ServiceView seen_by_a = a.view();
  const ServiceView seen_by_b = b.view();
  CHECK_FALSE(seen_by_a.leader);
  const ServiceAnswer entered = a.lead(seen_by_a, 1);
  CHECK(entered.done);
  CHECK(entered.revision > 0);
  CHECK_FALSE(b.lead(seen_by_b, 1).done);
  // And after it has looked again, the conditions of its question do not hold.
  b.read();
  const ServiceAnswer refused = b.lead(seen_by_b, 1);
  CHECK_FALSE(refused.done);
  CHECK(refused.leader_revision == entered.revision);
  CHECK(b.view().leader->term == Term{1});
  CHECK((*server.object)["spec"]["leaseTransitions"] == 0);
}

TEST_CASE("A leader is gone once its Lease was seen unchanged for as long as it lasts") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  Process b(server, "b", 2);
  a.lead(a.view(), 1);
  b.now = seconds(100);  // another clock; what counts is since when it has looked
  CHECK(b.view().leader);
  b.now += seconds(14);
  CHECK(b.view().leader);
  CHECK(a.ask(RenewLease{a.lease}).done);
  b.now += seconds(2);
  CHECK(b.view().leader);
  // What others write into the object renews nothing.
  (*server.object)["metadata"]["annotations"]["example.org/x"] = "y";
  (*server.object)["metadata"]["resourceVersion"] = "77";
  b.now += seconds(14);
  CHECK(b.view().leader);
  b.now += seconds(1);
  const ServiceView seen = b.view();
  CHECK_FALSE(seen.leader);
  CHECK(seen.leader_revision == 0);
  CHECK(seen.newest_term == Term{1});
  CHECK(b.lead(seen, 2).done);
  CHECK((*server.object)["spec"]["leaseTransitions"] == 1);
  CHECK((*server.object)["spec"]["holderIdentity"] == "b");
  // Who led before has no lease any more, and writes nothing.
  a.read();
  CHECK_FALSE(a.ask(RenewLease{a.lease}).done);
  CHECK(a.ask(RevokeLease{a.lease}).done);
  CHECK(b.view().leader->term == Term{2});
}

TEST_CASE("A leader that renews in time is not replaced by one that judged before") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  Process b(server, "b", 2);
  a.lead(a.view(), 1);
  b.view();
  b.now += seconds(20);
  const ServiceView seen = b.view();
  CHECK_FALSE(seen.leader);
  CHECK(a.ask(RenewLease{a.lease}).done);  // however late
  CHECK_FALSE(b.lead(seen, 2).done);
  b.read();
  CHECK_FALSE(b.lead(seen, 2).done);
  CHECK(b.view().leader->term == Term{1});
}

TEST_CASE("A state is kept for its lease when nobody leads") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  Process b(server, "b", 2);
  const auto entered = a.lead(a.view(), 1);
  const ServiceLease lease = a.keeper.new_name();
  const auto written = a.ask(write_state(entered.revision, 0, "state", lease));
  CHECK(written.revision > entered.revision);
  CHECK_FALSE(a.ask(write_state(entered.revision, 0, "late", lease)).done);
  CHECK(a.ask(look_at_leader(entered.revision)).done);
  CHECK(b.view().state == "state");
  b.now += seconds(599);
  b.wall += seconds(599);
  const ServiceView seen = b.view();
  CHECK_FALSE(seen.leader);
  CHECK(seen.state == "state");
  CHECK(seen.state_revision == written.revision);
  b.now += seconds(1);
  CHECK(b.view().state.empty());
  CHECK(b.view().state_revision == 0);
  CHECK(b.lead(b.view(), 2).done);
  CHECK(a.view().state.empty());
}

TEST_CASE("What was left yesterday is forgotten after a leader's lease") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  a.lead_with_state();
  Process b(server, "b", 2);
  b.wall += std::chrono::hours(24);
  CHECK(b.view().state == "state");
  b.now += seconds(14);
  CHECK(b.view().leader);
  b.now += seconds(1);
  CHECK_FALSE(b.view().leader);
  CHECK(b.view().state.empty());
  CHECK(b.view().newest_term == Term{1});
}

TEST_CASE("A clock that is wrong by a day ends no job that is led") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  a.lead_with_state();
  Process b(server, "b", 2);
  b.wall += std::chrono::hours(24);
  for (int second = 0; second < 60; ++second) {
    CHECK(a.ask(RenewLease{a.lease}).done);
    b.now += seconds(1);
    CHECK(b.view().leader);
    CHECK(b.view().state == "state");
  }
}

TEST_CASE("A write whose answer got lost is known again") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  const ServiceView seen = a.view();
  const ServiceLease lease = a.keeper.new_name();
  const std::string mark = a.keeper.new_name();
  const auto enter =
      enter_leader(seen, {Term{1}, VoterId{9}, JobInstance{1}, {"10.0.0.1"}, 1}, lease);
  const auto write = std::get<Write>(a.keeper.decide(enter, mark, a.moment()));
  CHECK(write.creates);
  server.take(LeaseVerb::create, write.body);
  a.read();
  const auto known = a.keeper.decide(enter, mark, a.moment());
  REQUIRE(std::holds_alternative<ServiceAnswer>(known));
  CHECK(std::get<ServiceAnswer>(known).done);
  CHECK(std::get<ServiceAnswer>(known).revision == write.done.revision);
  // Another question of this process is another one.
  const auto other = a.keeper.decide(enter, a.keeper.new_name(), a.moment());
  CHECK_FALSE(std::get<ServiceAnswer>(other).done);
}

TEST_CASE("What somebody else changes in a Lease is put right by its leader, or no write of ours") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  a.lead(a.view(), 1);
  (*server.object)["spec"]["leaseDurationSeconds"] = 1;
  a.read();
  CHECK(a.ask(RenewLease{a.lease}).done);
  CHECK((*server.object)["spec"]["leaseDurationSeconds"] == 15);
  // The name of the newest write alone is left.
  const std::string mark = (*server.object)["metadata"]["annotations"]["ddprun.io/writer"];
  (*server.object)["metadata"]["annotations"] = {{"ddprun.io/writer", mark}};
  (*server.object)["spec"]["holderIdentity"] = "";
  a.read();
  const auto known = a.keeper.decide(RenewLease{a.lease}, mark, a.moment());
  REQUIRE(std::holds_alternative<ServiceAnswer>(known));
  CHECK_FALSE(std::get<ServiceAnswer>(known).done);
}

TEST_CASE("A job that is over leaves a Lease that nobody holds, and the next begins anew") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  const auto entered = a.lead(a.view(), 7);
  a.ask(write_state(entered.revision, 0, "state", a.keeper.new_name()));
  CHECK(a.ask(remove_leader(entered.revision, true)).done);
  const ServiceView left = a.view();
  CHECK_FALSE(left.leader);
  CHECK(left.newest_term == Term{});
  CHECK(left.term_revision == 0);
  CHECK(left.state_revision == 0);
  CHECK((*server.object)["spec"]["holderIdentity"] == "");
  Process b(server, "b", 2);
  CHECK(b.lead(b.view(), 1).revision > entered.revision);
}

TEST_CASE("A Lease that somebody deletes is made anew, with other revisions") {
  test::PlayedApiServer server;
  Process a(server, "a", 1);
  Process b(server, "b", 1ULL << 50);
  const auto entered = a.lead(a.view(), 1);
  server.object.reset();
  CHECK_FALSE(a.ask(RenewLease{a.lease}).done);  // a conflict: the uid is another one
  a.read();
  CHECK_FALSE(a.ask(RenewLease{a.lease}).done);
  CHECK_FALSE(a.ask(look_at_leader(entered.revision)).done);
  const auto next = b.lead(b.view(), 1);
  CHECK(next.done);
  CHECK(next.revision != entered.revision);
}

}  // namespace ddprun
