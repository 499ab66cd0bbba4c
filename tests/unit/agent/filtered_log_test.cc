#include "agent/output/filtered_log.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/result_text.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using ddprun::test::read_file;
using ddprun::test::TempDir;

namespace {

/// Two streams of one log; only their addresses count.
struct TwoStreams {
  TempDir dir;
  std::string path = dir.path() / "filtered_stdout.log";
  std::shared_ptr<FilteredLog> log = open();
  char a = 0;
  char b = 0;

  [[nodiscard]] std::shared_ptr<FilteredLog> open() const {
    auto opened = FilteredLog::open(path);
    REQUIRE(opened.has_value());
    return *opened;
  }
  [[nodiscard]] std::string text() const { return read_file(path); }
};

}  // namespace

TEST_CASE("FilteredLog: a line that has no end yet ends where another stream writes", "[output]") {
  TwoStreams streams;
  streams.log->append(&streams.a, "[a]: one\n[a]: begun");
  streams.log->append(&streams.b, "[b]: two\n");
  CHECK(streams.text() == "[a]: one\n[a]: begun\n[b]: two\n");

  SECTION("its rest has a line of its own") {
    streams.log->append(&streams.a, " and ended\n");
    CHECK(streams.text() == "[a]: one\n[a]: begun\n[b]: two\n and ended\n");
  }
  SECTION("its end adds no empty line, also with more behind it") {
    streams.log->append(&streams.a, "\n[a]: next\n\n");
    CHECK(streams.text() == "[a]: one\n[a]: begun\n[b]: two\n[a]: next\n\n");
  }
  SECTION("its end alone adds no empty line") {
    streams.log->append(&streams.a, "\n");
    CHECK(streams.text() == "[a]: one\n[a]: begun\n[b]: two\n");
  }
}

TEST_CASE("FilteredLog: a stream goes on with its own open line", "[output]") {
  TwoStreams streams;
  streams.log->append(&streams.a, "[a]: begun");
  streams.log->append(&streams.b, "");
  streams.log->append(&streams.a, " and ended");
  streams.log->append(&streams.a, "\n");
  CHECK(streams.text() == "[a]: begun and ended\n");
}

TEST_CASE("FilteredLog: goes on with a file that is there, and says which it cannot open",
          "[output]") {
  TwoStreams streams;
  streams.log->append(&streams.a, "[a]: one\n");
  streams.open()->append(&streams.b, "[b]: two\n");
  CHECK(streams.text() == "[a]: one\n[b]: two\n");

  const auto refused = FilteredLog::open(streams.dir.path().string());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().sentence().find(streams.dir.path().string()) != std::string::npos);
}
