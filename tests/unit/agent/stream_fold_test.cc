#include "agent/output/stream_fold.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <string>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

using Unfinished = StreamFold::Unfinished;

std::string brackets(const std::vector<int>& members) {
  return "[" + rank_list(members) + "]";
}
std::string only_several(const std::vector<int>& members) {
  return members.size() > 1 ? brackets(members) : "";
}

struct Bench {
  Bench(int streams, Unfinished unfinished, const LineFold::Label& label = only_several)
      : fold(streams, unfinished, label) {}
  Bench& join(int streams) {
    for (int i = 0; i < streams; ++i) {
      fold.join(i, "[p" + std::to_string(i) + "]", {"WARN"});
    }
    return *this;
  }
  void feed(int stream, std::string_view bytes) { fold.feed(stream, bytes, now, shown, filtered); }
  void pass(std::chrono::milliseconds time) {
    const auto end = now + time;
    while (fold.deadline() && *fold.deadline() <= end) {
      now = std::max(now, *fold.deadline());
      fold.tick(now, shown);
    }
    now = end;
  }
  std::string look() { return std::exchange(shown, {}); }

  StreamFold fold;
  StreamFold::Time now{1000s};
  std::string shown;
  std::string filtered;
};

}  // namespace

TEST_CASE("lines are folded wherever the reads have cut them", "[agent][fold]") {
  Bench bench(2, Unfinished::passed);
  bench.join(2);
  bench.feed(0, "same\nsa");
  bench.feed(1, "sam");
  bench.feed(1, "e\nsame\nmine\n");
  bench.feed(0, "me\n");
  bench.feed(0, "my own\n");
  CHECK(bench.look() == "[0,1]same\n[0,1]same\nmine\n");
  bench.pass(LineFold::kWait);
  CHECK(bench.look() == "my own\n");
}

TEST_CASE("a prompt is seen within the bound, and the rest of its line at once", "[agent][fold]") {
  Bench bench(2, Unfinished::passed);
  bench.join(2);
  bench.feed(0, "name? ");
  bench.pass(LineFold::kWait - 1ms);
  CHECK(bench.look().empty());
  bench.pass(1ms);
  CHECK(bench.look() == "name? ");
  bench.feed(0, "Ada");
  CHECK(bench.look() == "Ada");
  bench.feed(0, "\nsame\n");
  CHECK(bench.look() == "\n");
  bench.feed(1, "same\n");
  CHECK(bench.look() == "[0,1]same\n");
}

TEST_CASE("a line that grows slowly does not put off its showing", "[agent][fold]") {
  Bench bench(2, Unfinished::passed);
  bench.join(2);
  for (int i = 0; i < 10; ++i) {
    bench.feed(0, ".");
    bench.pass(11ms);
  }
  CHECK(bench.look() == "..........");
}

TEST_CASE("a text and a newline that are written apart are one line", "[agent][fold]") {
  Bench bench(2, Unfinished::passed);
  bench.join(2);
  for (const char* bytes : {"same", "\n"}) {
    bench.feed(0, bytes);
    bench.feed(1, bytes);
    bench.pass(20ms);
  }
  CHECK(bench.look() == "[0,1]same\n");
}

TEST_CASE("a progress bar of one rank looks as it was written, at once", "[agent][fold]") {
  Bench bench(8, Unfinished::passed);
  bench.join(8);
  std::string written;
  for (const char* state : {"\r  0%|    |", "\r 50%|##  |", "\r100%|####|", "\n"}) {
    bench.feed(0, state);
    written += state;
    CHECK(bench.shown == written);
    bench.pass(50ms);
  }
}

TEST_CASE("teed lines wait for their ends, and filters see each worker's own", "[agent][fold]") {
  Bench bench(2, Unfinished::kept, brackets);
  bench.join(2);
  bench.feed(0, "WARN half\r50%");
  bench.pass(10s);
  CHECK(bench.look().empty());
  bench.feed(0, "\nWARN x\n");
  CHECK(bench.filtered == "[p0]WARN half\r50%\n[p0]WARN x\n");
  bench.feed(1, "WARN x\nlast");
  CHECK(bench.look() == "[0]WARN half\r50%\n[0,1]WARN x\n");
  CHECK(bench.filtered.ends_with("[p1]WARN x\n"));
  bench.fold.end(1, bench.now, bench.shown, bench.filtered);
  bench.pass(LineFold::kWait);
  CHECK(bench.look() == "[1]last\n");  // others write behind it
}

