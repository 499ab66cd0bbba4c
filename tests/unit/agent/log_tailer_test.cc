#include "agent/output/log_tailer.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/output/log_filter.h"
#include "rendezvous/base/fd.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::test::TempDir;

namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = 60s;

/// Runs the loop until `condition` holds; false when it does not in time.
bool run_until(asio::io_context& io, const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + kPatience;
  while (!condition() && Clock::now() < deadline) {
    io.restart();
    io.run_one_for(50ms);
  }
  return condition();
}

void append(const std::string& path, const std::string& text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

std::unique_ptr<LogTailer> make_follower(asio::io_context& io) {
  auto follower = LogTailer::create(io);
  REQUIRE(follower.has_value());
  return std::move(*follower);
}

/// What came out of one file.
struct Got {
  std::string text;
  int ends = 0;
  LogTailer::Sink sink() {
    return {[this](std::string_view bytes) {
              REQUIRE(ends == 0);
              text += bytes;
            },
            [this] { ++ends; }, nullptr};
  }
};

/// Checks an endless known text piece by piece, so that 200 MB need not be kept. Its period is
/// prime: a piece that is missing or doubled shifts all that follows.
class Pattern {
 public:
  Pattern() {
    std::uint32_t state = 1;
    for (char& c : bytes_) {
      state = state * 1664525U + 1013904223U;
      c = static_cast<char>(state >> 24U);
    }
  }
  /// The next `size` bytes at `at`.
  [[nodiscard]] std::string_view piece(std::size_t at, std::size_t size) const {
    const std::size_t begin = at % kPeriod;
    return std::string_view(bytes_).substr(begin, std::min(size, kPeriod - begin));
  }
  [[nodiscard]] bool matches(std::size_t at, std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto expected = piece(at, bytes.size());
      if (bytes.substr(0, expected.size()) != expected) {
        return false;
      }
      at += expected.size();
      bytes.remove_prefix(expected.size());
    }
    return true;
  }

 private:
  static constexpr std::size_t kPeriod = 1'000'003;
  std::string bytes_ = std::string(kPeriod, '\0');
};

/// A process that appends the pattern from `begin` to `end` to a file, as fast as it can.
pid_t start_writer(const std::string& path, const Pattern& pattern, std::size_t begin,
                   std::size_t end) {
  const pid_t pid = ::fork();
  if (pid != 0) {
    return pid;
  }
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  for (std::size_t at = begin; at < end;) {
    const auto piece = pattern.piece(at, std::min<std::size_t>(end - at, 64 * 1024));
    const ssize_t written = ::write(file, piece.data(), piece.size());
    if (written < 0) {
      ::_exit(1);
    }
    at += static_cast<std::size_t>(written);
  }
  ::_exit(0);
}

void check_exit(pid_t pid) {
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(status == 0);
}

}  // namespace

TEST_CASE("bytes arrive while the worker goes on, and an idle file costs nothing", "[agent]") {
  const TempDir dir;
  asio::io_context io;
  auto follower = make_follower(io);
  Got got;
  append(dir.file("log"), "before ");
  REQUIRE(follower->follow(dir.file("log"), got.sink()).has_value());
  CHECK(run_until(io, [&] { return got.text == "before "; }));
  for (int i = 0; i < 5; ++i) {
    const std::string all = got.text + "part " + std::to_string(i) + "\n";
    append(dir.file("log"), "part " + std::to_string(i) + "\n");
    CHECK(run_until(io, [&] { return got.text == all; }));
  }
  io.restart();
  io.poll();
  io.restart();
  CHECK(io.run_for(30ms) == 0);  // nothing wakes us: no handler runs
  CHECK(got.ends == 0);
}

TEST_CASE("the file is made when it is not there, without its directory it is an error",
          "[agent]") {
  const TempDir dir;
  asio::io_context io;
  auto follower = make_follower(io);
  Got got;
  REQUIRE(follower->follow(dir.file("new"), got.sink()).has_value());
  append(dir.file("new"), "text");
  CHECK(run_until(io, [&] { return got.text == "text"; }));
  const auto followed = follower->follow(dir.file("missing/new"), got.sink());
  REQUIRE(!followed);
  CHECK(followed.error().sentence().find(dir.file("missing/new")) == 0);
}

