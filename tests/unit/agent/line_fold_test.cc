#include "agent/output/line_fold.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

using Time = LineFold::Time;

std::string label(const std::vector<int>& members) {
  return "[" + rank_list(members) + "] ";
}

/// A fold, its console, and a clock that stands until it is moved.
struct Bench {
  explicit Bench(int members) : fold(members, label) {
    for (int i = 0; i < members; ++i) {
      fold.join(i);
    }
  }
  void write(int member, const std::string& text, bool begins = true) {
    fold.add(member, {text, begins, text.ends_with('\n')}, now, shown);
  }
  /// Lets time pass, and calls the fold whenever it wants to be called.
  void pass(std::chrono::milliseconds time) {
    const Time end = now + time;
    while (fold.deadline() && *fold.deadline() <= end) {
      now = std::max(now, *fold.deadline());
      fold.tick(now, shown);
    }
    now = end;
  }
  /// What has been shown since the last look.
  std::string look() { return std::exchange(shown, {}); }

  LineFold fold;
  Time now{1000s};
  std::string shown;
};

}  // namespace

TEST_CASE("a rank list is short and exact", "[agent][fold]") {
  CHECK(rank_list({0, 1, 2, 3, 4, 5, 6, 7}) == "0-7");
  CHECK(rank_list({0, 2, 3, 4, 5}) == "0,2-5");
  CHECK(rank_list({3}) == "3");
  CHECK(rank_list({3, 4}) == "3,4");
  CHECK(rank_list({0, 1, 3, 5, 6, 7, 12}) == "0,1,3,5-7,12");
  CHECK(rank_list({9, 10, 11}) == "9-11");
  CHECK(rank_list({}).empty());
}

TEST_CASE("a line that all write is shown once, as soon as the last has written it",
          "[agent][fold]") {
  Bench bench(3);
  bench.write(1, "same\n");
  bench.write(0, "same\n");
  CHECK(bench.look().empty());
  bench.write(2, "same\n");
  CHECK(bench.look() == "[0-2] same\n");
  CHECK_FALSE(bench.fold.deadline());
}

TEST_CASE("a line that nobody else writes is shown within the bound, as it is", "[agent][fold]") {
  Bench bench(3);
  bench.write(1, "mine\n");
  bench.pass(LineFold::kWait - 11ms);
  CHECK(bench.look().empty());
  bench.pass(11ms);
  CHECK(bench.look() == "[1] mine\n");
}

TEST_CASE("nobody waits for one who has gone on, or gone", "[agent][fold]") {
  Bench bench(3);
  bench.write(0, "a\n");
  bench.write(1, "b\n");
  bench.write(2, "c\n");  // nobody can write "a" before those any more
  CHECK(bench.look() == "[0] a\n");
  bench.fold.leave(0, bench.now, bench.shown);
  CHECK(bench.look() == "[1] b\n");
  bench.fold.leave(1, bench.now, bench.shown);
  CHECK(bench.look() == "[2] c\n");
  CHECK(bench.fold.alone());
  bench.write(2, "d\n");
  CHECK(bench.look() == "[2] d\n");
}

TEST_CASE("who is not there is not waited for", "[agent][fold]") {
  LineFold fold(8, label);
  fold.join(3);
  std::string shown;
  fold.add(3, {"at once\n", true, true}, Time{1s}, shown);
  CHECK(shown == "[3] at once\n");
}

TEST_CASE("one worker's lines keep their order, equal ones too", "[agent][fold]") {
  Bench bench(2);
  for (const char* text : {"a\n", "a\n", "b\n", "a\n"}) {
    bench.write(0, text);
  }
  for (const char* text : {"a\n", "b\n", "a\n"}) {
    bench.write(1, text);
  }
  bench.pass(1s);
  // The second "a" of rank 0 has no counterpart: rank 1 was at "b" next.
  CHECK(bench.look() == "[0,1] a\n[0] a\n[0,1] b\n[0,1] a\n");
}

TEST_CASE("workers that write the same in step are folded line by line", "[agent][fold]") {
  Bench bench(4);
  std::string expected;
  for (int line = 0; line < 100; ++line) {
    const std::string text = line % 3 == 0 ? ")\n" : "line " + std::to_string(line) + "\n";
    for (int member = 0; member < 4; ++member) {
      bench.write(member, text);
    }
    expected += "[0-3] " + text;
  }
  CHECK(bench.look() == expected);
}

