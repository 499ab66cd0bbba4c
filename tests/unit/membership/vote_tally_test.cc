#include "rendezvous/membership/vote_tally.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <vector>

using namespace ddprun;

namespace {

constexpr VoterId e(std::uint64_t id) {
  return VoterId{id};
}

/// The same by a walk over all, as the rule reads.
struct Plain {
  std::multiset<std::pair<VoterId, VoterState>> here;
  std::set<VoterId> dead;

  [[nodiscard]] bool has(VoterId one, VoterState standing) const {
    return here.contains({one, standing});
  }
  [[nodiscard]] bool is_here(VoterId one) const {
    return has(one, VoterState::free) || has(one, VoterState::bound) ||
           has(one, VoterState::beyond);
  }
  [[nodiscard]] std::size_t free(const Configuration& configuration) const {
    return count(configuration, [&](VoterId one) {
      return is_here(one) ? !has(one, VoterState::bound) && !has(one, VoterState::beyond)
                          : dead.contains(one);
    });
  }
  [[nodiscard]] std::size_t bound(const Configuration& configuration) const {
    return count(configuration, [&](VoterId one) {
      return has(one, VoterState::bound) && !has(one, VoterState::beyond);
    });
  }
  template <class Counts>
  static std::size_t count(const Configuration& configuration, Counts counts) {
    return static_cast<std::size_t>(
        std::count_if(configuration.voters.begin(), configuration.voters.end(), counts));
  }
};

}  // namespace

TEST_CASE("Those that are here or dead are counted, apart from those that are bound to another") {
  VoteTally tally;
  const Configuration configuration{ConfigurationNumber{1}, {e(1), e(2), e(3), e(4), e(5)}};
  tally.use({&configuration});
  const auto free = [&] { return tally.count(0).free; };
  const auto bound = [&] { return tally.count(0).bound; };
  tally.came(e(1), VoterState::free);
  tally.came(e(2), VoterState::free);
  tally.came(e(9), VoterState::free);  // of no configuration
  CHECK(free() == 2);
  tally.went(e(2), VoterState::free);
  CHECK(free() == 1);
  tally.died(e(2));
  CHECK(free() == 2);
  tally.came(e(3), VoterState::bound);
  CHECK(free() == 2);
  CHECK(bound() == 1);
  tally.came(e(4), VoterState::beyond);
  CHECK(free() == 2);
  CHECK(bound() == 1);
}

TEST_CASE("Who is here by two connections counts once, by the worse of them") {
  VoteTally tally;
  const Configuration configuration{ConfigurationNumber{1}, {e(1), e(2), e(3)}};
  tally.use({&configuration});
  tally.came(e(2), VoterState::free);
  tally.came(e(2), VoterState::bound);
  CHECK(tally.count(0).free == 0);
  CHECK(tally.count(0).bound == 1);
  tally.went(e(2), VoterState::free);
  tally.died(e(2));  // the process lives: its other connection says so
  CHECK_FALSE(tally.is_dead(e(2)));
  tally.went(e(2), VoterState::bound);
  CHECK(tally.count(0).bound == 0);
}

TEST_CASE("What is counted one change at a time is what a walk over all counts") {
  constexpr std::array kStandings{VoterState::free, VoterState::bound, VoterState::beyond};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    Configuration configuration{ConfigurationNumber{1}, {e(1), e(2), e(3), e(4)}};
    Configuration beside;
    VoteTally tally;
    tally.use({&configuration, &beside});
    Plain plain;
    for (int step = 0; step < 60; ++step) {
      const VoterId one = e(1 + random() % 6);
      const VoterState standing = kStandings.at(random() % 3);
      switch (random() % 5) {
        case 0:
        case 1:
          tally.came(one, standing);
          plain.here.insert({one, standing});
          plain.dead.erase(one);
          break;
        case 2:
          if (const auto found = plain.here.find({one, standing}); found != plain.here.end()) {
            tally.went(one, standing);
            plain.here.erase(found);
          }
          break;
        case 3:
          tally.died(one);
          if (!plain.is_here(one) && (holds(configuration, one) || holds(beside, one))) {
            plain.dead.insert(one);
          }
          break;
        default:
          if (random() % 4 == 0) {
            configuration.voters.clear();
            for (std::uint64_t id = 1; id <= 6; ++id) {
              if (random() % 2 == 0) {
                configuration.voters.push_back(e(id));
              }
            }
            beside.voters = random() % 2 == 0 ? std::vector<VoterId>{} : std::vector{e(3), e(6)};
            tally.use({&configuration, &beside});
            if (random() % 2 == 0) {
              tally.forget_others();
              std::erase_if(plain.dead, [&](VoterId id) {
                return !holds(configuration, id) && !holds(beside, id);
              });
            }
          }
      }
      INFO("seed " << seed << ", step " << step);
      for (const auto& [place, of] : {std::pair(0U, &configuration), std::pair(1U, &beside)}) {
        REQUIRE(tally.count(place).free == plain.free(*of));
        REQUIRE(tally.count(place).bound == plain.bound(*of));
      }
      REQUIRE(tally.dead() == plain.dead);
    }
  }
}
