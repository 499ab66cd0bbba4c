#include "agent/process/file_timer.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "rendezvous/base/fd.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests
using ddprun::test::TempDir;

namespace {

struct Bench {
  Bench() {
    auto made = FileTimer::create(
        io, path, [this](const ExpiredTimer& timer) { expired.push_back(timer); }, log);
    REQUIRE(made.has_value());
    timer = std::move(*made);
  }
  void write(const std::string& text) const {
    const Fd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK));
    REQUIRE(fd);
    REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  static std::string line(pid_t pid, const std::string& scope, std::chrono::milliseconds in) {
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch() + in)
            .count();
    return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": ")" + scope +
           R"(", "expiration_time": )" + std::to_string(now) + R"(, "signal": 9})" + "\n";
  }
  /// The loop turns until so many have expired, or the deadline.
  void run_until(std::size_t count, std::chrono::milliseconds limit = 10s) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (expired.size() < count && std::chrono::steady_clock::now() < deadline) {
      io.run_one_until(deadline);
    }
  }
  TempDir dir;
  std::string path = dir.file("timers");
  boost::asio::io_context io{1};
  std::ostringstream said;
  std::shared_ptr<spdlog::logger> log = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said, true));
  std::vector<ExpiredTimer> expired;
  std::unique_ptr<FileTimer> timer;
};

}  // namespace

TEST_CASE("a timer that is not released in time is told of, with its scope") {
  Bench bench;
  bench.write(Bench::line(7, "step", 30ms) + Bench::line(8, "other", 1h));
  bench.run_until(1);
  REQUIRE(bench.expired.size() == 1);
  CHECK(bench.expired[0].pid == 7);
  CHECK(bench.expired[0].scope == "step");
}

TEST_CASE("an earlier timer that comes later is waited for first") {
  Bench bench;
  bench.write(Bench::line(7, "late", 1h));
  bench.io.run_one_for(1s);
  bench.write(Bench::line(8, "early", 20ms));
  bench.run_until(1);
  REQUIRE(bench.expired.size() == 1);
  CHECK(bench.expired[0].scope == "early");
}

TEST_CASE("junk is passed over with one warning, and timers after it count") {
  Bench bench;
  bench.write("junk\n{}\n" + std::string(5000, 'x'));
  bench.write("\n" + Bench::line(7, "step", 0ms));
  bench.run_until(1);
  CHECK(bench.expired.size() == 1);
  const std::string said = bench.said.str();
  CHECK(said.find("it is no JSON object") != std::string::npos);
  CHECK(said.find("passed over") == said.rfind("passed over"));
}

TEST_CASE("the timers of an attempt that is over do not expire in the next") {
  Bench bench;
  bench.write(Bench::line(7, "old", 50ms));
  bench.io.run_one_for(1s);
  bench.timer->forget_all();
  bench.write(Bench::line(7, "new", 100ms));
  bench.run_until(1);
  REQUIRE(bench.expired.size() == 1);
  CHECK(bench.expired[0].scope == "new");
}

TEST_CASE("ten thousand timers expire together without a scan for each") {
  Bench bench;
  for (int i = 0; i < 100; ++i) {
    std::string lines;
    for (int j = 0; j < 100; ++j) {
      lines += Bench::line(1 + i * 100 + j, "s", 300ms);
    }
    while (!lines.empty()) {  // as much as the pipe takes, in whole lines
      const std::string part = lines.substr(0, lines.rfind('\n', 4000) + 1);
      bench.write(part);
      lines.erase(0, part.size());
      bench.io.poll();
    }
  }
  bench.run_until(10'000);
  CHECK(bench.expired.size() == 10'000);
}

TEST_CASE("the FIFO is its owner's alone, replaces an old one, and is gone at the end") {
  TempDir dir;
  boost::asio::io_context io;
  auto log = std::make_shared<spdlog::logger>("test");
  const std::string path = dir.file("timers");
  REQUIRE(::mkfifo(path.c_str(), 0666) == 0);
  {
    const auto timer = FileTimer::create(
        io, path, [](const ExpiredTimer&) {}, log);
    REQUIRE(timer.has_value());
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK(S_ISFIFO(status.st_mode));
    CHECK((status.st_mode & 0077) == 0);
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("the FIFO of another agent is left to it") {
  Bench bench;
  const auto second = FileTimer::create(
      bench.io, bench.path, [](const ExpiredTimer&) {}, bench.log);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().sentence().find(bench.path) != std::string::npos);
  bench.write(Bench::line(7, "step", 0ms));
  bench.run_until(1);
  CHECK(bench.expired.size() == 1);
}

TEST_CASE("a file that is no FIFO is left alone") {
  TempDir dir;
  boost::asio::io_context io;
  const std::string path = dir.file("precious");
  std::ofstream(path) << "data";
  const auto timer = FileTimer::create(
      io, path, [](const ExpiredTimer&) {}, std::make_shared<spdlog::logger>("test"));
  REQUIRE_FALSE(timer.has_value());
  CHECK(timer.error().sentence().find(path) != std::string::npos);
  CHECK(ddprun::test::read_file(path) == "data");
}