TEST_CASE("last lines without an end are lines as any others where they are teed",
          "[agent][fold]") {
  Bench bench(2, Unfinished::kept, brackets);
  bench.join(2);
  bench.feed(0, "WARN done");
  bench.feed(1, "WARN done");
  bench.fold.end(0, bench.now, bench.shown, bench.filtered);
  bench.fold.end(1, bench.now, bench.shown, bench.filtered);
  CHECK(bench.look() == "[0,1]WARN done\n");
  CHECK(bench.filtered == "[p0]WARN done\n[p1]WARN done\n");
}

TEST_CASE("the last one left waits for nothing", "[agent][fold]") {
  Bench bench(2, Unfinished::passed);
  bench.join(2);
  bench.fold.end(0, bench.now, bench.shown, bench.filtered);
  bench.feed(1, "line\npart");
  CHECK(bench.look() == "line\npart");
}

TEST_CASE("a flush leaves nothing behind", "[agent][fold]") {
  Bench bench(2, Unfinished::passed);
  bench.join(2);
  bench.feed(0, "line\npart");
  bench.feed(1, "other");
  bench.fold.flush(bench.now, bench.shown, [](int, std::string_view) {});
  CHECK(bench.look() == "line\npartother");
  CHECK_FALSE(bench.fold.deadline());
}

TEST_CASE("a flood comes out byte for byte, whatever it is made of", "[agent][fold]") {
  std::mt19937 random(11);
  for (const Unfinished unfinished : {Unfinished::passed, Unfinished::kept}) {
    Bench bench(2, unfinished);
    bench.join(2);
    std::string written;
    while (written.size() < 8 * LineFold::kBurstBytesMax) {
      std::string piece;
      for (auto size = random() % 20'000; piece.size() < size;) {
        piece += std::string(random() % 200, 'x') + "\n\r\0y"[random() % 4];
      }
      bench.feed(0, piece);
      written += piece;
      bench.pass(1ms);
    }
    CHECK(written.size() - bench.shown.size() < LogFilter::kLineBytesMax);
    bench.fold.flush(bench.now, bench.shown, [](int, std::string_view) {});
    CHECK((bench.shown == written));
  }
}

TEST_CASE("any bytes in any pieces come out, each worker's in order", "[agent][fold]") {
  // Each worker has letters of its own, so its share can be told apart; only '=' lines are common.
  for (unsigned seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const int streams = 1 + static_cast<int>(random() % 5);
    Bench bench(streams, random() % 2 == 0 ? Unfinished::passed : Unfinished::kept);
    bench.join(streams);
    std::vector<std::string> own(static_cast<std::size_t>(streams));
    for (int step = 0; step < 300; ++step) {
      const auto stream = random() % static_cast<unsigned>(streams);
      std::string piece;
      for (unsigned i = random() % 6; i > 0; --i) {
        piece += random() % 3 == 0 ? "\r\n\n\x1b"[random() % 4] : static_cast<char>('a' + stream);
      }
      bench.feed(static_cast<int>(stream), piece);
      own[stream] += piece;
      bench.pass(std::chrono::milliseconds(random() % 3 == 0 ? random() % 200 : 0));
    }
    bench.fold.flush(bench.now, bench.shown, [](int, std::string_view) {});
    for (int i = 0; i < streams; ++i) {
      const char letter = static_cast<char>('a' + i);
      const auto letters = [&](const std::string& text) {
        return std::count(text.begin(), text.end(), letter);
      };
      REQUIRE(letters(bench.shown) == letters(own[static_cast<std::size_t>(i)]));
    }
    if (streams == 1) {
      REQUIRE(bench.shown == own[0]);
    }
  }
}
