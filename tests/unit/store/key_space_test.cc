#include "rendezvous/store/key_space.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace ddprun;

TEST_CASE("an empty value exists, an empty key too") {
  KeySpace keys;
  KeySpace::Woken woken;
  CHECK_FALSE(keys.exists(""));
  keys.set("", "", woken);
  CHECK(keys.exists(""));
  CHECK(keys.get("") == "");
  CHECK(keys.size() == 1);
}

TEST_CASE("adding beyond 64 bits wraps round") {
  KeySpace keys;
  KeySpace::Woken woken;
  CHECK(keys.add("n", std::numeric_limits<std::int64_t>::max(), woken) ==
        std::numeric_limits<std::int64_t>::max());
  CHECK(keys.add("n", 1, woken) == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("a key that was set and deleted again still counts as seen by who waited") {
  KeySpace keys;
  KeySpace::Woken woken;
  CHECK_FALSE(keys.wait(ConnectionId{1}, {"a", "b"}));
  keys.set("a", "", woken);
  CHECK(keys.remove("a"));
  keys.set("b", "", woken);
  CHECK(woken == KeySpace::Woken{ConnectionId{1}});
}

TEST_CASE("a new wait takes the place of the one before") {
  KeySpace keys;
  KeySpace::Woken woken;
  CHECK_FALSE(keys.wait(ConnectionId{1}, {"a"}));
  CHECK_FALSE(keys.wait(ConnectionId{1}, {"b"}));
  keys.set("a", "", woken);
  CHECK(woken.empty());
  keys.set("b", "", woken);
  CHECK(woken.size() == 1);
}

TEST_CASE("an emptied queue does not exist any more, and queues are not counted as keys") {
  KeySpace keys;
  KeySpace::Woken woken;
  keys.queue_push("q", "x", woken);
  CHECK(keys.exists("q"));
  CHECK(keys.size() == 0);
  CHECK(keys.queue_pop("q") == "x");
  CHECK_FALSE(keys.exists("q"));
  CHECK_FALSE(keys.queue_pop("q").has_value());
}
