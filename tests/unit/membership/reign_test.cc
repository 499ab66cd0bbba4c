#include "rendezvous/membership/reign.h"

#include <catch2/catch.hpp>

#include "rendezvous/membership/membership.h"

using namespace ddprun;

namespace {

constexpr NodeId n(std::uint64_t id) {
  return NodeId{id};
}
/// Node i has elector 100 + i.
constexpr ElectorId e(std::uint64_t id) {
  return ElectorId{100 + id};
}

constexpr RosterNumber roster(std::uint32_t term, std::uint32_t count) {
  return make_roster(Term{term}, e(1), count);
}
/// Of one that followed the coordinator of this past, and promised nothing since.
Pledge followed(const Past& past) {
  return {past.term, ElectorId{99}, past.roster};
}
/// Gave its word to another.
constexpr Pledge promised(std::uint32_t term, ElectorId to, RosterNumber seen) {
  return {Term{term}, to, seen};
}

/// The first coordinator, on node 1, with these nodes here.
Reign new_job(int nodes) {
  Reign reign(Term{1}, e(1), {}, AttemptNumber{0});
  for (int i = 1; i <= nodes; ++i) {
    const auto id = static_cast<std::uint64_t>(i);
    reign.joined(n(id), e(id), {}, std::nullopt);
  }
  return reign;
}

std::vector<NodeId> nodes(int count) {
  std::vector<NodeId> all;
  for (int i = 1; i <= count; ++i) {
    all.push_back(n(static_cast<std::uint64_t>(i)));
  }
  return all;
}

/// All of a plan, and the world is handed out.
void hand_out(Reign& reign, int count, std::uint32_t attempt) {
  const auto plan = reign.plan(nodes(count), {});
  REQUIRE(plan);
  for (const NodeId standby : plan->standbys) {
    (void)reign.standby_knows(standby, plan->succession.roster.number);
  }
  Reign::Step step = Reign::Step::wait;
  for (const NodeId node : nodes(count)) {
    if (step != Reign::Step::hand_out) {
      step = reign.prepared(node, plan->succession.roster.number);
    }
  }
  REQUIRE(step == Reign::Step::hand_out);
  reign.handed_out(AttemptNumber{attempt});
}

}  // namespace

TEST_CASE("A new world goes to the standbys, then to a quorum, then out") {
  Reign reign = new_job(5);
  CHECK(reign.quorum_follows());  // nobody decided for anything yet
  const auto plan = reign.plan(nodes(5), {});
  REQUIRE(plan);
  CHECK(plan->standbys == std::vector<NodeId>{n(2), n(3), n(4)});
  const RosterNumber roster = plan->succession.roster.number;
  CHECK(reign.standby_knows(n(2), roster) == Reign::Step::wait);
  CHECK(reign.standby_knows(n(2), roster) == Reign::Step::wait);  // said twice
  CHECK(reign.standby_knows(n(5), roster) == Reign::Step::wait);  // no standby
  CHECK(reign.prepared(n(1), roster) == Reign::Step::wait);       // nobody asked it yet
  CHECK(reign.standby_knows(n(3), roster) == Reign::Step::wait);
  CHECK(reign.standby_knows(n(4), roster) == Reign::Step::prepare);
  CHECK(reign.prepared(n(1), roster) == Reign::Step::wait);
  CHECK(reign.prepared(n(5), RosterNumber{7}) == Reign::Step::wait);  // of another plan
  CHECK(reign.prepared(n(5), roster) == Reign::Step::wait);
  CHECK(reign.prepared(n(3), roster) == Reign::Step::hand_out);  // three of five
  reign.handed_out(AttemptNumber{0});
  CHECK(reign.next_attempt() == AttemptNumber{1});
}

TEST_CASE("An attempt of an unchanged world needs no plan") {
  Reign reign = new_job(3);
  hand_out(reign, 3, 0);
  CHECK_FALSE(reign.plan(nodes(3), {}));
}

TEST_CASE("A plan that came to nothing has used its number up") {
  Reign reign = new_job(3);
  hand_out(reign, 3, 0);
  reign.joined(n(4), e(4), {}, std::nullopt);
  const auto grown = reign.plan(nodes(4), {});
  REQUIRE(grown);
  reign.left(n(4));
  reign.drop_plan();
  const auto anew = reign.plan(nodes(3), {});
  REQUIRE(anew);  // some may have prepared for the larger one
  CHECK(anew->succession.roster.number > grown->succession.roster.number);
}

