#include "rendezvous/membership/leadership.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "rendezvous/membership/membership.h"
#include "tests/unit/membership/leading_job.h"

using namespace ddprun;

TEST_CASE("A new world goes to the voters, and out once a quorum keeps it") {
  Leadership leadership = new_job(5);
  CHECK(leadership.quorum_follows());  // nobody decided for anything yet
  const auto plan = leadership.plan(nodes(5), {});
  REQUIRE(plan);
  CHECK(plan->voters == std::vector<NodeId>{n(2), n(3), n(4), n(5), n(1)});
  const ConfigurationNumber configuration = plan->replicated.configuration.number;
  CHECK_FALSE(leadership.acknowledged(n(1), configuration));
  CHECK_FALSE(leadership.acknowledged(n(5), ConfigurationNumber{7}));  // another plan
  CHECK_FALSE(leadership.acknowledged(n(5), configuration));
  CHECK_FALSE(leadership.acknowledged(n(5), configuration));  // said twice
  CHECK_FALSE(leadership.committed());
  CHECK(leadership.acknowledged(n(3), configuration));  // three of five
  CHECK(leadership.committed());
  leadership.handed_out(AttemptNumber{0});
  CHECK(leadership.next_attempt() == AttemptNumber{1});
}

TEST_CASE("A voter that keeps a void configuration is to be told of the one that is in use") {
  Leadership leadership = new_job(2);
  hand_out(leadership, 2, 0);
  const ConfigurationNumber of_another = make_configuration(Term{1}, e(9), 5);
  leadership.joined(n(3), e(3), {Term{1}, e(9), of_another, {}}, std::nullopt);
  const auto plan = leadership.plan(nodes(3), {});
  REQUIRE(plan);
  CHECK_FALSE(plan->replicated.log_position().covers(of_another));  // so it keeps what it has
  const ConfigurationNumber configuration = plan->replicated.configuration.number;
  (void)leadership.acknowledged(n(1), configuration);
  REQUIRE(leadership.acknowledged(n(2), configuration));
  CHECK(leadership.handed_out(AttemptNumber{1}));
  CHECK_FALSE(leadership.is_free(n(3)));
  CHECK(leadership.in_use().log_position().covers(of_another));
  CHECK_FALSE(leadership.acknowledged(n(3), configuration));
  CHECK(leadership.is_free(n(3)));
  CHECK_FALSE(leadership.handed_out(AttemptNumber{2}));
}

TEST_CASE("An attempt of an unchanged world needs no plan") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  CHECK_FALSE(leadership.plan(nodes(3), {}));
}

TEST_CASE("A world of the same voters and another learner is planned anew") {
  Leadership leadership = new_job(4, 3);
  hand_out(leadership, {n(1), n(2), n(3)}, 0);
  CHECK_FALSE(leadership.plan({n(1), n(2), n(3)}, {}));
  leadership.left(n(3));
  const auto plan = leadership.plan({n(1), n(2), n(4)}, {});
  REQUIRE(plan);  // a successor has to know that it may have been handed out
  CHECK(plan->replicated.before.size() == 1);
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
  REQUIRE(anew);  // some may have kept the larger one
  CHECK(anew->replicated.configuration.number > grown->replicated.configuration.number);
}

TEST_CASE("A minority of the voters is no quorum, the coordinator's half is") {
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

TEST_CASE("Of a voter with two connections the worse one counts") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.left(n(3));
  leadership.joined(n(4), e(2), promised(5, e(3), configuration(1, 1)), std::nullopt);
  CHECK_FALSE(leadership.is_free(n(4)));
  CHECK(leadership.quorum_follows());  // two of three, though one is bound
  leadership.left(n(4), true);
  CHECK(leadership.here().dead().empty());  // it is here on another connection
  leadership.joined(n(5), e(2), promised(5, e(3), configuration(5, 1)), std::nullopt);
  CHECK_FALSE(leadership.quorum_follows());  // it keeps what this coordinator does not know
  leadership.left(n(5));
  CHECK(leadership.quorum_follows());
}

