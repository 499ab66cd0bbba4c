#include "rendezvous/control/agents_here.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "rendezvous/control/own_host.h"

using namespace ddprun;

namespace {

bool is_listed(VoterId id) {
  const std::vector<VoterId> agents = agents_here().agents;
  return std::find(agents.begin(), agents.end(), id) != agents.end();
}

/// Other processes of this machine may run the same test.
VoterId new_id(std::uint64_t which) {
  return VoterId{(std::uint64_t{1} << 62U) + (static_cast<std::uint64_t>(::getpid()) << 16U) +
                 which};
}

}  // namespace

TEST_CASE("An agent is listed on its host as long as it lives") {
  const VoterId one = new_id(1);
  const VoterId other = new_id(2);
  Fd mark = mark_agent(one);
  REQUIRE(mark);
  CHECK(agents_here().host == own_host());
  CHECK(is_listed(one));
  CHECK_FALSE(is_listed(other));
  const Fd second = mark_agent(other);
  CHECK(is_listed(other));
  mark = Fd();
  CHECK_FALSE(is_listed(one));
  CHECK(is_listed(other));
}

TEST_CASE("Where more agents live than a list has room for, none is listed") {
  std::vector<Fd> marks;
  for (std::uint64_t i = 0; i <= kAgentsHereMax; ++i) {
    marks.push_back(mark_agent(new_id(100 + i)));
    REQUIRE(marks.back());
  }
  CHECK(agents_here().agents.empty());
}
