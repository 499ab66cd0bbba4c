#include "worker_runtime/snapshot/snapshot_choice.h"

#include <catch2/catch.hpp>

#include "tests/support/result_text.h"

namespace ddp {
namespace {

RankReport found(std::vector<Candidate> verified, std::uint64_t highest = 0,
                 std::vector<std::string> complaints = {}, std::int64_t disk = 0) {
  return {disk, std::move(verified), {}, 0, highest, std::move(complaints), "", false};
}

/// What a rank found that cannot read one of its snapshots.
RankReport withheld(Fault fault, std::uint64_t number, std::vector<Candidate> verified,
                    std::int64_t disk = 0) {
  RankReport report = found(std::move(verified), number, {}, disk);
  report.withheld.push_back(
      {0, number, fault, "/s/" + std::to_string(number) + ": it is withheld"});
  return report;
}

constexpr Candidate k10{1, 10, 0xA};
constexpr Candidate k11{1, 11, 0xB};
constexpr Candidate k12{1, 12, 0xC};

}  // namespace

TEST_CASE("without any snapshot the job starts afresh with number 1", "[snapshot]") {
  const auto choice = choose({found({}), found({})});
  CHECK_FALSE(choice.chosen);
  CHECK_FALSE(choice.send);
  CHECK(choice.next_number == 1);
}

TEST_CASE("the newest snapshot is chosen when all ranks have it", "[snapshot]") {
  const auto choice = choose({found({k12, k11}), found({k11, k12})});
  CHECK(choice.chosen == k12);
  CHECK(choice.source == 0);
  CHECK_FALSE(choice.send);
  CHECK(choice.next_number == 13);
}

TEST_CASE("a snapshot that one node could not finish is passed over for the one before",
          "[snapshot]") {
  const auto choice = choose({found({k11, k10}), found({k12, k11}, 12)});
  CHECK(choice.chosen == k11);
  CHECK_FALSE(choice.send);
  CHECK(choice.next_number == 13);
}

TEST_CASE("a node with an empty disk is sent the newest by the lowest rank that has it",
          "[snapshot]") {
  const auto choice = choose({found({}), found({k12, k11}), found({k12, k11})});
  CHECK(choice.chosen == k12);
  CHECK(choice.source == 1);
  CHECK(choice.send);
}

TEST_CASE("when nodes have none in common the newest of all is sent", "[snapshot]") {
  const auto choice = choose({found({k10}), found({k12, k11})});
  CHECK(choice.chosen == k12);
  CHECK(choice.source == 1);
  CHECK(choice.send);
}

TEST_CASE("equal numbers with other contents are not the same snapshot", "[snapshot]") {
  const Candidate other{1, 12, 0xCC};
  const auto choice = choose({found({k12, k11}), found({other, k11})});
  CHECK(choice.chosen == k11);
  const auto apart = choose({found({k12}), found({other})});
  CHECK(apart.chosen == other);
  CHECK(apart.source == 1);
  CHECK(apart.send);
}

TEST_CASE("what a later attempt saved is newer, whatever its number", "[snapshot]") {
  // The node of the second disk was lost as it saved 12; the others went on from 11 without it.
  const Candidate again{2, 12, 0x1};
  const Candidate fewer{3, 5, 0x2};
  const auto choice = choose({found({again}), found({k12, k11})});
  CHECK(choice.chosen == again);
  CHECK(choice.source == 0);
  CHECK(choice.next_number == 13);
  CHECK(choose({found({k12}), found({fewer})}).chosen == fewer);
}

TEST_CASE("numbers of damaged snapshots are not used again", "[snapshot]") {
  CHECK(choose({found({}, 7), found({})}).next_number == 8);
  CHECK(choose({found({k10}, 10), found({k10}, 40)}).next_number == 41);
}

TEST_CASE("a problem of any rank stops all, and the lowest rank's is told", "[snapshot]") {
  auto first = found({k12});
  auto second = found({});
  second.problem = "it is a file";
  CHECK(choose({first, second}).problem == "it is a file");
  CHECK_FALSE(choose({first, second}).problem_stays);
  second.problem_stays = true;
  CHECK(choose({first, second}).problem_stays);
  second.disk = 1;
  CHECK(choose({first, second}).problem == "on the node of rank 1: it is a file");
  second.disk = 0;
  first.problem = "no permission";
  CHECK(choose({first, second}).problem == "no permission");
}

TEST_CASE("a snapshot that waits for people lets nobody train from older ones", "[snapshot]") {
  const auto [fault, todo] =
      GENERATE(table<Fault, std::string>({{Fault::newer, "train with that version"},
                                          {Fault::forbidden, "let the user who trains read it"}}));
  for (const auto& verified : {std::vector<Candidate>{}, {k11, k10}}) {
    const auto choice = choose({found({}), withheld(fault, 12, verified)});
    CHECK_THAT(choice.problem, Catch::Matchers::StartsWith("/s/12: it is withheld; " + todo));
    CHECK(choice.problem_stays);
  }
  // Somebody else has the same one, or a newer one stands beside it.
  CHECK(choose({withheld(fault, 12, {}), found({k12})}).problem.empty());
  const auto beside = choose({withheld(fault, 11, {k12})});
  CHECK(beside.problem.empty());
  CHECK(beside.chosen == k12);
}

TEST_CASE("a later attempt's snapshot is newer, also where only people can read it", "[snapshot]") {
  // A node that trained alone meanwhile, in attempt 3, numbered its snapshots from 2 on.
  auto apart = withheld(Fault::newer, 3, {}, 1);
  apart.withheld[0].attempt = 3;
  CHECK_FALSE(choose({found({k12}), apart}).problem.empty());
  apart.withheld[0].attempt = 1;
  CHECK(choose({found({k12}), apart}).problem.empty());
  // Nobody knows the attempt of what is forbidden. Marks tell that its disk was apart.
  auto forbidden = withheld(Fault::forbidden, 3, {}, 1);
  auto here = found({k12});
  here.marked = 3;
  forbidden.marked = 3;
  CHECK(choose({here, forbidden}).problem.empty());
  forbidden.marked = 4;
  CHECK_THAT(choose({here, forbidden}).problem,
             Catch::Matchers::StartsWith("on the node of rank 1: /s/3: it is withheld"));
}

TEST_CASE("the next attempt comes after all that left anything readable", "[snapshot]") {
  auto marked = found({k12});
  CHECK(highest_attempt({found({}), marked}) == 1);
  marked.marked = 4;
  auto newer = withheld(Fault::newer, 3, {});
  newer.withheld[0].attempt = 6;
  CHECK(highest_attempt({marked, found({})}) == 4);
  CHECK(highest_attempt({marked, newer}) == 6);
}

TEST_CASE("a snapshot that the disk does not give is passed over for another, not for none",
          "[snapshot]") {
  const auto older = choose({withheld(Fault::unreadable, 12, {k11})});
  CHECK(older.problem.empty());
  CHECK(older.chosen == k11);
  CHECK(older.next_number == 13);
  const auto none = choose({found({}), withheld(Fault::unreadable, 12, {}, 1)});
  CHECK(none.problem ==
        "on the node of rank 1: /s/12: it is withheld, and no other snapshot can be read; mend the "
        "disk, "
        "or move the snapshot away");
  CHECK_FALSE(none.problem_stays);  // the disk may be back
}

TEST_CASE("each complaint is said once per disk", "[snapshot]") {
  const std::vector<RankReport> reports = {found({}, 0, {"a"}, 0), found({}, 0, {"a", "b"}, 0),
                                           found({}, 0, {"a"}, 1), found({}, 0, {"b", "b"}, 1)};
  CHECK(complaints_to_say(reports, 0) == std::vector<std::string>{"a"});
  CHECK(complaints_to_say(reports, 1) == std::vector<std::string>{"b"});
  CHECK(complaints_to_say(reports, 2) == std::vector<std::string>{"a"});
  CHECK(complaints_to_say(reports, 3) == std::vector<std::string>{"b"});
}

TEST_CASE("a report comes back from its bytes", "[snapshot]") {
  const RankReport report{3,           {k12, k11}, {{4, 9, Fault::newer, "y: newer"}},
                          7,           15,         {"x: damaged", ""},
                          "a problem", true};
  const auto decoded = decode_report(encode_report(report));
  REQUIRE(decoded);
  CHECK(*decoded == report);
}

TEST_CASE("a report cut short, or with bytes left over, is refused", "[snapshot]") {
  const auto bytes =
      encode_report({3, {k12}, {{4, 9, Fault::newer, "w"}}, 7, 15, {"x"}, "y", true});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    REQUIRE_FALSE(decode_report(bytes.substr(0, length)));
  }
  CHECK_FALSE(decode_report(bytes + "z"));
  auto huge = bytes;
  huge[24 + 7] = '\x7F';  // the count of candidates
  CHECK_FALSE(decode_report(huge));
}

}  // namespace ddp