TEST_CASE("finish drains every file, ends each once, and then is done", "[agent]") {
  const TempDir dir;
  asio::io_context io;
  auto follower = make_follower(io);
  std::array<Got, 3> got;
  for (std::size_t i = 0; i < got.size(); ++i) {
    REQUIRE(follower->follow(dir.file(std::to_string(i)), got[i].sink()).has_value());
  }
  append(dir.file("0"), "line\nlast line without newline");
  append(dir.file("2"), std::string(1'000'000, 'x') + "end");
  int done = 0;
  follower->finish([&] {
    CHECK(got[0].ends + got[1].ends + got[2].ends == 3);
    ++done;
  });
  CHECK(done == 0);  // on the loop, not from within
  CHECK(run_until(io, [&] { return done > 0; }));
  io.restart();
  io.poll();
  CHECK(done == 1);
  CHECK(got[0].text == "line\nlast line without newline");
  CHECK(got[1].text.empty());
  CHECK(got[2].text.size() == 1'000'003);
}

TEST_CASE("with nothing to follow finish is done at once", "[agent]") {
  asio::io_context io;
  auto follower = make_follower(io);
  bool done = false;
  follower->finish([&] { done = true; });
  CHECK(run_until(io, [&] { return done; }));
}

TEST_CASE("a last line without newline gets its prefix and no newline", "[agent]") {
  const TempDir dir;
  asio::io_context io;
  auto follower = make_follower(io);
  LogFilter filter("[default0]:", {});
  std::string shown;
  std::string filtered;
  REQUIRE(follower
              ->follow(dir.file("log"),
                       {[&](std::string_view bytes) { filter.feed(bytes, shown, filtered); },
                        [&] { filter.finish(shown, filtered); }, nullptr})
              .has_value());
  append(dir.file("log"), "one\ntwo");
  bool done = false;
  follower->finish([&] { done = true; });
  CHECK(run_until(io, [&] { return done; }));
  CHECK(shown == "[default0]:one\n[default0]:two");
}

TEST_CASE("200 MB, half of them written at full speed meanwhile, lose nothing and hold up nobody",
          "[agent]") {
  constexpr std::size_t kSize = 200'000'000;
  const TempDir dir;
  const Pattern pattern;
  asio::io_context io;
  auto follower = make_follower(io);
  std::size_t taken = 0;
  bool same = true;
  const auto take = [&](std::string_view bytes) {
    same = same && pattern.matches(taken, bytes);
    taken += bytes.size();
  };
  // Half of it lies there already: as much as one could want to read in one turn.
  check_exit(start_writer(dir.file("log"), pattern, 0, kSize / 2));
  REQUIRE(follower->follow(dir.file("log"), {take, {}, nullptr}).has_value());

  // The agent's other duties, once as a handler in the queue and once as a timer.
  bool over = false;
  std::size_t taken_before = 0;
  std::size_t most_between = 0;
  std::function<void()> duty = [&] {
    most_between = std::max(most_between, taken - taken_before);
    taken_before = taken;
    if (!over) {
      asio::post(io, [&] { duty(); });
    }
  };
  duty();
  asio::steady_timer timer(io);
  auto last_tick = Clock::now();
  Clock::duration worst_gap{};
  int ticks = 0;
  std::function<void()> tick = [&] {
    worst_gap = std::max(worst_gap, Clock::now() - last_tick);
    last_tick = Clock::now();
    ++ticks;
    timer.expires_after(2ms);
    timer.async_wait([&](boost::system::error_code error) {
      if (!error && !over) {
        tick();
      }
    });
  };
  tick();

  const auto begin = Clock::now();
  const pid_t writer = start_writer(dir.file("log"), pattern, kSize / 2, kSize);
  CHECK(run_until(io, [&] { return taken == kSize; }));
  check_exit(writer);
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  follower->finish([&] { over = true; });
  CHECK(run_until(io, [&] { return over; }));
  timer.cancel();
  io.restart();
  io.poll();
  CHECK(same);
  CHECK(taken == kSize);
  CHECK(most_between <= LogTailer::kBytesPerTurn);
  INFO(ticks << " ticks, worst gap "
             << std::chrono::duration_cast<std::chrono::milliseconds>(worst_gap).count() << " ms, "
             << kSize / 1e6 / seconds.count() << " MB/s");
  CHECK(worst_gap < 1s);
  CHECK(ticks >= 3);
}

