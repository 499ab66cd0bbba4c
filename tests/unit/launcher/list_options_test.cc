#include "launcher/list_options.h"

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("a single digit is the streams of all local ranks", "[launcher]") {
  const char* const digits[] = {"0", "1", "2", "3"};
  for (int value = 0; value < 4; ++value) {
    const auto map = parse_stream_map(digits[value], "-r");
    REQUIRE(map.has_value());
    CHECK(map->of(0) == static_cast<Streams>(value));
    CHECK(map->of(4000) == static_cast<Streams>(value));
  }
}

TEST_CASE("a map gives streams to the ranks that it names and none to others", "[launcher]") {
  const auto map = parse_stream_map("0:1,3:2,9:3,3:0", "-r");
  REQUIRE(map.has_value());
  CHECK(map->of(0) == Streams::out);
  CHECK(map->of(1) == Streams::none);
  CHECK(map->of(3) == Streams::none);  // the last entry of a rank counts
  CHECK(map->of(9) == Streams::all);
}

TEST_CASE("all other stream maps are refused and the option is named", "[launcher]") {
  for (const char* bad : {"", "4", "33", "x", "0:4", "0:", ":1", "0:1,", ",0:1", "0:1;1:2", "10:1",
                          "0:1,10:1", "0:1 ,1:1", "-1", "0-1", "0:1,1:2,"}) {
    INFO(bad);
    const auto map = parse_stream_map(bad, "--tee");
    REQUIRE_FALSE(map.has_value());
    CHECK(map.error().where == "--tee");
    CHECK(map.error().what.find(bad) != std::string::npos);
  }
}

TEST_CASE("local ranks are whole numbers between commas", "[launcher]") {
  CHECK(*parse_ranks("", "x") == std::vector<int>{});
  CHECK(*parse_ranks("2", "x") == std::vector<int>{2});
  CHECK(*parse_ranks("0, 1,12", "x") == std::vector<int>{0, 1, 12});
  for (const char* bad : {",", "0,", ",0", "a", "0,b", "-1", "1.5", "0;1"}) {
    INFO(bad);
    CHECK_FALSE(parse_ranks(bad, "x").has_value());
  }
}

TEST_CASE("two commas in a filter text are one comma of the text", "[launcher]") {
  using List = std::vector<std::string>;
  CHECK(split_filters("") == List{});
  CHECK(split_filters("loss") == List{"loss"});
  CHECK(split_filters("loss, step ,") == List{"loss", "step"});
  CHECK(split_filters("a,,b,c") == List{"a,b", "c"});
  CHECK(split_filters(",,") == List{","});
  CHECK(split_filters("a,,,b") == List{"a,", "b"});
}

TEST_CASE("parts between commas come without blanks and without empty ones", "[launcher]") {
  using List = std::vector<std::string>;
  CHECK(split_commas("") == List{});
  CHECK(split_commas(" SIGTERM ,, SIGINT,") == List{"SIGTERM", "SIGINT"});
}
