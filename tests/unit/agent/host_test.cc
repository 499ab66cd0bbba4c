#include "agent/host/host.h"

#include <sched.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "rendezvous/base/usable_cpus.h"
#include "tests/unit/agent/forked.h"

namespace ddprun {
namespace {

TEST_CASE("the host name is the kernel's", "[agent]") {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof(name) - 1) == 0);
  CHECK(host_name() == name);
}

TEST_CASE("an address is of an interface, unless it is loopback's or nobody's", "[agent]") {
  for (const char* address : {"127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "localhost", ""}) {
    INFO(address);
    CHECK(network_interface_of(address).empty());
  }
}

TEST_CASE("a process bound to one processor may use one", "[agent]") {
  test::Forked bound([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    return ::sched_setaffinity(0, sizeof(one), &one) == 0 ? usable_cpus().count : 99;
  });
  CHECK(bound.end() == ExitStatus{ExitStatus::Kind::exited, 1});
  CHECK(usable_cpus().count >= 1);
}

}  // namespace
}  // namespace ddprun