TEST_CASE("a blocked console makes its file wait and no other, and loses nothing", "[agent]") {
  constexpr std::size_t kSize = 8'000'000;
  const TempDir dir;
  const Pattern pattern;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const Fd reader(ends[0]);
  const Fd stream(ends[1]);
  asio::io_context io;
  Console console(io, stream.get());
  auto follower = make_follower(io);
  std::size_t taken = 0;
  bool ended = false;
  REQUIRE(follower
              ->follow(dir.file("slow"), {[&](std::string_view bytes) {
                                            taken += bytes.size();
                                            console.write(bytes);
                                          },
                                          [&] { ended = true; }, &console})
              .has_value());
  Got free;
  REQUIRE(follower->follow(dir.file("free"), free.sink()).has_value());
  check_exit(start_writer(dir.file("slow"), pattern, 0, kSize));
  CHECK(run_until(io, [&] { return console.full(); }));
  bool done = false;
  for (int i = 1; i <= 100; ++i) {
    append(dir.file("free"), "x");
    append(dir.file("slow"), "");
    CHECK(run_until(io, [&] { return free.text.size() == static_cast<std::size_t>(i); }));
  }
  follower->finish([&] { done = true; });
  io.restart();
  io.poll();
  CHECK(taken <= Console::kBufferBytesMax + LogTailer::kBytesPerTurn + 1024 * 1024);
  CHECK(!ended);
  CHECK(!done);
  // Now somebody reads.
  std::size_t read = 0;
  bool same = true;
  std::string piece(150'000, '\0');
  const auto deadline = Clock::now() + kPatience;
  while (read < kSize && same && Clock::now() < deadline) {
    const ssize_t size = ::read(reader.get(), piece.data(), piece.size());
    REQUIRE(size > 0);
    same = pattern.matches(read, std::string_view(piece).substr(0, static_cast<std::size_t>(size)));
    read += static_cast<std::size_t>(size);
    io.restart();
    io.poll();
  }
  CHECK(run_until(io, [&] { return done; }));
  CHECK(same);
  CHECK(read == kSize);
  CHECK(ended);
}

TEST_CASE("a worker that writes on while the console is blocked costs no memory", "[agent]") {
  const TempDir dir;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const Fd reader(ends[0]);
  const Fd stream(ends[1]);
  asio::io_context io;
  Console console(io, stream.get());
  auto follower = make_follower(io);
  const auto take = [&](std::string_view bytes) { console.write(bytes); };
  REQUIRE(follower->follow(dir.file("log"), {take, {}, &console}).has_value());
  append(dir.file("log"), std::string(4 * Console::kBufferBytesMax, 'x'));
  CHECK(run_until(io, [&] { return console.full(); }));
  io.restart();
  io.poll();
  for (int i = 0; i < 1000; ++i) {
    append(dir.file("log"), "y");
    io.restart();
    io.poll();
  }
  // Room comes: what was asked for a thousand times is called once, not a thousand times.
  std::string piece(4 * Console::kBufferBytesMax, '\0');
  std::size_t handlers = 0;
  while (console.full()) {
    REQUIRE(::read(reader.get(), piece.data(), piece.size()) > 0);
    io.restart();
    handlers += io.poll();
  }
  CHECK(handlers < 200);
}

TEST_CASE("many files at once each keep their own bytes in order", "[agent]") {
  constexpr int kFiles = 64;
  constexpr std::size_t kSize = 400'000;
  const TempDir dir;
  const Pattern pattern;
  asio::io_context io;
  auto follower = make_follower(io);
  std::vector<std::size_t> taken(kFiles);
  std::vector<pid_t> writers;
  bool same = true;
  int ended = 0;
  for (int i = 0; i < kFiles; ++i) {
    std::size_t& mine = taken[static_cast<std::size_t>(i)];
    REQUIRE(follower
                ->follow(dir.file(std::to_string(i)), {[&](std::string_view bytes) {
                                                         same =
                                                             same && pattern.matches(mine, bytes);
                                                         mine += bytes.size();
                                                       },
                                                       [&] { ++ended; }, nullptr})
                .has_value());
  }
  for (int i = 0; i < kFiles; ++i) {
    writers.push_back(start_writer(dir.file(std::to_string(i)), pattern, 0, kSize));
  }
  CHECK(run_until(io, [&] {
    return std::all_of(taken.begin(), taken.end(), [](auto size) { return size == kSize; });
  }));
  for (const pid_t writer : writers) {
    check_exit(writer);
  }
  bool done = false;
  follower->finish([&] { done = true; });
  CHECK(run_until(io, [&] { return done; }));
  CHECK(same);
  CHECK(ended == kFiles);
}

TEST_CASE("a file that was cut short is read on from its new begin", "[agent]") {
  const TempDir dir;
  asio::io_context io;
  auto follower = make_follower(io);
  Got got;
  REQUIRE(follower->follow(dir.file("log"), got.sink()).has_value());
  append(dir.file("log"), "a long first text\n");
  CHECK(run_until(io, [&] { return got.text == "a long first text\n"; }));
  REQUIRE(::truncate(dir.file("log").c_str(), 0) == 0);
  append(dir.file("log"), "new\n");
  CHECK(run_until(io, [&] { return got.text == "a long first text\nnew\n"; }));
  REQUIRE(::truncate(dir.file("log").c_str(), 0) == 0);
  bool done = false;
  follower->finish([&] { done = true; });
  CHECK(run_until(io, [&] { return done; }));
  CHECK(got.text == "a long first text\nnew\n");
}

TEST_CASE("events that the kernel dropped are made up for", "[agent]") {
  int queue_max = 0;
  {
    const std::string text = ddprun::test::read_file("/proc/sys/fs/inotify/max_queued_events");
    queue_max = text.empty() ? 0 : std::stoi(text);
  }
  if (queue_max == 0 || queue_max > 200'000) {
    SKIP_TEST("kernel", "the inotify queue holds " + std::to_string(queue_max) +
                            " events, too many to fill here");
  }
  const TempDir dir;
  asio::io_context io;
  auto follower = make_follower(io);
  Got a;
  Got b;
  Got late;
  REQUIRE(follower->follow(dir.file("a"), a.sink()).has_value());
  REQUIRE(follower->follow(dir.file("b"), b.sink()).has_value());
  REQUIRE(follower->follow(dir.file("late"), late.sink()).has_value());
  io.poll();
  const Fd file_a(::open(dir.file("a").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const Fd file_b(::open(dir.file("b").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  // Alternating, since the kernel folds equal events that follow each other.
  for (int i = 0; i <= queue_max / 2; ++i) {
    REQUIRE(::write(file_a.get(), "a", 1) == 1);
    REQUIRE(::write(file_b.get(), "b", 1) == 1);
  }
  append(dir.file("late"), "after the queue was full");
  CHECK(run_until(io, [&] { return late.text == "after the queue was full"; }));
  CHECK(a.text.size() == static_cast<std::size_t>(queue_max / 2 + 1));
  CHECK(b.text.size() == static_cast<std::size_t>(queue_max / 2 + 1));
}

TEST_CASE("a follower that goes away calls nobody any more", "[agent]") {
  const TempDir dir;
  asio::io_context io;
  Got got;
  bool done = false;
  {
    auto follower = make_follower(io);
    REQUIRE(follower->follow(dir.file("log"), got.sink()).has_value());
    append(dir.file("log"), "text");
    follower->finish([&] { done = true; });
  }
  io.run_for(10s);
  CHECK(io.stopped());
  CHECK(got.text.empty());
  CHECK(got.ends == 0);
  CHECK(!done);
}
