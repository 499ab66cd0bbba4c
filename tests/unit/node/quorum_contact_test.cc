#include "rendezvous/node/quorum_contact.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

Configuration of(const std::vector<std::uint64_t>& voters) {
  Configuration configuration;
  for (const std::uint64_t one : voters) {
    configuration.voters.push_back(VoterId{one});
  }
  return configuration;
}

}  // namespace

TEST_CASE("The contact with a quorum is that with its slowest voter") {
  const Configuration five = of({1, 2, 3, 4, 5});
  std::vector<FollowerContact> followers{{VoterId{1}, 50s, true},
                                         {VoterId{2}, 40s, false},
                                         {VoterId{3}, 30s, false},
                                         {VoterId{4}, 20s, false}};
  CHECK(quorum_contact(five, followers) == 30s);
  followers.erase(followers.begin() + 1);
  CHECK(quorum_contact(five, followers) == 20s);
  followers.pop_back();
  CHECK(quorum_contact(five, followers) == kNever);  // two of five
}

TEST_CASE("Half is a quorum with the coordinator's own vote, and without it more than half") {
  const Configuration four = of({1, 2, 3, 4});
  CHECK(quorum_contact(four, {{VoterId{1}, 50s, true}, {VoterId{2}, 40s, false}}) == 40s);
  CHECK(quorum_contact(four, {{VoterId{2}, 50s, false}, {VoterId{3}, 40s, false}}) == kNever);
  CHECK(quorum_contact(
            four, {{VoterId{2}, 50s, false}, {VoterId{3}, 40s, false}, {VoterId{4}, 30s, false}}) ==
        30s);
}

TEST_CASE("Who is not of the configuration does not count") {
  const Configuration three = of({1, 2, 3});
  CHECK(quorum_contact(
            three, {{VoterId{1}, 50s, true}, {VoterId{9}, 49s, false}, {VoterId{3}, 30s, false}}) ==
        30s);
}

TEST_CASE("A voter that is here by two connections counts once, by the newest of them") {
  const Configuration five = of({1, 2, 3, 4, 5});
  std::vector<FollowerContact> followers{
      {VoterId{1}, 50s, true}, {VoterId{2}, 20s, false}, {VoterId{2}, 40s, false}};
  CHECK(quorum_contact(five, followers) == kNever);  // two of five
  followers.push_back({VoterId{3}, 45s, false});
  CHECK(quorum_contact(five, followers) == 40s);
}
