#include "launcher/scheduler/host_list.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rendezvous/membership/node_description.h"

using ddprun::HostList;

namespace {

std::vector<std::string> hosts(const std::string& text) {
  const auto list = HostList::parse(text, "SLURM_STEP_NODELIST");
  if (!list) {
    return {list.error().sentence()};
  }
  std::vector<std::string> all;
  for (int i = 0; i < list->size(); ++i) {
    all.push_back(list->at(i));
    CHECK(list->has(all.back()));
  }
  return all;
}

using Hosts = std::vector<std::string>;

}  // namespace

// The right sides are what `scontrol show hostnames` of Slurm 22.05 says.
TEST_CASE("A node list of Slurm is read in each of its forms", "[launcher]") {
  CHECK(hosts("n1") == Hosts{"n1"});
  CHECK(hosts("n[1-4,7,09-11]") == Hosts{"n1", "n2", "n3", "n4", "n7", "n09", "n10", "n11"});
  CHECK(hosts("a[1-2]b[3-4]") == Hosts{"a1b3", "a1b4", "a2b3", "a2b4"});
  CHECK(hosts("rack[1-2]-[001-003]") ==
        Hosts{"rack1-001", "rack1-002", "rack1-003", "rack2-001", "rack2-002", "rack2-003"});
  CHECK(hosts("a1,b[2-3],c.site") == Hosts{"a1", "b2", "b3", "c.site"});
  CHECK(hosts("n[08-11]") == Hosts{"n08", "n09", "n10", "n11"});
  CHECK(hosts("n[9-011]") == Hosts{"n9", "n10", "n11"});
  CHECK(hosts("n[0-0]") == Hosts{"n0"});
}

TEST_CASE("A list has the hosts that it names, and no others", "[launcher]") {
  const auto list = HostList::parse("n[1-3],m7", "X");
  REQUIRE(list.has_value());
  CHECK(list->has("n3"));
  CHECK(list->has("m7"));
  CHECK_FALSE(list->has("n4"));
  CHECK_FALSE(list->has("n03"));
}

TEST_CASE("What is no node list is shown, with what to do", "[launcher]") {
  for (const std::string bad : {"",
                                ",",
                                "a,",
                                ",a",
                                "a,,b",
                                "n[1-2",
                                "n1-2]",
                                "n[]",
                                "n[1,,2]",
                                "n[3-1]",
                                "n[a-b]",
                                "n[1-3]]",
                                "n[[1]]",
                                "n[-1]",
                                "n[1-]",
                                "a b",
                                "a/b",
                                "n[1 2]",
                                "\x01",
                                "(null)",
                                "n[1-9999999999999999999]",
                                "n[99999999999999999999]"}) {
    INFO(bad);
    const auto list = HostList::parse(bad, "SLURM_STEP_NODELIST");
    REQUIRE_FALSE(list.has_value());
    CHECK(list.error().where == "SLURM_STEP_NODELIST");
    CHECK(list.error().what == "'" + bad + "' is not a list of hosts such as n[1-4,7]");
    CHECK(list.error().todo == "give --rdzv-endpoint HOST:PORT, or --no-scheduler");
  }
}

TEST_CASE("A list of more hosts than a job may have is refused before it takes memory",
          "[launcher]") {
  const std::string most = std::to_string(ddprun::kNodesMax);
  const auto list = HostList::parse("n[1-" + most + "]", "X");
  REQUIRE(list.has_value());
  CHECK(list->size() == ddprun::kNodesMax);
  CHECK(list->at(ddprun::kNodesMax - 1) == "n" + most);
  for (const std::string& many :
       std::vector<std::string>{"n[0-" + most + "]", "n[1-999999999]", "n[0-999999999999999999]",
                                "n[1-" + most + "],m", "n[0-99999]m[0-99999]k[0-99999]j[0-99999]",
                                "n[1-999999999999999999,1-999999999999999999]"}) {
    INFO(many);
    const auto refused = HostList::parse(many, "X");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().what == "'" + many + "' names more than " + most + " hosts");
  }
}