TEST_CASE("late ones are shown together, without those that were shown before", "[agent][fold]") {
  Bench bench(4);
  bench.write(0, "same\n");
  bench.pass(300ms);
  CHECK(bench.look() == "[0] same\n");
  bench.write(1, "same\n");
  bench.pass(300ms);
  bench.write(3, "same\n");
  CHECK(bench.look().empty());
  bench.write(2, "same\n");  // all there
  CHECK(bench.look() == "[1-3] same\n");
}

TEST_CASE("late ones wait for a bound, and for nothing new", "[agent][fold]") {
  Bench bench(4);
  bench.write(0, "same\n");
  bench.pass(300ms);
  bench.look();
  bench.write(1, "same\n");
  bench.pass(LineFold::kLateWait - 11ms);
  CHECK(bench.look().empty());
  bench.pass(11ms);
  CHECK(bench.look() == "[1] same\n");
  bench.write(2, "same\n");
  bench.write(2, "new\n");
  bench.pass(LineFold::kWait);
  CHECK(bench.look() == "[2] same\n[2] new\n");
  // Who wrote it before writes it anew: that is no late copy.
  bench.write(0, "same\n");
  bench.pass(LineFold::kWait);
  CHECK(bench.look() == "[0] same\n");
}

TEST_CASE("after a while the same line is a new one", "[agent][fold]") {
  Bench bench(2);
  bench.write(0, "same\n");
  bench.pass(LineFold::kRemembered + 200ms);
  bench.look();
  bench.write(1, "same\n");
  bench.pass(LineFold::kWait);
  CHECK(bench.look() == "[1] same\n");
}

TEST_CASE("bars, parts of lines and long lines are shown at once, and not folded",
          "[agent][fold]") {
  Bench bench(2);
  const std::string longest = std::string(LineFold::kFoldedLineBytesMax - 1, 'x') + "\n";
  for (int member = 0; member < 2; ++member) {
    bench.write(member, "\r 50%");
    bench.write(member, "\r100%\n", false);
    bench.write(member, "1%\r2%\n");
    bench.write(member, "x" + longest);
  }
  const std::string all = "\r 50%\r100%\n[?] 1%\r2%\n[?] x" + longest;
  std::string expected;
  for (const char* member : {"[0] ", "[1] "}) {
    std::string own = std::string(member) + all;
    for (auto at = own.find("[?] "); at != std::string::npos; at = own.find("[?] ")) {
      own.replace(at, 4, member);
    }
    expected += own;
  }
  CHECK((bench.look() == expected));
  for (const std::string& text : {longest, std::string("dos\r\n"), std::string("\x1b[31mred\n")}) {
    bench.write(0, text);
    bench.write(1, text);
    CHECK((bench.look() == "[0,1] " + text));
  }
}

TEST_CASE("a part of a line waits for the same worker's lines alone", "[agent][fold]") {
  Bench bench(2);
  bench.write(0, "line\n");
  bench.write(1, "prompt: ");
  CHECK(bench.look() == "[1] prompt: ");
  bench.write(0, "part");
  CHECK(bench.look().empty());
  bench.write(1, "line\n");
  CHECK(bench.look() == "[0,1] line\n[0] part");
}

TEST_CASE("a flood passes without waiting, and the others are folded beside it", "[agent][fold]") {
  Bench bench(3);
  std::string expected;
  std::size_t written = 0;
  for (int i = 0; written <= 2 * LineFold::kBurstBytesMax; ++i) {
    const std::string line = "flood " + std::to_string(i) + std::string(1000, '.') + "\n";
    bench.write(0, line);
    written += line.size();
    expected += "[0] " + line;
  }
  CHECK((bench.look() == expected));  // though no time has passed
  bench.write(1, "same\n");
  bench.write(2, "same\n");
  CHECK(bench.look() == "[1,2] same\n");
  // It goes on as a flood over the windows, and is folded again when it has calmed down.
  bench.pass(LineFold::kWait);
  bench.write(0, "still\n");
  CHECK(bench.look() == "[0] still\n");
  bench.pass(LineFold::kWait * 3);
  bench.write(0, "calm\n");
  CHECK(bench.look().empty());
  bench.write(1, "calm\n");
  bench.write(2, "calm\n");
  CHECK(bench.look() == "[0-2] calm\n");
}

