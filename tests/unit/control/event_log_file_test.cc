#include "rendezvous/control/event_log_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

using namespace ddprun;
using ddprun::test::read_file;
using ddprun::test::TempDir;

TEST_CASE("An event log is made, and continued by the next one") {
  const TempDir dir;
  const std::string path = dir.file("events.jsonl");
  {
    auto log = EventLogFile::open(path, "n1");
    REQUIRE(log.has_value());
    CHECK((*log)->append("{\"a\":1}") == 0);
  }
  auto log = EventLogFile::open(path, "n1");
  REQUIRE(log.has_value());
  CHECK((*log)->append("{\"a\":2}") == 0);
  CHECK(read_file(path) == "{\"a\":1}\n{\"a\":2}\n");
}

TEST_CASE("A line that a crash cut short does not run into the next one") {
  const TempDir dir;
  const std::string path = dir.file("events.jsonl");
  std::ofstream(path) << "{\"a\":1}\n{\"a\"";
  auto log = EventLogFile::open(path, "n1");
  REQUIRE(log.has_value());
  CHECK((*log)->append("{\"a\":3}") == 0);
  CHECK((*log)->append("{\"a\":4}") == 0);
  CHECK(read_file(path) == "{\"a\":1}\n{\"a\"\n{\"a\":3}\n{\"a\":4}\n");
}

TEST_CASE("An event log that cannot be written is refused with its path and what to do") {
  const TempDir dir;
  for (const std::string& path : {dir.file("none/events.jsonl"), dir.path().string()}) {
    const auto log = EventLogFile::open(path, "n1");
    REQUIRE(log.has_error());
    CHECK(log.error().where == "--event-log '" + path + "'");
    CHECK_FALSE(log.error().todo.empty());
  }
  const std::string fifo = dir.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(EventLogFile::open(fifo, "n1").has_error());  // nobody reads it: no waiting for that
}

TEST_CASE("A full disk is told, and nothing else happens") {
  auto log = EventLogFile::open("/dev/full", "n1");
  REQUIRE(log.has_value());
  CHECK((*log)->append("{}") == ENOSPC);
  CHECK((*log)->append("{}") == ENOSPC);
}
