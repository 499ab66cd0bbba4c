#include "rendezvous/membership/leadership.h"

#include <catch2/catch.hpp>

#include "rendezvous/membership/membership.h"

using namespace ddprun;

namespace {

constexpr NodeId n(std::uint64_t id) {
  return NodeId{id};
}
/// Node i has voter 100 + i.
constexpr VoterId e(std::uint64_t id) {
  return VoterId{100 + id};
}

constexpr ConfigurationNumber configuration(std::uint32_t term, std::uint32_t count) {
  return make_configuration(Term{term}, e(1), count);
}
/// Of one that followed the coordinator of this past, and promised nothing since.
Promise followed(const Past& past) {
  return {past.term, VoterId{99}, past.configuration};
}
/// Gave its word to another.
constexpr Promise promised(std::uint32_t term, VoterId to, ConfigurationNumber seen) {
  return {Term{term}, to, seen};
}

/// The first coordinator, on node 1, with these nodes here.
Leadership new_job(int nodes) {
  Leadership leadership(Term{1}, e(1), {}, AttemptNumber{0});
  for (int i = 1; i <= nodes; ++i) {
    const auto id = static_cast<std::uint64_t>(i);
    leadership.joined(n(id), e(id), {}, std::nullopt);
  }
  return leadership;
}

std::vector<NodeId> nodes(int count) {
  std::vector<NodeId> all;
  for (int i = 1; i <= count; ++i) {
    all.push_back(n(static_cast<std::uint64_t>(i)));
  }
  return all;
}

/// All of a plan, and the world is handed out.
void hand_out(Leadership& leadership, int count, std::uint32_t attempt) {
  const auto plan = leadership.plan(nodes(count), {});
  REQUIRE(plan);
  for (const NodeId standby : plan->standbys) {
    (void)leadership.standby_knows(standby, plan->replicated.configuration.number);
  }
  Leadership::Step step = Leadership::Step::wait;
  for (const NodeId node : nodes(count)) {
    if (step != Leadership::Step::hand_out) {
      step = leadership.prepared(node, plan->replicated.configuration.number);
    }
  }
  REQUIRE(step == Leadership::Step::hand_out);
  leadership.handed_out(AttemptNumber{attempt});
}

}  // namespace

TEST_CASE("A new world goes to the standbys, then to a quorum, then out") {
  Leadership leadership = new_job(5);
  CHECK(leadership.quorum_follows());  // nobody decided for anything yet
  const auto plan = leadership.plan(nodes(5), {});
  REQUIRE(plan);
  CHECK(plan->standbys == std::vector<NodeId>{n(3), n(4), n(5)});
  const ConfigurationNumber configuration = plan->replicated.configuration.number;
  CHECK(leadership.standby_knows(n(5), configuration) == Leadership::Step::wait);
  CHECK(leadership.standby_knows(n(5), configuration) == Leadership::Step::wait);  // said twice
  CHECK(leadership.standby_knows(n(2), configuration) == Leadership::Step::wait);  // no standby
  CHECK(leadership.prepared(n(1), configuration) == Leadership::Step::wait);  // nobody asked it yet
  CHECK(leadership.standby_knows(n(3), configuration) == Leadership::Step::wait);
  CHECK(leadership.standby_knows(n(4), configuration) == Leadership::Step::prepare);
  CHECK(leadership.prepared(n(1), configuration) == Leadership::Step::wait);
  CHECK(leadership.prepared(n(5), ConfigurationNumber{7}) ==
        Leadership::Step::wait);  // of another plan
  CHECK(leadership.prepared(n(5), configuration) == Leadership::Step::wait);
  CHECK(leadership.prepared(n(3), configuration) == Leadership::Step::hand_out);  // three of five
  leadership.handed_out(AttemptNumber{0});
  CHECK(leadership.next_attempt() == AttemptNumber{1});
}

TEST_CASE("An attempt of an unchanged world needs no plan") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  CHECK_FALSE(leadership.plan(nodes(3), {}));
}

TEST_CASE("A plan that came to nothing has used its number up") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.joined(n(4), e(4), {}, std::nullopt);
  const auto grown = leadership.plan(nodes(4), {});
  REQUIRE(grown);
  leadership.left(n(4));
  leadership.drop_plan();
  const auto anew = leadership.plan(nodes(3), {});
  REQUIRE(anew);  // some may have prepared for the larger one
  CHECK(anew->replicated.configuration.number > grown->replicated.configuration.number);
}