TEST_CASE("A minority of the last world is no quorum, its coordinator's half is") {
  Reign reign = new_job(4);
  hand_out(reign, 4, 0);
  reign.left(n(4));
  CHECK(reign.quorum_follows());
  reign.left(n(3));
  CHECK(reign.quorum_follows());
  reign.left(n(2));
  CHECK_FALSE(reign.quorum_follows());
  CHECK(reign.quorum_text() == "1 of the 4 nodes that decide for the job are here, 2 are needed");
  reign.joined(n(9), e(9), {}, std::nullopt);  // a newcomer decides nothing
  CHECK_FALSE(reign.quorum_follows());
  reign.joined(n(10), e(2), {}, std::nullopt);  // the same agent on another connection
  CHECK(reign.quorum_follows());
}

TEST_CASE("Who is known to be dead votes for nobody else, and is counted as here") {
  Reign reign = new_job(4);
  hand_out(reign, 4, 0);
  reign.left(n(2), true);
  reign.left(n(3));
  reign.left(n(4));
  CHECK(reign.quorum_follows());
  CHECK(reign.dead().size() == 1);
  reign.joined(n(5), e(5), {}, std::nullopt);
  const auto plan = reign.plan({n(1), n(5)}, {});
  REQUIRE(plan);
  const RosterNumber roster = plan->succession.roster.number;
  CHECK(reign.standby_knows(n(5), roster) == Reign::Step::prepare);
  CHECK(reign.prepared(n(1), roster) == Reign::Step::hand_out);
  reign.handed_out(AttemptNumber{1});
  CHECK(reign.dead().empty());
}

TEST_CASE("A witness votes, and is a standby after the others") {
  Reign reign = new_job(3);
  const auto plan = reign.plan({n(1), n(2)}, {n(3)});
  REQUIRE(plan);
  CHECK(plan->standbys == std::vector<NodeId>{n(2), n(3)});
  CHECK(plan->succession.roster.electors == std::vector<ElectorId>{e(1), e(2), e(3)});
}

TEST_CASE("A new process at the endpoint waits for a quorum of those that ran before") {
  Reign reign(Term{1}, e(1), {}, AttemptNumber{0});
  reign.joined(n(1), e(1), {}, std::nullopt);
  CHECK(reign.quorum_follows());
  const Past past{Term{1}, AttemptNumber{4}, roster(1, 2), 4, 1, true};
  reign.joined(n(2), e(2), followed(past), past);
  // It stands where the coordinator before did: two of four, with that one's vote.
  CHECK(reign.quorum_follows());
  CHECK(reign.term() == Term{2});
  CHECK(reign.next_attempt() == AttemptNumber{6});
  const Past later{Term{3}, AttemptNumber{9}, roster(3, 1), 4, 1, false};
  reign.joined(n(3), e(3), followed(later), later);
  CHECK_FALSE(reign.quorum_follows());  // that coordinator was elsewhere, and may live
  reign.joined(n(4), e(4), followed(later), later);
  CHECK_FALSE(reign.quorum_follows());
  reign.joined(n(5), e(5), followed(later), later);
  CHECK(reign.quorum_follows());
  CHECK(reign.term() == Term{4});
  CHECK(reign.next_attempt() == AttemptNumber{11});
}

TEST_CASE("A job without succession asks nobody") {
  Reign reign(Term{1}, ElectorId{}, {}, AttemptNumber{0});
  reign.joined(n(1), ElectorId{}, {}, std::nullopt);
  CHECK_FALSE(reign.plan({n(1)}, {}));
  reign.handed_out(AttemptNumber{0});
  CHECK(reign.quorum_follows());
}

TEST_CASE("The first plan that standbys were told of binds as a world does") {
  Reign reign = new_job(3);
  const auto plan = reign.plan(nodes(3), {});
  REQUIRE(plan);
  CHECK(plan->succession.before.empty());
  reign.left(n(2));
  reign.drop_plan();
  CHECK(reign.quorum_follows());
  reign.left(n(3));
  CHECK_FALSE(reign.quorum_follows());  // those two may go on without it
  CHECK(reign.quorum_text() == "1 of the 3 nodes that decide for the job are here, 2 are needed");
  const auto alone = reign.plan({n(1)}, {});
  REQUIRE(alone);
  CHECK(alone->succession.before == std::vector<Roster>{plan->succession.roster});
  CHECK(reign.after_standbys() == Reign::Step::prepare);
  CHECK(reign.prepared(n(1), alone->succession.roster.number) == Reign::Step::wait);
}