TEST_CASE("Who is known to be dead votes for nobody else, and is counted as here") {
  Leadership leadership = new_job(4);
  hand_out(leadership, 4, 0);
  CHECK_FALSE(leadership.needs_nobody());
  leadership.left(n(2), true);
  CHECK(leadership.needs_nobody());
  leadership.left(n(3));
  leadership.left(n(4));
  CHECK(leadership.quorum_follows());
  CHECK(leadership.here().dead().size() == 1);
  leadership.joined(n(5), e(5), {}, std::nullopt);
  hand_out(leadership, std::vector{n(1), n(5)}, 1);
  CHECK(leadership.here().dead().empty());
}

TEST_CASE("A coordinator whose own node is a spare needs the voters") {
  Leadership leadership = new_job(3);
  hand_out(leadership, std::vector{n(2), n(3)}, 0);
  CHECK_FALSE(leadership.needs_nobody());
  leadership.left(n(3));
  CHECK_FALSE(leadership.quorum_follows());  // half of the voters, and it is none of them
}

TEST_CASE("Voters are few, spread over the order of ranks, and witnesses are among them") {
  const auto voters_of = [](int members, const std::vector<NodeId>& witnesses) {
    return new_job(102).plan(nodes(members), witnesses)->voters;
  };
  // Of the 99 others six: a seventh of the way apart.
  CHECK(voters_of(100, {}) == std::vector<NodeId>{n(16), n(30), n(44), n(58), n(72), n(86), n(1)});
  CHECK(voters_of(100, {n(101), n(102)}) ==
        std::vector<NodeId>{n(21), n(41), n(61), n(81), n(101), n(102), n(1)});
  for (int count = 1; count <= 9; ++count) {  // all there are, none twice, while they are few
    const std::vector<NodeId> chosen = voters_of(count, {});
    CHECK(std::set<NodeId>(chosen.begin(), chosen.end()).size() ==
          std::min<std::size_t>(static_cast<std::size_t>(count), kVotersMax));
  }
}

TEST_CASE("A witness votes, and stands after the others") {
  Leadership leadership = new_job(3);
  const auto plan = leadership.plan({n(1), n(2)}, {n(3)});
  REQUIRE(plan);
  CHECK(plan->voters == std::vector<NodeId>{n(2), n(3), n(1)});
  CHECK(plan->replicated.configuration.voters == std::vector<VoterId>{e(1), e(2), e(3)});
}

TEST_CASE("The voters of the configuration before decide about the next, and are told it") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.joined(n(4), e(4), {}, std::nullopt);
  leadership.joined(n(5), e(5), {}, std::nullopt);
  const auto plan = leadership.plan({n(1), n(4), n(5)}, {});
  REQUIRE(plan);
  CHECK(plan->voters == std::vector<NodeId>{n(4), n(5), n(1), n(2), n(3)});
  const ConfigurationNumber number = plan->replicated.configuration.number;
  CHECK_FALSE(leadership.acknowledged(n(1), number));
  CHECK_FALSE(leadership.acknowledged(n(4), number));
  CHECK_FALSE(leadership.acknowledged(n(5), number));  // all of the new one, one of the old
  CHECK(leadership.acknowledged(n(2), number));
}

TEST_CASE(
    "The next attempt is above all that anybody here remembers, also in a job that has begun") {
  Leadership leadership = new_job(2);
  hand_out(leadership, 2, 0);
  const Past past{Term{3}, AttemptNumber{4}, configuration(3, 1), 1, 1, true};
  leadership.joined(n(3), e(3), {}, past);
  CHECK(leadership.next_attempt() == AttemptNumber{5});
  leadership.left(n(3));
  CHECK(leadership.next_attempt() == AttemptNumber{5});
  leadership.handed_out(AttemptNumber{5});
  CHECK(leadership.next_attempt() == AttemptNumber{6});
}

TEST_CASE("A job without failover asks nobody") {
  Leadership leadership(Term{1}, VoterId{}, {}, AttemptNumber{0});
  leadership.joined(n(1), VoterId{}, {}, std::nullopt);
  CHECK_FALSE(leadership.plan({n(1)}, {}));
  leadership.handed_out(AttemptNumber{0});
  CHECK(leadership.quorum_follows());
  CHECK(leadership.needs_nobody());
}

