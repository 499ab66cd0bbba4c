#include "agent/process/service_status.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a service manager is told each change once, and the watchdog when it is due",
          "[agent]") {
  const ServiceStatus nothing;
  ServiceStatus joined = nothing;
  joined.ready = true;
  CHECK(notification(nothing, nothing, false).empty());
  CHECK(notification(nothing, nothing, true) == "WATCHDOG=1\n");
  CHECK(notification(nothing, joined, false) == "READY=1\nSTATUS=waiting for the other nodes\n");
  CHECK(notification(joined, joined, true) == "WATCHDOG=1\n");
  ServiceStatus running = joined;
  running.attempt = 2;
  running.world_size = 4;
  CHECK(notification(joined, running, false) == "STATUS=attempt 2, world size 4\n");
  ServiceStatus later = running;
  later.step = 120;
  CHECK(notification(running, later, true) ==
        "STATUS=attempt 2, world size 4, step 120\nWATCHDOG=1\n");
  ServiceStatus ending = later;
  ending.stopping = true;
  CHECK(notification(later, ending, false) ==
        "STOPPING=1\nSTATUS=ending the job on this node: attempt 2, world size 4, step 120\n");
  // What could not be sent comes with the next one.
  CHECK(notification(nothing, ending, false).find("READY=1\nSTOPPING=1\n") == 0);
}

TEST_CASE("an agent that never found its job ends with a status, too", "[agent]") {
  ServiceStatus status;
  CHECK(status_line(status) == "looking for the job");
  status.stopping = true;
  CHECK(status_line(status) == "ending the job on this node");
}

TEST_CASE("NOTIFY_SOCKET is a path, or an abstract name", "[agent]") {
  CHECK(notify_address("/run/systemd/notify").value() == "/run/systemd/notify");
  CHECK(notify_address("@a/b").value() == std::string("\0a/b", 4));
  CHECK(notify_address("/" + std::string(106, 'x')).has_value());
  CHECK(notify_address("@" + std::string(107, 'x')).has_value());
  for (const std::string& bad : {std::string("notify"), std::string("vsock:2:1"), std::string(),
                                 "/" + std::string(107, 'x'), "@" + std::string(108, 'x')}) {
    INFO(bad);
    REQUIRE_FALSE(notify_address(bad).has_value());
    CHECK(notify_address(bad).error().sentence().find("NOTIFY_SOCKET") != std::string::npos);
  }
}

TEST_CASE("the watchdog is fed at half of its time", "[agent]") {
  CHECK(watchdog_pause("30000000").value() == 15s);
  CHECK(watchdog_pause("1").value() == 1ms);
  CHECK(watchdog_pause("99999999999999999999999").value() == 24h);
  for (const char* bad : {"", "0", "-2", "30s", " 30", "1e6"}) {
    INFO(bad);
    REQUIRE_FALSE(watchdog_pause(bad).has_value());
    CHECK(watchdog_pause(bad).error().sentence().find("WATCHDOG_USEC") != std::string::npos);
  }
}
