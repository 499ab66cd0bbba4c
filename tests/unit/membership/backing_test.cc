#include "rendezvous/membership/backing.h"

#include <algorithm>
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
  std::multiset<ElectorId> here;
  std::set<ElectorId> dead;
  std::map<ElectorId, std::set<ElectorId>> given_up;

  [[nodiscard]] bool is_ours(ElectorId elector, ElectorId self) const {
    const auto found = given_up.find(elector);
    return dead.contains(elector) ||
           (found != given_up.end() &&
            std::all_of(found->second.begin(), found->second.end(), [&](ElectorId candidate) {
              return candidate == e(0) || candidate == self || dead.contains(candidate) ||
                     here.contains(candidate) || given_up.contains(candidate);
            }));
  }
  [[nodiscard]] std::size_t count(const Roster& roster, ElectorId self) const {
    return static_cast<std::size_t>(
        std::count_if(roster.electors.begin(), roster.electors.end(),
                      [&](ElectorId one) { return here.contains(one) || is_ours(one, self); }));
  }
};

}  // namespace

TEST_CASE("Those that are here, dead, or bound to nobody who could win back the coordinator") {
  Backing backing(e(1));
  backing.use({RosterNumber{1}, {e(1), e(2), e(3), e(4), e(5)}}, {});
  CHECK(backing.count(Backing::Which::basis) == 0);
  backing.came(e(1));
  backing.came(e(2));
  backing.came(e(2));  // by a second connection
  backing.went(e(2));
  CHECK(backing.count(Backing::Which::basis) == 2);
  backing.died(e(3));
  CHECK(backing.count(Backing::Which::basis) == 3);
  backing.gave_up(e(4), e(5));
  CHECK(backing.count(Backing::Which::basis) == 3);  // who has its vote may still win
  backing.came(e(5));
  CHECK(backing.count(Backing::Which::basis) == 5);  // and has come to follow instead
  backing.went(e(5));
  CHECK(backing.count(Backing::Which::basis) == 3);
  backing.gave_up(e(5), e(5));
  CHECK(backing.count(Backing::Which::basis) == 5);
  backing.came(e(9));  // a newcomer decides nothing
  CHECK(backing.count(Backing::Which::basis) == 5);
}

TEST_CASE("Counting change by change gives what a walk over all electors gives") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](std::uint64_t most) { return e(random() % (most + 1)); };
    const ElectorId self = e(1);
    Backing backing(self);
    Plain plain;
    Roster roster{RosterNumber{1}, {e(1), e(2), e(3), e(4)}};
    Roster beside{RosterNumber{1}, {e(2), e(5)}};
    backing.use(roster, beside);
    for (int step = 0; step < 60; ++step) {
      const ElectorId one = e(1 + random() % 6);
      switch (random() % 6) {
        case 0:
        case 1:
          backing.came(one);
          plain.here.insert(one);
          plain.dead.erase(one);
          break;
        case 2:
          if (const auto found = plain.here.find(one); found != plain.here.end()) {
            backing.went(one);
            plain.here.erase(found);
          }
          break;
        case 3:
          backing.died(one);
          if (holds(roster, one) || holds(beside, one)) {
            plain.dead.insert(one);
          }
          break;
        case 4: {
          const ElectorId promised_to = draw(6);
          backing.gave_up(one, promised_to);
          plain.given_up[one].insert(promised_to);
          break;
        }
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
            backing.use(roster, beside);
            if (random() % 2 == 0) {
              backing.forget_others();
              const auto no_elector = [&](ElectorId id) {
                return !holds(roster, id) && !holds(beside, id);
              };
              std::erase_if(plain.dead, no_elector);
              std::erase_if(plain.given_up,
                            [&](const auto& one_of) { return no_elector(one_of.first); });
            }
          }
      }
      INFO("seed " << seed << ", step " << step);
      REQUIRE(backing.count(Backing::Which::basis) == plain.count(roster, self));
      REQUIRE(backing.count(Backing::Which::beside) == plain.count(beside, self));
      REQUIRE(backing.dead() == plain.dead);
    }
  }
}
