#include "launcher/hosts/host_states.h"

#include <catch2/catch.hpp>

#include "launcher/hosts/fan_out.h"

using namespace ddprun;

namespace {

constexpr int kLost = -1;

HostStates states(int least, const std::vector<int>& codes) {
  HostStates result(static_cast<int>(codes.size()), least);
  for (std::uint32_t host = 0; host < codes.size(); ++host) {
    if (codes[host] == kLost) {
      result.lost(host);
    } else {
      result.ended(host, codes[host]);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("The job's own code counts where all agree", "[launcher][hosts]") {
  for (const int code : {0, 1, 75, 78, 2}) {
    CHECK(states(3, {code, code, code}).exit_code() == code);
  }
}

TEST_CASE("Where hosts differ, failure wins over 75, and that over 0", "[launcher][hosts]") {
  CHECK(states(3, {0, 75, 0}).exit_code() == 75);
  CHECK(states(3, {75, 0, 1}).exit_code() == 1);
  CHECK(states(1, {0, 2, 1}).exit_code() == 2);
}

TEST_CASE("A lost host decides nothing where enough others ended well", "[launcher][hosts]") {
  CHECK(states(2, {0, kLost, 0}).exit_code() == 0);
  CHECK(states(2, {75, 137, 0}).exit_code() == 75);
  CHECK(states(3, {0, kLost, 0}).exit_code() == 1);
  CHECK(states(3, {0, 137, 0}).exit_code() == 137);
  CHECK(states(1, {kLost}).exit_code() == 1);
}

TEST_CASE("A job is hopeless once fewer hosts are left than it needs", "[launcher][hosts]") {
  HostStates elastic(3, 2);
  CHECK(!elastic.is_hopeless());
  elastic.lost(0);
  CHECK(!elastic.is_hopeless());
  CHECK(!elastic.all_settled());
  elastic.ended(1, 0);
  CHECK(!elastic.is_hopeless());
  elastic.ended(2, 1);
  CHECK(elastic.is_hopeless());
  CHECK(elastic.has_failed());
  CHECK(elastic.all_settled());
  elastic.ended(2, 0);  // the first word counts
  CHECK(elastic.exit_code() == 1);
  HostStates fixed(2, 2);
  fixed.ended(0, 137);
  CHECK(fixed.is_hopeless());
  CHECK(!fixed.has_failed());  // the others do not end by that
}

TEST_CASE("A job is over once enough have ended well and too few are left", "[launcher][hosts]") {
  HostStates elastic(3, 2);
  elastic.ended(0, 0);
  CHECK(!elastic.is_over());  // two may go on without the one that left
  elastic.ended(2, 0);
  CHECK(elastic.is_over());
  CHECK(!elastic.is_hopeless());
  elastic.lost(1);
  CHECK(elastic.exit_code() == 0);
  HostStates fixed(3, 3);
  fixed.ended(0, 0);
  CHECK(!fixed.is_over());
  HostStates of_one(2, 1);
  of_one.ended(0, 0);
  CHECK(!of_one.is_over());  // the other may be all of the job
}

TEST_CASE("Those that run are stranded once another has ended well and they are too few",
          "[launcher][hosts]") {
  HostStates fixed(3, 3);
  CHECK(!fixed.is_stranded());
  fixed.ended(1, 75);
  CHECK(fixed.is_stranded());  // a job of three waits for a third, which nobody starts
  CHECK(!fixed.is_over());
  fixed.ended(0, 75);
  fixed.dismiss_running();
  fixed.ended(2, 1);
  CHECK(!fixed.is_stranded());
  CHECK(!fixed.has_failed());
  CHECK(fixed.exit_code() == 75);
  HostStates elastic(3, 1);
  elastic.ended(1, 0);
  CHECK(!elastic.is_stranded());  // the two may go on
  elastic.ended(2, 75);
  CHECK(elastic.is_over());
  CHECK(elastic.exit_code() == 75);
}

TEST_CASE("What becomes of dismissed hosts says nothing of the job", "[launcher][hosts]") {
  const auto code_of = [](int least, const std::vector<int>& before, int dismissed_code) {
    HostStates hosts(static_cast<int>(before.size()) + 1, least);
    for (std::uint32_t host = 0; host < before.size(); ++host) {
      hosts.ended(host, before[host]);
    }
    hosts.dismiss_running();
    hosts.ended(static_cast<std::uint32_t>(before.size()), dismissed_code);
    return hosts.exit_code();
  };
  CHECK(code_of(2, {137}, 1) == 137);  // the agent that was killed is why
  CHECK(code_of(3, {75, 75}, 137) == 75);
  CHECK(code_of(2, {0}, 75) == 1);  // a node that left in order is no job that has ended
  CHECK(code_of(2, {0, 0}, 137) == 0);
  CHECK(code_of(2, {3}, 75) == 3);
}

TEST_CASE("Hosts are split evenly, in their order, and none is left out", "[launcher][hosts]") {
  for (const std::size_t count : {0, 1, 31, 32, 33, 64, 1024, 1025}) {
    std::vector<RelayHost> hosts(count);
    for (std::size_t i = 0; i < count; ++i) {
      hosts[i].number = static_cast<std::uint32_t>(i);
    }
    const auto groups = split_hosts(hosts, 32);
    CHECK(groups.size() == std::min<std::size_t>(count, 32));
    std::uint32_t next = 0;
    for (const auto& group : groups) {
      CHECK(group.size() >= count / 32);
      CHECK(group.size() <= count / 32 + 1);
      for (const RelayHost& host : group) {
        CHECK(host.number == next++);
      }
    }
    CHECK(next == count);
  }
}
