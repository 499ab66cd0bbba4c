#include "launcher/rdzv_conf.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using std::chrono::seconds;

TEST_CASE("an empty --rdzv-conf sets nothing", "[launcher]") {
  for (const char* text : {"", "  "}) {
    const auto conf = parse_rdzv_conf(text, "--rdzv-conf");
    REQUIRE(conf.has_value());
    CHECK_FALSE(conf->timeout);
    CHECK_FALSE(conf->join_timeout);
    CHECK_FALSE(conf->is_host);
  }
}

TEST_CASE("keys of --rdzv-conf that mean something here are read", "[launcher]") {
  const auto conf = parse_rdzv_conf(
      " timeout=11, join_timeout = 12,last_call_timeout=13,keep_alive_interval=2,"
      "keep_alive_max_attempt=4,is_host=Yes,read_timeout=60,close_timeout=1,heartbeat_timeout=5,"
      "store_type=tcp,rank=3,anything=goes=here",
      "--rdzv-conf");
  REQUIRE(conf.has_value());
  CHECK(conf->timeout == seconds(11));
  CHECK(conf->join_timeout == seconds(12));
  CHECK(conf->last_call_timeout == seconds(13));
  CHECK(conf->keep_alive_interval == seconds(2));
  CHECK(conf->keep_alive_max_attempt == 4);
  CHECK(conf->is_host == true);
}

TEST_CASE("quotes that reach --rdzv-conf are removed, as a shell would have", "[launcher]") {
  for (const char* text :
       {"'join_timeout=5,timeout=7'", "\"join_timeout=5,timeout=7\"",
        " ' join_timeout=5, timeout=7 ' ", "'\"join_timeout=5,timeout=7\"'",
        "join_timeout='5',timeout=\"7\"", "join_timeout = ' 5 ' , timeout = \" 7 \"",
        "'join_timeout=5','timeout=7'", "'join_timeout'='5','timeout'='7'"}) {
    INFO(text);
    const auto conf = parse_rdzv_conf(text, "x");
    REQUIRE(conf.has_value());
    CHECK(conf->join_timeout == seconds(5));
    CHECK(conf->timeout == seconds(7));
  }
  CHECK(parse_rdzv_conf("''", "x").has_value());
}

TEST_CASE("is_host takes every word that torchrun takes", "[launcher]") {
  for (const char* yes : {"1", "true", "T", "yes", "Y", "True"}) {
    CHECK(parse_rdzv_conf(std::string("is_host=") + yes, "x")->is_host == true);
  }
  for (const char* no : {"0", "false", "F", "no", "N"}) {
    CHECK(parse_rdzv_conf(std::string("is_host=") + no, "x")->is_host == false);
  }
}

TEST_CASE("a bad entry of --rdzv-conf is refused by its name", "[launcher]") {
  struct Row {
    const char* text;
    const char* says;
  };
  const Row rows[] = {{"=1", "no key"},
                      {",", "no key"},
                      {"timeout=1,", "no key"},
                      {"timeout", "'timeout' has no value"},
                      {"timeout=", "'timeout' has no value"},
                      {"timeout= ,join_timeout=3", "'timeout' has no value"},
                      {"timeout=x", "timeout='x'"},
                      {"join_timeout=0", "join_timeout='0'"},
                      {"last_call_timeout=-1", "last_call_timeout='-1'"},
                      {"close_timeout=1.5", "close_timeout='1.5'"},
                      {"heartbeat_timeout=soon", "heartbeat_timeout='soon'"},
                      {"read_timeout=0", "read_timeout='0'"},
                      {"keep_alive_interval=0", "keep_alive_interval='0'"},
                      {"keep_alive_max_attempt=0", "keep_alive_max_attempt='0'"},
                      {"is_host=maybe", "is_host='maybe'"},
                      {"store_type=file", "store_type='file'"},
                      {"'timeout=x'", "timeout='x'"},
                      {"timeout=''", "'timeout' has no value"},
                      {"timeout=5'", "timeout='5''"}};
  for (const Row& row : rows) {
    INFO(row.text);
    const auto conf = parse_rdzv_conf(row.text, "PET_RDZV_CONF");
    REQUIRE_FALSE(conf.has_value());
    CHECK(conf.error().where == "PET_RDZV_CONF");
    CHECK(conf.error().what.find(row.says) != std::string::npos);
    CHECK_FALSE(conf.error().todo.empty());
  }
}