TEST_CASE("A successor of a roster that may never have been used needs a quorum of both") {
  Succession known;
  known.roster = {roster(1, 2), {e(1), e(2), e(4)}};
  known.before = {{roster(1, 1), {e(1), e(2), e(3), e(5), e(6)}}};
  Reign reign(Term{2}, e(2), known, AttemptNumber{6});
  reign.joined(n(1), e(2), {}, std::nullopt);
  reign.joined(n(2), e(4), {}, std::nullopt);
  CHECK_FALSE(reign.quorum_follows());  // one of five of the roster before
  CHECK(reign.quorum_text() == "1 of the 5 nodes that decide for the job are here, 3 are needed");
  reign.joined(n(3), e(3), {}, std::nullopt);
  CHECK_FALSE(reign.quorum_follows());
  reign.joined(n(4), e(5), {}, std::nullopt);
  CHECK(reign.quorum_follows());
}

TEST_CASE("A job that ends while a world is prepared orders nothing of that world any more") {
  MembershipOptions options{"job", 2, 2, 0, std::chrono::seconds(60), std::chrono::seconds(1)};
  options.self = e(1);
  Membership job(options, Instant(0));
  NodeDescription node;
  node.job_id = "job";
  node.min_nodes = node.max_nodes = 2;
  for (const std::uint64_t id : {1U, 2U}) {
    node.host_name = "n" + std::to_string(id);
    node.elector = e(id);
    node.hosts_coordinator = id == 1;
    (void)job.apply(Instant(0), NodeJoined{n(id), node});
  }
  const RosterNumber planned = job.reign().planned().number;
  const auto ended = job.apply(Instant(1), StopRequested{n(2), 15});
  REQUIRE(std::holds_alternative<TellStandbys>(ended.back()));  // they may know of that world
  const RosterNumber end = job.reign().planned().number;
  CHECK(job.apply(Instant(2), StandbyKnows{n(2), planned}).empty());
  (void)job.apply(Instant(2), StandbyKnows{n(2), end});
  const auto told = job.apply(Instant(3), RosterPrepared{n(1), end});
  REQUIRE(told.size() == 1);
  CHECK(std::holds_alternative<FinishJob>(told.front()));
}

TEST_CASE("Ten thousand nodes prepare in a time that is linear in their number") {
  // A walk over all for each answer would be 10^8 steps and more, again and again: minutes.
  constexpr int kNodes = 10'000;
  Reign reign = new_job(kNodes);
  hand_out(reign, kNodes, 0);
  for (std::uint32_t attempt = 1; attempt <= 20; ++attempt) {
    // One is replaced: then also the quorum of the roster before is asked for at each step.
    const std::uint64_t leaver = 2 + attempt;
    reign.left(n(leaver));
    reign.joined(n(leaver + 100'000), e(leaver + 100'000), {}, std::nullopt);
    std::vector<NodeId> all = nodes(kNodes);
    for (std::uint64_t gone = 3; gone <= leaver; ++gone) {
      all[gone - 1] = n(gone + 100'000);
    }
    const auto plan = reign.plan(all, {});
    REQUIRE(plan);
    for (const NodeId standby : plan->standbys) {
      (void)reign.standby_knows(standby, plan->succession.roster.number);
    }
    int asked = 0;
    while (reign.prepared(all[static_cast<std::size_t>(asked)], plan->succession.roster.number) !=
           Reign::Step::hand_out) {
      REQUIRE(reign.quorum_follows());
      ++asked;
    }
    CHECK(asked + 1 == kNodes / 2 + 1);  // the newcomer does not count for the roster before
    reign.handed_out(AttemptNumber{attempt});
  }
}

TEST_CASE("Who gave its word to another counts once it has prepared for a plan of a later term") {
  Reign reign = new_job(4);
  hand_out(reign, 4, 0);
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    reign.left(n(id));
  }
  CHECK_FALSE(reign.quorum_follows());
  reign.joined(n(5), e(2), promised(7, e(3), roster(1, 1)), std::nullopt);
  // Two of four would do, were it not for the vote: with it the third may reign over the other
  // half.
  CHECK_FALSE(reign.quorum_follows());
  CHECK(reign.quorum_text() == "2 of the 4 nodes that decide for the job are here, 3 are needed");
  CHECK_FALSE(reign.is_free(n(5)));
  reign.joined(n(6), e(3), promised(7, e(3), roster(1, 1)), std::nullopt);
  CHECK(reign.quorum_follows());
  const auto plan = reign.plan({n(1), n(5), n(6)}, {});
  REQUIRE(plan);
  CHECK(plan->succession.term == Term{8});
  CHECK(plan->succession.since == Term{1});
  const RosterNumber number = plan->succession.roster.number;
  (void)reign.standby_knows(n(5), number);
  CHECK(reign.standby_knows(n(6), number) == Reign::Step::prepare);
  CHECK(reign.prepared(n(1), number) == Reign::Step::wait);
  CHECK(reign.prepared(n(5), number) == Reign::Step::wait);
  CHECK(reign.term() == Term{1});  // until it is handed out
  CHECK(reign.prepared(n(6), number) == Reign::Step::hand_out);
  reign.handed_out(AttemptNumber{1});
  CHECK(reign.term() == Term{8});
  CHECK(reign.is_free(n(5)));
  CHECK_FALSE(reign.plan({n(1), n(5), n(6)}, {}));
}