TEST_CASE("A minority of the last world is no quorum, its coordinator's half is") {
  Leadership leadership = new_job(4);
  hand_out(leadership, 4, 0);
  leadership.left(n(4));
  CHECK(leadership.quorum_follows());
  leadership.left(n(3));
  CHECK(leadership.quorum_follows());
  leadership.left(n(2));
  CHECK_FALSE(leadership.quorum_follows());
  CHECK(leadership.quorum_text() ==
        "1 of the 4 nodes that decide for the job are here, 2 are needed");
  leadership.joined(n(9), e(9), {}, std::nullopt);  // a newcomer decides nothing
  CHECK_FALSE(leadership.quorum_follows());
  leadership.joined(n(10), e(2), {}, std::nullopt);  // the same agent on another connection
  CHECK(leadership.quorum_follows());
}

TEST_CASE("Who is known to be dead votes for nobody else, and is counted as here") {
  Leadership leadership = new_job(4);
  hand_out(leadership, 4, 0);
  leadership.left(n(2), true);
  leadership.left(n(3));
  leadership.left(n(4));
  CHECK(leadership.quorum_follows());
  CHECK(leadership.dead().size() == 1);
  leadership.joined(n(5), e(5), {}, std::nullopt);
  const auto plan = leadership.plan({n(1), n(5)}, {});
  REQUIRE(plan);
  const ConfigurationNumber configuration = plan->replicated.configuration.number;
  CHECK(leadership.standby_knows(n(5), configuration) == Leadership::Step::prepare);
  CHECK(leadership.prepared(n(1), configuration) == Leadership::Step::hand_out);
  leadership.handed_out(AttemptNumber{1});
  CHECK(leadership.dead().empty());
}

TEST_CASE("Standbys are spread over the order of ranks, and witnesses are among them") {
  Leadership leadership = new_job(102);
  std::vector<NodeId> members = nodes(100);
  CHECK(leadership.plan(members, {})->standbys == std::vector<NodeId>{n(26), n(51), n(76)});
  CHECK(leadership.plan(members, {n(101)})->standbys == std::vector<NodeId>{n(35), n(68), n(101)});
  CHECK(leadership.plan(members, {n(101), n(102)})->standbys ==
        std::vector<NodeId>{n(51), n(101), n(102)});
  for (int count = 1; count <= 9; ++count) {  // all there are, none twice, while they are few
    const std::vector<NodeId> chosen = leadership.plan(nodes(count), {})->standbys;
    CHECK(std::set<NodeId>(chosen.begin(), chosen.end()).size() ==
          std::min<std::size_t>(static_cast<std::size_t>(count) - 1, kStandbysMax));
  }
}

TEST_CASE("A witness votes, and is a standby after the others") {
  Leadership leadership = new_job(3);
  const auto plan = leadership.plan({n(1), n(2)}, {n(3)});
  REQUIRE(plan);
  CHECK(plan->standbys == std::vector<NodeId>{n(2), n(3)});
  CHECK(plan->replicated.configuration.voters == std::vector<VoterId>{e(1), e(2), e(3)});
}

TEST_CASE("A new process at the endpoint waits for a quorum of those that ran before") {
  Leadership leadership(Term{1}, e(1), {}, AttemptNumber{0});
  leadership.joined(n(1), e(1), {}, std::nullopt);
  CHECK(leadership.quorum_follows());
  const Past past{Term{1}, AttemptNumber{4}, configuration(1, 2), 4, 1, true};
  leadership.joined(n(2), e(2), followed(past), past);
  CHECK_FALSE(leadership.quorum_follows());  // the one before may have voted for another
  Past saw_close = past;
  saw_close.saw_close = true;
  leadership.joined(n(12), e(12), followed(past), saw_close);
  leadership.left(n(12));
  // It stands where the coordinator before did, which led until it died: two of four.
  CHECK(leadership.quorum_follows());
  CHECK(leadership.term() == Term{2});
  CHECK(leadership.next_attempt() == AttemptNumber{6});
  const Past later{Term{3}, AttemptNumber{9}, configuration(3, 1), 4, 1, false};
  leadership.joined(n(3), e(3), followed(later), later);
  CHECK_FALSE(leadership.quorum_follows());  // that coordinator was elsewhere, and may live
  leadership.joined(n(4), e(4), followed(later), later);
  CHECK_FALSE(leadership.quorum_follows());
  leadership.joined(n(5), e(5), followed(later), later);
  CHECK(leadership.quorum_follows());
  CHECK(leadership.term() == Term{4});
  CHECK(leadership.next_attempt() == AttemptNumber{11});
}

