#include "launcher/restart_rules.h"

#include <catch2/catch.hpp>
#include <string>

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

auto table(std::string_view text) {
  return parse_fault_table(text, "--on");
}

}  // namespace

TEST_CASE("A restart window is a number and a time") {
  CHECK(*parse_restart_window("3/1h", "w") == RestartWindow{3, 1h});
  CHECK(*parse_restart_window("0/90", "w") == RestartWindow{0, 90s});
  CHECK(*parse_restart_window("10/2d", "w") == RestartWindow{10, 48h});
  CHECK(*parse_restart_window("1/15m", "w") == RestartWindow{1, 15min});
  CHECK(*parse_restart_window("1/15s", "w") == RestartWindow{1, 15s});
}

TEST_CASE("What is no restart window is refused with an example") {
  const auto text =
      GENERATE(as<std::string>{}, "", "3", "/1h", "3/", "-1/1h", "3/0s", "3/1y", "3/h", "x/1h");
  CAPTURE(text);
  const auto window = parse_restart_window(text, "--restart-window");
  REQUIRE_FALSE(window.has_value());
  CHECK(window.error().sentence().find("write for example 3/1h") != std::string::npos);
}

TEST_CASE("A fault table is read in its order") {
  const auto rules = table(
      "oom=fail, sigkill=restart,SIGSEGV=free,exit:93=fail,exit=restart,"
      "start=fail,signal=free,node-lost=restart");
  REQUIRE(rules.has_value());
  REQUIRE(rules->size() == 8);
  CHECK(rules->at(0) == FaultRule{FaultClass::oom, 0, FaultAction::fail, "oom=fail"});
  CHECK(rules->at(1) == FaultRule{FaultClass::signal, 9, FaultAction::restart, "sigkill=restart"});
  CHECK(rules->at(2).value == 11);
  CHECK(rules->at(3).value == 93);
  CHECK(rules->at(7).kind == FaultClass::node_lost);
  CHECK(table("")->empty());
}

TEST_CASE("What is no rule is refused, and what there is is named") {
  CHECK(table("oom").error().sentence().find("restart, free or fail") != std::string::npos);
  CHECK(table("oom=ignore").error().sentence().find("restart, free or fail") != std::string::npos);
  for (const char* text : {"gpu=fail", "exit:0=fail", "exit:256=fail", "exit:x=fail", "sigfoo=fail",
                           "=fail", "kill=fail"}) {
    CAPTURE(text);
    REQUIRE_FALSE(table(text).has_value());
    CHECK(table(text).error().sentence().find("is not a class of faults") != std::string::npos);
  }
}

TEST_CASE("A hang timeout is a time, and another until the first step") {
  using std::chrono::minutes;
  using std::chrono::seconds;
  const auto of = [](const char* text) { return parse_hang_timeout(text, "--hang-timeout"); };
  CHECK(*of("0") == HangTimeouts{});
  CHECK(*of("2") == HangTimeouts{seconds(2), minutes(5)});
  CHECK(*of("10m") == HangTimeouts{minutes(10), minutes(100)});
  CHECK(*of("90s,1h") == HangTimeouts{seconds(90), minutes(60)});
  CHECK(*of("2,2") == HangTimeouts{seconds(2), seconds(2)});
  for (const char* bad : {"", "soon", "-1", "2,", ",2", "1.5", "2,3,4", "0,5"}) {
    INFO(bad);
    REQUIRE_FALSE(of(bad).has_value());
    CHECK(of(bad).error().where == "--hang-timeout");
  }
  CHECK(of("10m,5m").error().what == "'10m,5m' allows the start less time than what follows");
}

TEST_CASE("A class of faults has one action") {
  for (const char* text :
       {"oom=free,oom=fail", "SIGSEGV=free,sigsegv=free", "exit:3=free,exit:3=fail"}) {
    INFO(text);
    REQUIRE_FALSE(table(text).has_value());
    CHECK(table(text).error().sentence().find("is named twice") != std::string::npos);
  }
  CHECK(table("exit:3=free,exit:4=fail,exit=restart").has_value());
}

TEST_CASE("A hang is a class of faults of its own") {
  const auto rules = parse_fault_table("hang=fail", "--on");
  REQUIRE(rules.has_value());
  CHECK(rules->front().kind == FaultClass::hang);
}