TEST_CASE("Who prepares late is free from then on") {
  Reign reign = new_job(3);
  hand_out(reign, 3, 0);
  reign.left(n(3));
  reign.joined(n(4), e(3), promised(5, e(3), roster(1, 1)), std::nullopt);
  const auto plan = reign.plan({n(1), n(2), n(4)}, {});
  REQUIRE(plan);
  const RosterNumber number = plan->succession.roster.number;
  (void)reign.standby_knows(n(2), number);
  (void)reign.standby_knows(n(4), number);
  (void)reign.prepared(n(1), number);
  REQUIRE(reign.prepared(n(2), number) == Reign::Step::hand_out);
  reign.handed_out(AttemptNumber{1});
  CHECK_FALSE(reign.is_free(n(4)));
  CHECK(reign.prepared(n(4), number) == Reign::Step::wait);
  CHECK(reign.is_free(n(4)));
}

TEST_CASE("A plan after one that was dropped is of no earlier term") {
  Reign reign = new_job(3);
  hand_out(reign, 3, 0);
  reign.left(n(3));
  reign.joined(n(4), e(3), promised(5, e(3), roster(1, 1)), std::nullopt);
  REQUIRE(reign.plan({n(1), n(2), n(4)}, {})->succession.term == Term{6});
  reign.left(n(4));  // others may have prepared
  CHECK(reign.plan({n(1), n(2)}, {})->succession.term == Term{6});
}

TEST_CASE(
    "Who is ahead of its coordinator counts for nothing, and without it there may be a quorum") {
  Reign reign = new_job(5);
  hand_out(reign, 5, 0);
  reign.left(n(4));
  reign.left(n(5));
  // It has prepared for a world of a successor.
  reign.joined(n(6), e(5), promised(2, e(4), roster(2, 1)), std::nullopt);
  CHECK(reign.quorum_follows());
  CHECK_FALSE(reign.outdated());
  reign.left(n(3));
  CHECK_FALSE(reign.quorum_follows());  // two of five, and one that is ahead
  CHECK(reign.outdated());
  reign.joined(n(7), e(3), {}, std::nullopt);
  CHECK_FALSE(reign.outdated());
  const auto plan = reign.plan({n(1), n(2), n(6), n(7)}, {});
  REQUIRE(plan);
  CHECK(plan->succession.term == Term{3});
}

TEST_CASE("Who promised its vote and died may have made another one the coordinator") {
  Reign reign = new_job(4);
  hand_out(reign, 4, 0);
  reign.left(n(2));
  reign.left(n(3));
  reign.left(n(4));
  reign.joined(n(5), e(2), promised(2, e(3), roster(1, 1)), std::nullopt);
  reign.left(n(5), true);
  CHECK(reign.dead().empty());
  CHECK_FALSE(reign.quorum_follows());
}

TEST_CASE("A first world that was announced is waited for by the next process at the endpoint") {
  Reign reign(Term{1}, e(1), {}, AttemptNumber{0});
  reign.joined(n(1), e(1), {}, std::nullopt);
  const Past announced{Term{1}, {}, roster(1, 1), 4, {}, true};
  reign.joined(n(2), e(2), followed(announced), announced);
  CHECK(reign.quorum_follows());  // two of four, with the vote of who was here before
  reign.left(n(2), true);
  CHECK(reign.quorum_follows());  // it is dead, and votes for no other
  reign.joined(n(3), e(3), {}, std::nullopt);
  const auto plan = reign.plan({n(1), n(3)}, {});
  REQUIRE(plan);
  (void)reign.standby_knows(n(3), plan->succession.roster.number);
  CHECK(reign.prepared(n(1), plan->succession.roster.number) == Reign::Step::hand_out);
}
