#include "rendezvous/membership/backing.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <vector>

using namespace ddprun;

namespace {

constexpr ElectorId e(std::uint64_t id) {
  return ElectorId{id};
}

/// The same by a walk over all, as the rule reads.
struct Plain {
  std::multiset<std::pair<ElectorId, Standing>> here;
  std::set<ElectorId> dead;

  [[nodiscard]] bool has(ElectorId one, Standing standing) const {
    return here.contains({one, standing});
  }
  [[nodiscard]] bool is_here(ElectorId one) const {
    return has(one, Standing::free) || has(one, Standing::bound) || has(one, Standing::beyond);
  }
  [[nodiscard]] std::size_t free(const Roster& roster) const {
    return count(roster, [&](ElectorId one) {
      return is_here(one) ? !has(one, Standing::bound) && !has(one, Standing::beyond)
                          : dead.contains(one);
    });
  }
  [[nodiscard]] std::size_t bound(const Roster& roster) const {
    return count(roster, [&](ElectorId one) {
      return has(one, Standing::bound) && !has(one, Standing::beyond);
    });
  }
  template <class Counts>
  static std::size_t count(const Roster& roster, Counts counts) {
    return static_cast<std::size_t>(
        std::count_if(roster.electors.begin(), roster.electors.end(), counts));
  }
};

}  // namespace

TEST_CASE("Those that are here or dead are counted, apart from those that are bound to another") {
  Backing backing;
  const Roster roster{RosterNumber{1}, {e(1), e(2), e(3), e(4), e(5)}};
  backing.use({&roster});
  const auto free = [&] { return backing.count(0).free; };
  const auto bound = [&] { return backing.count(0).bound; };
  backing.came(e(1), Standing::free);
  backing.came(e(2), Standing::free);
  backing.came(e(9), Standing::free);  // of no roster
  CHECK(free() == 2);
  backing.went(e(2), Standing::free);
  CHECK(free() == 1);
  backing.died(e(2));
  CHECK(free() == 2);
  backing.came(e(3), Standing::bound);
  CHECK(free() == 2);
  CHECK(bound() == 1);
  backing.came(e(4), Standing::beyond);
  CHECK(free() == 2);
  CHECK(bound() == 1);
}

TEST_CASE("Who is here by two connections counts once, by the worse of them") {
  Backing backing;
  const Roster roster{RosterNumber{1}, {e(1), e(2), e(3)}};
  backing.use({&roster});
  backing.came(e(2), Standing::free);
  backing.came(e(2), Standing::bound);
  CHECK(backing.count(0).free == 0);
  CHECK(backing.count(0).bound == 1);
  backing.went(e(2), Standing::free);
  backing.died(e(2));  // the process lives: its other connection says so
  CHECK_FALSE(backing.is_dead(e(2)));
  backing.went(e(2), Standing::bound);
  CHECK(backing.count(0).bound == 0);
}

TEST_CASE("What is counted one change at a time is what a walk over all counts") {
  constexpr std::array kStandings{Standing::free, Standing::bound, Standing::beyond};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    Roster roster{RosterNumber{1}, {e(1), e(2), e(3), e(4)}};
    Roster beside;
    Backing backing;
    backing.use({&roster, &beside});
    Plain plain;
    for (int step = 0; step < 60; ++step) {
      const ElectorId one = e(1 + random() % 6);
      const Standing standing = kStandings.at(random() % 3);
      switch (random() % 5) {
        case 0:
        case 1:
          backing.came(one, standing);
          plain.here.insert({one, standing});
          plain.dead.erase(one);
          break;
        case 2:
          if (const auto found = plain.here.find({one, standing}); found != plain.here.end()) {
            backing.went(one, standing);
            plain.here.erase(found);
          }
          break;
        case 3:
          backing.died(one);
          if (!plain.is_here(one) && (holds(roster, one) || holds(beside, one))) {
            plain.dead.insert(one);
          }
          break;
        default:
          if (random() % 4 == 0) {
            roster.electors.clear();
            for (std::uint64_t id = 1; id <= 6; ++id) {
              if (random() % 2 == 0) {
                roster.electors.push_back(e(id));
              }
            }
            beside.electors =
                random() % 2 == 0 ? std::vector<ElectorId>{} : std::vector{e(3), e(6)};
            backing.use({&roster, &beside});
            if (random() % 2 == 0) {
              backing.forget_others();
              std::erase_if(plain.dead,
                            [&](ElectorId id) { return !holds(roster, id) && !holds(beside, id); });
            }
          }
      }
      INFO("seed " << seed << ", step " << step);
      for (const auto& [place, of] : {std::pair(0U, &roster), std::pair(1U, &beside)}) {
        REQUIRE(backing.count(place).free == plain.free(*of));
        REQUIRE(backing.count(place).bound == plain.bound(*of));
      }
      REQUIRE(backing.dead() == plain.dead);
    }
  }
}