TEST_CASE("A node of the past that is here twice counts once") {
  Leadership leadership(Term{1}, e(1), {}, AttemptNumber{0});
  leadership.joined(n(1), e(1), {}, std::nullopt);
  const Past past{Term{1}, AttemptNumber{4}, configuration(1, 2), 5, 1, true};
  leadership.joined(n(2), e(2), followed(past), past);
  leadership.joined(n(3), e(2), followed(past), past);
  CHECK_FALSE(leadership.quorum_follows());  // one of five
  leadership.left(n(2));
  CHECK_FALSE(leadership.quorum_follows());
  leadership.joined(n(4), e(3), followed(past), past);
  CHECK_FALSE(leadership.quorum_follows());
  CHECK_FALSE(leadership.past_is_here());
  leadership.joined(n(5), e(4), followed(past), past);
  CHECK(leadership.quorum_follows());
  leadership.joined(n(6), e(5), followed(past), past);
  CHECK(leadership.past_is_here());
  leadership.left(n(6));
  CHECK_FALSE(leadership.past_is_here());
  leadership.joined(n(7), e(5), followed(past), past);
  leadership.left(n(7), true);
  CHECK(leadership.past_is_here());  // its agent is dead, and so are its workers
}

TEST_CASE(
    "The next attempt is above all that anybody here remembers, also in a job that has begun") {
  Leadership leadership = new_job(2);
  hand_out(leadership, 2, 0);
  const Past past{Term{3}, AttemptNumber{4}, configuration(3, 1), 2, 1, true};
  leadership.joined(n(3), e(3), followed(past), past);
  CHECK(leadership.next_attempt() == AttemptNumber{5});
  leadership.left(n(3));
  CHECK(leadership.next_attempt() == AttemptNumber{5});
  hand_out(leadership, 2, 5);
  CHECK(leadership.next_attempt() == AttemptNumber{6});
}

TEST_CASE("A job without failover asks nobody") {
  Leadership leadership(Term{1}, VoterId{}, {}, AttemptNumber{0});
  leadership.joined(n(1), VoterId{}, {}, std::nullopt);
  CHECK_FALSE(leadership.plan({n(1)}, {}));
  leadership.handed_out(AttemptNumber{0});
  CHECK(leadership.quorum_follows());
}

TEST_CASE("The first plan that standbys were told of binds as a world does") {
  Leadership leadership = new_job(3);
  const auto plan = leadership.plan(nodes(3), {});
  REQUIRE(plan);
  CHECK(plan->replicated.before.empty());
  leadership.left(n(2));
  leadership.drop_plan();
  CHECK(leadership.quorum_follows());
  leadership.left(n(3));
  CHECK_FALSE(leadership.quorum_follows());  // those two may go on without it
  CHECK(leadership.quorum_text() ==
        "1 of the 3 nodes that decide for the job are here, 2 are needed");
  const auto alone = leadership.plan({n(1)}, {});
  REQUIRE(alone);
  CHECK(alone->replicated.before == std::vector<Configuration>{plan->replicated.configuration});
  CHECK(leadership.after_standbys() == Leadership::Step::prepare);
  CHECK(leadership.prepared(n(1), alone->replicated.configuration.number) ==
        Leadership::Step::wait);
}