TEST_CASE("The first plan that voters were told of binds as a world does") {
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
  CHECK_FALSE(leadership.acknowledged(n(1), alone->replicated.configuration.number));
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

TEST_CASE("A job that ends while a world is planned orders nothing of that world any more") {
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
  REQUIRE(std::holds_alternative<Replicate>(ended.back()));  // they may know of that world
  const ConfigurationNumber end = job.leadership().planned().number;
  CHECK(job.apply(Instant(2), StateAcknowledged{n(2), planned}).empty());
  (void)job.apply(Instant(2), StateAcknowledged{n(2), end});
  const auto told = job.apply(Instant(3), StateAcknowledged{n(1), end});
  REQUIRE(told.size() == 1);
  CHECK(std::holds_alternative<FinishJob>(told.front()));
}

TEST_CASE("A world of ten thousand nodes asks a few of them") {
  constexpr int kNodes = 10'000;
  Leadership leadership = new_job(kNodes);
  hand_out(leadership, kNodes, 0);
  std::vector<NodeId> all = nodes(kNodes);
  for (std::uint32_t attempt = 1; attempt <= 20; ++attempt) {
    const std::uint64_t leaver = 2 + attempt;
    leadership.left(n(leaver));
    leadership.joined(n(leaver + 100'000), e(leaver + 100'000), {}, std::nullopt);
    all[leaver - 1] = n(leaver + 100'000);
    CHECK(hand_out(leadership, all, attempt) <= static_cast<int>(kVotersMax));
  }
}

TEST_CASE("Who gave its word to another counts once it has acknowledged a plan of a later term") {
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
  CHECK_FALSE(leadership.acknowledged(n(1), number));
  CHECK_FALSE(leadership.acknowledged(n(5), number));
  CHECK(leadership.in_use().term == Term{1});  // until it is handed out
  CHECK(leadership.acknowledged(n(6), number));
  leadership.handed_out(AttemptNumber{1});
  CHECK(leadership.in_use().term == Term{8});
  CHECK(leadership.is_free(n(5)));
  CHECK_FALSE(leadership.plan({n(1), n(5), n(6)}, {}));
}

TEST_CASE("Who acknowledges late is free from then on") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.left(n(3));
  leadership.joined(n(4), e(3), promised(5, e(9), configuration(1, 1)), std::nullopt);
  const auto plan = leadership.plan({n(1), n(2), n(4)}, {});
  REQUIRE(plan);
  const ConfigurationNumber number = plan->replicated.configuration.number;
  CHECK_FALSE(leadership.acknowledged(n(1), number));
  REQUIRE(leadership.acknowledged(n(2), number));
  leadership.handed_out(AttemptNumber{1});
  CHECK_FALSE(leadership.is_free(n(4)));
  CHECK_FALSE(leadership.acknowledged(n(4), number));
  CHECK(leadership.is_free(n(4)));
}

TEST_CASE("A candidate that died while it followed leads nobody, and its voters are free") {
  Leadership leadership = new_job(4);
  hand_out(leadership, 4, 0);
  leadership.left(n(2));
  leadership.left(n(3));
  leadership.left(n(4));
  leadership.joined(n(5), e(2), promised(2, e(2), configuration(1, 1)), std::nullopt);
  leadership.joined(n(6), e(3), promised(2, e(2), configuration(1, 1)), std::nullopt);
  CHECK(leadership.quorum_follows());
  leadership.left(n(5), true);
  CHECK(leadership.here().dead() == std::set{e(2)});
  CHECK(leadership.quorum_follows());
  leadership.joined(n(7), e(4), promised(2, e(2), configuration(1, 1)), std::nullopt);
  leadership.left(n(7), true);
  CHECK(leadership.here().dead() == std::set{e(2)});  // it had voted for another one
}

TEST_CASE("A plan after one that was dropped is of no earlier term") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.left(n(3));
  leadership.joined(n(4), e(3), promised(5, e(3), configuration(1, 1)), std::nullopt);
  REQUIRE(leadership.plan({n(1), n(2), n(4)}, {})->replicated.term == Term{6});
  leadership.left(n(4));  // others may have acknowledged it
  CHECK(leadership.plan({n(1), n(2)}, {})->replicated.term == Term{6});
}

TEST_CASE(
    "Who is ahead of its coordinator counts for nothing, and without it there may be a quorum") {
  Leadership leadership = new_job(5);
  hand_out(leadership, 5, 0);
  leadership.left(n(4));
  leadership.left(n(5));
  // It keeps a world of a successor.
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
  CHECK(leadership.here().dead().empty());
  CHECK_FALSE(leadership.quorum_follows());
}