TEST_CASE("what waits is bounded", "[agent][fold]") {
  constexpr int kMembers = 64;
  Bench bench(kMembers + 1);  // one that says nothing
  const std::string fill(1000, 'x');
  std::size_t written = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string line = fill + std::to_string(i) + "\n";
    bench.write(i % kMembers, line);
    written += line.size();
    REQUIRE(written - std::min(written, bench.shown.size()) <= LineFold::kHeldBytesMax);
  }
  CHECK(bench.shown.size() > LineFold::kHeldBytesMax);
}

namespace {

/// What the console shows, for each member: its own pieces in order. A line counts for every member
/// of its label, "<ranks> " before each; texts have no blank.
std::map<int, std::string> shares(const std::string& shown, int members) {
  std::map<int, std::string> of;
  for (int i = 0; i < members; ++i) {
    of[i];
  }
  std::size_t at = 0;
  while (at < shown.size()) {
    const auto blank = shown.find(' ', at);
    const auto end = std::min(shown.find('\n', at), shown.size() - 1) + 1;
    const std::string mask = shown.substr(at, blank - at);
    for (int i = 0; i < members; ++i) {
      if (mask[static_cast<std::size_t>(i)] == '1') {
        of[i] += shown.substr(blank + 1, end - blank - 1);
      }
    }
    at = end;
  }
  return of;
}

}  // namespace

TEST_CASE("whatever is written, nothing is lost or doubled, orders stay, and waits are bounded",
          "[agent][fold]") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const int members = 1 + static_cast<int>(random() % 9);
    LineFold fold(members, [members](const std::vector<int>& who) {
      std::string mask(static_cast<std::size_t>(members), '0');
      for (const int one : who) {
        mask[static_cast<std::size_t>(one)] = '1';
      }
      return mask + " ";
    });
    for (int i = 0; i < members; ++i) {
      fold.join(i);
    }
    // Texts that never come again have no stragglers to wait for.
    const bool all_new = seed % 4 == 0;
    const auto bound = all_new ? LineFold::kWait : LineFold::kLateWait;
    const unsigned kinds = 1 + random() % 6;
    std::vector<std::pair<Time, std::size_t>> total_at;  // bytes written by then
    std::size_t total = 0;
    std::map<int, std::string> written;
    std::string shown;
    Time now{1000s};
    for (int step = 0; step < 400; ++step) {
      const int member = static_cast<int>(random() % static_cast<unsigned>(members));
      std::string text = "t" + std::to_string(all_new ? step : random() % kinds);
      if (random() % 10 == 0) {
        text += "\rbar";
      }
      if (random() % 50 == 0) {
        text += std::string(LineFold::kFoldedLineBytesMax, 'l');
      }
      text += "\n";
      written[member] += text;
      total_at.emplace_back(now, total += text.size());
      fold.add(member, {text, true, true}, now, shown);
      now += std::chrono::milliseconds(random() % 4 == 0 ? random() % 250 : random() % 5);
      while (fold.deadline() && *fold.deadline() <= now) {
        fold.tick(*fold.deadline(), shown);
      }
      REQUIRE((!fold.deadline() || *fold.deadline() <= now + bound));
      REQUIRE((!fold.deadline() || *fold.deadline() > now));
      if (step % 40 == 39) {
        std::size_t seen = 0;
        for (const auto& [one, share] : shares(shown, members)) {
          seen += share.size();
        }
        const auto due = std::find_if(total_at.rbegin(), total_at.rend(),
                                      [&](const auto& at) { return at.first + bound <= now; });
        REQUIRE((due == total_at.rend() || seen >= due->second));
      }
    }
    now += LineFold::kLateWait;
    while (fold.deadline() && *fold.deadline() <= now) {
      fold.tick(*fold.deadline(), shown);
    }
    CHECK_FALSE(fold.deadline());
    const auto got = shares(shown, members);
    for (int i = 0; i < members; ++i) {
      REQUIRE((got.at(i) == written[i]));
    }
  }
}