TEST_CASE("A successor of a configuration that may never have been used needs a quorum of both") {
  ReplicatedState known;
  known.configuration = {configuration(1, 2), {e(1), e(2), e(4)}};
  known.before = {{configuration(1, 1), {e(1), e(2), e(3), e(5), e(6)}}};
  Leadership leadership(Term{2}, e(2), known, AttemptNumber{6});
  leadership.joined(n(1), e(2), {}, std::nullopt);
  leadership.joined(n(2), e(4), {}, std::nullopt);
  CHECK_FALSE(leadership.quorum_follows());  // one of five of the configuration before
  CHECK(leadership.quorum_text() ==
        "1 of the 5 nodes that decide for the job are here, 3 are needed");
  leadership.joined(n(3), e(3), {}, std::nullopt);
  CHECK_FALSE(leadership.quorum_follows());
  leadership.joined(n(4), e(5), {}, std::nullopt);
  CHECK(leadership.quorum_follows());
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
    node.voter = e(id);
    node.hosts_coordinator = id == 1;
    (void)job.apply(Instant(0), NodeJoined{n(id), node});
  }
  const ConfigurationNumber planned = job.leadership().planned().number;
  const auto ended = job.apply(Instant(1), StopRequested{n(2), 15});
  REQUIRE(std::holds_alternative<TellStandbys>(ended.back()));  // they may know of that world
  const ConfigurationNumber end = job.leadership().planned().number;
  CHECK(job.apply(Instant(2), StandbyKnows{n(2), planned}).empty());
  (void)job.apply(Instant(2), StandbyKnows{n(2), end});
  const auto told = job.apply(Instant(3), ConfigurationPrepared{n(1), end});
  REQUIRE(told.size() == 1);
  CHECK(std::holds_alternative<FinishJob>(told.front()));
}

TEST_CASE("Ten thousand nodes prepare in a time that is linear in their number") {
  // A walk over all for each answer would be 10^8 steps and more, again and again: minutes.
  constexpr int kNodes = 10'000;
  Leadership leadership = new_job(kNodes);
  hand_out(leadership, kNodes, 0);
  for (std::uint32_t attempt = 1; attempt <= 20; ++attempt) {
    // One is replaced: then also the quorum of the configuration before is asked for at each step.
    const std::uint64_t leaver = 2 + attempt;
    leadership.left(n(leaver));
    leadership.joined(n(leaver + 100'000), e(leaver + 100'000), {}, std::nullopt);
    std::vector<NodeId> all = nodes(kNodes);
    for (std::uint64_t gone = 3; gone <= leaver; ++gone) {
      all[gone - 1] = n(gone + 100'000);
    }
    const auto plan = leadership.plan(all, {});
    REQUIRE(plan);
    for (const NodeId standby : plan->standbys) {
      (void)leadership.standby_knows(standby, plan->replicated.configuration.number);
    }
    int asked = 0;
    while (leadership.prepared(all[static_cast<std::size_t>(asked)],
                               plan->replicated.configuration.number) !=
           Leadership::Step::hand_out) {
      REQUIRE(leadership.quorum_follows());
      ++asked;
    }
    CHECK(asked + 1 == kNodes / 2 + 1);  // the newcomer does not count for the configuration before
    leadership.handed_out(AttemptNumber{attempt});
  }
}

TEST_CASE("Who gave its word to another counts once it has prepared for a plan of a later term") {
  Leadership leadership = new_job(4);
  hand_out(leadership, 4, 0);
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    leadership.left(n(id));
  }
  CHECK_FALSE(leadership.quorum_follows());
  leadership.joined(n(5), e(2), promised(7, e(3), configuration(1, 1)), std::nullopt);
  // Two of four would do, were it not for the vote: with it the third may lead over the other
  // half.
  CHECK_FALSE(leadership.quorum_follows());
  CHECK(leadership.quorum_text() ==
        "2 of the 4 nodes that decide for the job are here, 3 are needed");
  CHECK_FALSE(leadership.is_free(n(5)));
  leadership.joined(n(6), e(3), promised(7, e(3), configuration(1, 1)), std::nullopt);
  CHECK(leadership.quorum_follows());
  const auto plan = leadership.plan({n(1), n(5), n(6)}, {});
  REQUIRE(plan);
  CHECK(plan->replicated.term == Term{8});
  CHECK(plan->replicated.since == Term{1});
  const ConfigurationNumber number = plan->replicated.configuration.number;
  (void)leadership.standby_knows(n(5), number);
  CHECK(leadership.standby_knows(n(6), number) == Leadership::Step::prepare);
  CHECK(leadership.prepared(n(1), number) == Leadership::Step::wait);
  CHECK(leadership.prepared(n(5), number) == Leadership::Step::wait);
  CHECK(leadership.term() == Term{1});  // until it is handed out
  CHECK(leadership.prepared(n(6), number) == Leadership::Step::hand_out);
  leadership.handed_out(AttemptNumber{1});
  CHECK(leadership.term() == Term{8});
  CHECK(leadership.is_free(n(5)));
  CHECK_FALSE(leadership.plan({n(1), n(5), n(6)}, {}));
}

