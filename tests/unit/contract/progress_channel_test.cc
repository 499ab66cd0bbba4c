#include "rendezvous/contract/progress_channel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

using namespace ddprun;

TEST_CASE("What a worker writes, its agent reads, across processes") {
  auto agent = ProgressChannel::create();
  REQUIRE(agent.has_value());
  CHECK(agent->page().magic == 0);
  CHECK(agent->page().steps == 0);
  const std::string path = agent->path();
  const pid_t worker = ::fork();
  if (worker == 0) {
    auto channel = ProgressChannel::attach(path);
    if (!channel) {
      ::_exit(1);
    }
    channel->page().steps = 42;
    channel->page().loss = 0.5;
    channel->page().has_loss = 1;
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(worker, &status, 0) == worker);
  REQUIRE(status == 0);
  CHECK(agent->page().magic == ProgressPage::kMagic);
  CHECK(agent->page().steps == 42);
  CHECK(agent->page().has_loss == 1);
  CHECK(agent->page().loss == 0.5);
}

TEST_CASE("The agent's end may be moved") {
  auto made = ProgressChannel::create();
  REQUIRE(made.has_value());
  ProgressChannel agent = std::move(*made);
  auto worker = ProgressChannel::attach(agent.path());
  REQUIRE(worker.has_value());
  worker->page().steps = 7;
  CHECK(agent.page().steps == 7);
}

TEST_CASE("A snapshot is told whole or not at all") {
  auto agent = ProgressChannel::create();
  REQUIRE(agent.has_value());
  ProgressPage& page = agent->page();
  CHECK_FALSE(newest_save(page));
  page.save_version = 1;
  page.saved_ns = 7;
  page.saved_steps = 40;
  CHECK_FALSE(newest_save(page));  // the worker may have been killed here
  page.saved_plus_1 = 3;
  page.save_version = 2;
  REQUIRE(newest_save(page));
  CHECK(newest_save(page)->number_plus_1 == 3);
  CHECK(newest_save(page)->at_ns == 7);
  CHECK(newest_save(page)->steps == 40);
}

TEST_CASE("What is no channel is refused with its path") {
  const auto missing = ProgressChannel::attach("/nonexistent/channel");
  REQUIRE(missing.has_error());
  CHECK(missing.error().where == "/nonexistent/channel");
  const test::TempDir dir;
  CHECK(ProgressChannel::attach(dir.write("small", "")).has_error());
  CHECK(ProgressChannel::attach("/dev/null").has_error());
}

TEST_CASE("Behind the page there is room for stacks, as both ends see it") {
  auto agent = ProgressChannel::create();
  REQUIRE(agent.has_value());
  auto worker = ProgressChannel::attach(agent->path());
  REQUIRE(worker.has_value());
  REQUIRE(worker->stacks().size() == ProgressChannel::kStackBytesMax);
  worker->stacks().front() = 'a';
  worker->stacks().back() = 'z';
  CHECK(agent->stacks().front() == 'a');
  CHECK(agent->stacks().back() == 'z');
  CHECK(agent->page().stack_bytes == 0);
}

TEST_CASE("A channel of one page, as older agents make it, has no room for stacks") {
  const test::TempDir dir;
  const std::string page(ProgressChannel::kPageBytes, '\0');
  const auto worker = ProgressChannel::attach(dir.write("page", page));
  REQUIRE(worker.has_value());
  CHECK(worker->stacks().empty());
}