TEST_CASE("A vote for a candidate that stores what this leader does not know binds its voter") {
  Leadership leadership = new_job(4);
  hand_out(leadership, 4, 0);
  leadership.left(n(2));
  leadership.left(n(3));
  leadership.left(n(4));
  leadership.joined(n(5), e(2), promised(3, e(3), configuration(1, 1)), std::nullopt);
  CHECK_FALSE(leadership.quorum_follows());
  // The candidate follows, but can acknowledge no plan: this leader could wait for ever.
  leadership.joined(n(6), e(3), promised(3, e(3), configuration(1, 7)), std::nullopt);
  CHECK(leadership.quorum_follows());  // it is this leader's own proposal
  leadership.left(n(6));
  leadership.joined(n(7), e(3), promised(3, e(3), make_configuration(Term{2}, e(4), 1)),
                    std::nullopt);
  CHECK_FALSE(leadership.quorum_follows());
  CHECK(leadership.outdated());
}

TEST_CASE("Nodes that can acknowledge nothing yet are voters only where places are left") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  const Promise ahead = promised(2, e(9), make_configuration(Term{2}, e(9), 1));
  for (std::uint64_t id = 4; id <= 13; ++id) {
    leadership.joined(n(id), e(id), id < 10 ? ahead : Promise{}, std::nullopt);
  }
  const auto voters_ahead = [](const Leadership::Plan& plan) {
    const auto& voters = plan.replicated.configuration.voters;
    return std::count_if(voters.begin(), voters.end(),
                         [](VoterId one) { return one >= e(4) && one < e(10); });
  };
  const auto plan = leadership.plan(nodes(13), {});
  REQUIRE(plan);
  CHECK(plan->replicated.configuration.voters.size() == kVotersMax);
  CHECK(voters_ahead(*plan) == 0);
  leadership.left(n(13));
  leadership.left(n(12));
  const auto fewer = leadership.plan(nodes(11), {});
  REQUIRE(fewer);
  CHECK(fewer->replicated.configuration.voters.size() == kVotersMax);
  CHECK(voters_ahead(*fewer) == 2);
  // No more than those that can: with their acknowledgements alone the plan is committed.
  for (std::uint64_t id = 10; id <= 11; ++id) {
    leadership.left(n(id));
  }
  leadership.left(n(3));
  const auto half = leadership.plan({n(1), n(2), n(4), n(5), n(6), n(7)}, {});
  REQUIRE(half);
  CHECK(half->replicated.configuration.voters.size() == 4);
  CHECK(voters_ahead(*half) == 2);
  const ConfigurationNumber number = half->replicated.configuration.number;
  CHECK_FALSE(leadership.acknowledged(n(1), number));
  CHECK(leadership.acknowledged(n(2), number));
}

TEST_CASE("A candidate that somebody voted for is told of the plan, so that it can acknowledge") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.left(n(2));
  leadership.left(n(3));
  leadership.joined(n(4), e(2), promised(2, e(9), configuration(1, 1)), std::nullopt);
  leadership.joined(n(5), e(9), {}, std::nullopt);  // no voter, and no member of the next world
  const auto plan = leadership.plan({n(1), n(4)}, {});
  REQUIRE(plan);
  CHECK(plan->voters == std::vector{n(4), n(1), n(5)});
}

TEST_CASE("A voter that died counts, though it had not acknowledged what is in use") {
  Leadership leadership = new_job(3);
  hand_out(leadership, 3, 0);
  leadership.left(n(3));
  leadership.joined(n(4), e(3), promised(2, e(3), make_configuration(Term{2}, e(3), 1)),
                    std::nullopt);
  const auto plan = leadership.plan({n(1), n(2), n(4)}, {});
  REQUIRE(plan);
  CHECK_FALSE(leadership.acknowledged(n(1), plan->replicated.configuration.number));
  REQUIRE(leadership.acknowledged(n(2), plan->replicated.configuration.number));
  CHECK(leadership.handed_out(AttemptNumber{1}));  // the third is to be told again
  leadership.left(n(4), true);
  CHECK(leadership.here().dead() == std::set{e(3)});
}