TEST_CASE("Who prepares late is free from then on") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.left(n(3));
  leadership.joined(n(4), e(3), promised(5, e(3), configuration(1, 1)), std::nullopt);
  const auto plan = leadership.plan({n(1), n(2), n(4)}, {});
  REQUIRE(plan);
  const ConfigurationNumber number = plan->replicated.configuration.number;
  (void)leadership.standby_knows(n(2), number);
  (void)leadership.standby_knows(n(4), number);
  (void)leadership.prepared(n(1), number);
  REQUIRE(leadership.prepared(n(2), number) == Leadership::Step::hand_out);
  leadership.handed_out(AttemptNumber{1});
  CHECK_FALSE(leadership.is_free(n(4)));
  CHECK(leadership.prepared(n(4), number) == Leadership::Step::wait);
  CHECK(leadership.is_free(n(4)));
}

TEST_CASE("A plan after one that was dropped is of no earlier term") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.left(n(3));
  leadership.joined(n(4), e(3), promised(5, e(3), configuration(1, 1)), std::nullopt);
  REQUIRE(leadership.plan({n(1), n(2), n(4)}, {})->replicated.term == Term{6});
  leadership.left(n(4));  // others may have prepared
  CHECK(leadership.plan({n(1), n(2)}, {})->replicated.term == Term{6});
}

TEST_CASE(
    "Who is ahead of its coordinator counts for nothing, and without it there may be a quorum") {
  Leadership leadership = new_job(5);
  hand_out(leadership, 5, 0);
  leadership.left(n(4));
  leadership.left(n(5));
  // It has prepared for a world of a successor.
  leadership.joined(n(6), e(5), promised(2, e(4), configuration(2, 1)), std::nullopt);
  CHECK(leadership.quorum_follows());
  CHECK_FALSE(leadership.outdated());
  leadership.left(n(3));
  CHECK_FALSE(leadership.quorum_follows());  // two of five, and one that is ahead
  CHECK(leadership.outdated());
  leadership.joined(n(7), e(3), {}, std::nullopt);
  CHECK_FALSE(leadership.outdated());
  const auto plan = leadership.plan({n(1), n(2), n(6), n(7)}, {});
  REQUIRE(plan);
  CHECK(plan->replicated.term == Term{3});
}

TEST_CASE("Who promised its vote and died may have made another one the coordinator") {
  Leadership leadership = new_job(4);
  hand_out(leadership, 4, 0);
  leadership.left(n(2));
  leadership.left(n(3));
  leadership.left(n(4));
  leadership.joined(n(5), e(2), promised(2, e(3), configuration(1, 1)), std::nullopt);
  leadership.left(n(5), true);
  CHECK(leadership.dead().empty());
  CHECK_FALSE(leadership.quorum_follows());
}

TEST_CASE("A first world that was announced is waited for by the next process at the endpoint") {
  Leadership leadership(Term{1}, e(1), {}, AttemptNumber{0});
  leadership.joined(n(1), e(1), {}, std::nullopt);
  Past announced{Term{1}, {}, configuration(1, 1), 4, {}, true};
  announced.saw_close = true;
  leadership.joined(n(2), e(2), followed(announced), announced);
  CHECK(leadership.quorum_follows());  // two of four, with the vote of the one before
  leadership.left(n(2), true);
  CHECK_FALSE(leadership.quorum_follows());  // nobody is left that would remember
  leadership.joined(n(4), e(4), followed(announced), announced);
  CHECK(leadership.quorum_follows());  // the dead one votes for no other
  leadership.joined(n(3), e(3), {}, std::nullopt);
  const auto plan = leadership.plan({n(1), n(3)}, {});
  REQUIRE(plan);
  (void)leadership.standby_knows(n(3), plan->replicated.configuration.number);
  CHECK(leadership.prepared(n(1), plan->replicated.configuration.number) == Leadership::Step::wait);
  CHECK(leadership.prepared(n(4), plan->replicated.configuration.number) ==
        Leadership::Step::hand_out);
}
