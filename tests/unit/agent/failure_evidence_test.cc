#include "agent/failure_evidence.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>

#include "rendezvous/contract/error_file.h"
#include "rendezvous/contract/progress_channel.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::test::TempDir;

namespace {

using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

WorkerEnd ended(ExitStatus exit) {
  WorkerEnd end;
  end.node = "n2";
  end.world.base_rank = 4;
  end.world.group_rank = 2;
  end.local_rank = 1;
  end.pid = 123;
  end.exit = exit;
  end.exit_time = WallTime(1'700'000'005s + 250ms);
  end.error_file_path = "/logs/error.json";
  return end;
}

constexpr ExitStatus exited(int code) {
  return {ExitStatus::Kind::exited, code};
}
constexpr ExitStatus killed(int signal) {
  return {ExitStatus::Kind::signalled, signal};
}

std::string error_file(const std::string& message, const std::string& time) {
  return R"({"message": {"message": ")" + message +
         R"(", "extraInfo": {"py_callstack": "Traceback", "timestamp": ")" + time + R"("}}})";
}

}  // namespace

TEST_CASE("a record says which worker, where and how", "[agent]") {
  WorkerEnd end = ended(exited(3));
  end.after_stop = true;
  const FailureRecord record = make_failure_record(end);
  CHECK(record.node == "n2");
  CHECK(record.group_rank == 2);
  CHECK(record.rank == 5);
  CHECK(record.local_rank == 1);
  CHECK(record.pid == 123);
  CHECK(record.exit == exited(3));
  CHECK(record.after_stop);
  CHECK(!record.peer_lost);
  CHECK(record.time == end.exit_time);
  CHECK(record.error_file_path.empty());
  CHECK(record.error_file_json.empty());
}

TEST_CASE("a signal is named, and never taken for an exit code", "[agent]") {
  CHECK(make_failure_record(ended(killed(SIGKILL))).message ==
        "Signal 9 (SIGKILL) received by PID 123");
  CHECK(make_failure_record(ended(killed(SIGSEGV))).message ==
        "Signal 11 (SIGSEGV) received by PID 123");
  CHECK(make_failure_record(ended(exited(9))).message == "exited with code 9");
  CHECK(make_failure_record(ended(exited(137))).message == "exited with code 137");
}

TEST_CASE("a plain exit is explained by the last line of stderr", "[agent]") {
  const auto message = [](const std::string& tail) {
    WorkerEnd end = ended(exited(1));
    end.stderr_tail = tail;
    const FailureRecord record = make_failure_record(end);
    CHECK(record.stderr_tail == tail);
    return record.message;
  };
  const std::string begin = "exited with code 1; last line of stderr: ";
  CHECK(message("Traceback\nValueError: no\n") == begin + "ValueError: no");
  CHECK(message("no newline") == begin + "no newline");
  CHECK(message("text\r\n\n  \n") == begin + "text");
  CHECK(message(" 10%|#\r 20%|##\r 30%|###") == begin + " 30%|###");
  CHECK(message("\n \n") == "exited with code 1");
  CHECK(message("").find("stderr") == std::string::npos);
}

TEST_CASE("a Python exception is the message, though its process then aborted", "[agent]") {
  const std::string own = "Traceback (most recent call last):\n  File \"t.py\"\nValueError: bad\n";
  const std::string lost =
      "Traceback (most recent call last):\n  File \"t.py\"\nRuntimeError: Connection closed by "
      "peer [1.2.3.4]\n";
  const std::string handling =
      "During handling of the above exception, another exception occurred:\n";
  WorkerEnd end = ended(killed(SIGABRT));
  end.stderr_tail = own + "terminate called without an active exception\n";
  CHECK(make_failure_record(end).message ==
        "Signal 6 (SIGABRT) received by PID 123; error on stderr: ValueError: bad");
  CHECK_FALSE(make_failure_record(end).peer_lost);
  end.stderr_tail = lost + "terminate called without an active exception\n";
  CHECK(make_failure_record(end).peer_lost);
  // What it lost while it ended by its own error, and what it said of a peer that it had lost.
  end.exit = exited(1);
  end.stderr_tail = own + handling + lost;
  CHECK_FALSE(make_failure_record(end).peer_lost);
  end.stderr_tail = lost + handling + own;
  CHECK(make_failure_record(end).peer_lost);
}

TEST_CASE("a worker that had failed when it was stopped is told apart from the others", "[agent]") {
  const std::string own = "Traceback (most recent call last):\n  File \"t.py\"\nValueError: bad\n";
  WorkerEnd end = ended(killed(SIGTERM));
  end.after_stop = end.dies_of_term = true;
  const auto has_own_error = [&] { return make_failure_record(end).own_error; };
  CHECK_FALSE(has_own_error());
  end.stderr_tail = own + "step 2\n";
  CHECK_FALSE(has_own_error());  // it went on
  end.stderr_tail = own;
  CHECK(has_own_error());
  CHECK(make_failure_record(end).message == "ValueError: bad; stopped on its way out");
  end.exit = killed(SIGKILL);
  CHECK_FALSE(has_own_error());  // it may have written that when it got SIGTERM
  end.exit = exited(3);
  end.stderr_tail.clear();
  CHECK(has_own_error());  // SIGTERM would have ended it by the signal
  end.stderr_tail = "Connection closed by peer [1.2.3.4]\n";
  CHECK_FALSE(has_own_error());
  end.dies_of_term = false;
  end.stderr_tail = own;
  CHECK_FALSE(has_own_error());
  // Its error file was there before the signal, whatever it did after that.
  end.told_failure = true;
  end.error_file = error_file("no such data set", "1700000005");
  CHECK(has_own_error());
  end.exit = killed(SIGKILL);
  CHECK(make_failure_record(end).message == "no such data set; stopped on its way out");
  end.error_file = error_file("Connection closed by peer [1.2.3.4]", "1700000005");
  end.stderr_tail.clear();
  CHECK_FALSE(has_own_error());
}

TEST_CASE("a file counts as written before a moment if it holds something since then", "[agent]") {
  const TempDir dir;
  timespec moment = coarse_time();
  CHECK_FALSE(was_written_before(moment, dir.file("none")));
  dir.write("empty", "");
  dir.write("error.json", "{}");
  CHECK_FALSE(was_written_before(moment, dir.file("error.json")));
  moment.tv_sec += 60;
  CHECK(was_written_before(moment, dir.file("error.json")));
  CHECK_FALSE(was_written_before(moment, dir.file("empty")));
}

TEST_CASE("the message of an error file goes before all else", "[agent]") {
  WorkerEnd end = ended(killed(SIGABRT));
  end.stderr_tail = "noise\n";
  end.error_file = error_file("ValueError: no", "1700000001");
  const FailureRecord record = make_failure_record(end);
  CHECK(record.message == "ValueError: no");
  CHECK(record.error_file_path == "/logs/error.json");
  CHECK(record.error_file_json == *end.error_file);
  CHECK(record.exit == killed(SIGABRT));
}

TEST_CASE("torchrun's other form of an error file counts too", "[agent]") {
  WorkerEnd end = ended(exited(1));
  end.error_file = R"({"message": "plain text", "timestamp": 1700000001})";
  const FailureRecord record = make_failure_record(end);
  CHECK(record.message == "plain text");
  CHECK(record.time == WallTime(1'700'000'001s + 999'999us));
}

TEST_CASE("the message is one line of bounded length", "[agent]") {
  WorkerEnd end = ended(exited(1));
  end.error_file = error_file(R"(\n  first\nsecond)", "1700000001");
  CHECK(make_failure_record(end).message == "first");
  for (const std::size_t size : {kMessageBytesMax - 1, kMessageBytesMax, kMessageBytesMax + 1}) {
    end.error_file = error_file(std::string(size, 'm'), "1700000001");
    const std::string message = make_failure_record(end).message;
    CHECK(message.size() == std::min(size, kMessageBytesMax));
    CHECK((message.find(" ...") != std::string::npos) == (size > kMessageBytesMax));
  }
  // The cut falls between characters of several bytes.
  std::string wide;
  while (wide.size() < 2 * kMessageBytesMax) {
    wide += "\xe2\x82\xac";
  }
  end.error_file = error_file(wide, "1700000001");
  const std::string cut = make_failure_record(end).message;
  CHECK((cut.size() - 4) % 3 == 0);
  CHECK(cut.size() <= kMessageBytesMax);
}

TEST_CASE("an error file with an empty message does not hide how the worker ended", "[agent]") {
  WorkerEnd end = ended(killed(SIGKILL));
  end.error_file = error_file("", "1700000001");
  CHECK(make_failure_record(end).message == "Signal 9 (SIGKILL) received by PID 123");
}

TEST_CASE("an unreadable error file is said so and loses nothing else", "[agent]") {
  for (const std::string bytes : {"{\"message\": ", "[]", "\xff\xfe", "null", "{}"}) {
    WorkerEnd end = ended(exited(1));
    end.stderr_tail = "why\n";
    end.error_file = bytes;
    const FailureRecord record = make_failure_record(end);
    CHECK(record.message.find("exited with code 1; last line of stderr: why; the error file") == 0);
    CHECK(record.error_file_json.empty());
    CHECK(record.error_file_path == "/logs/error.json");
    CHECK(record.time == end.exit_time);
  }
}

TEST_CASE("an error file that is there and cannot be read is said so", "[agent]") {
  WorkerEnd end = ended(exited(1));
  end.error_file = Error{"Permission denied", "", ""};
  const FailureRecord record = make_failure_record(end);
  CHECK(record.message == "exited with code 1; the error file cannot be read: Permission denied");
  CHECK(record.error_file_json.empty());
  CHECK(record.error_file_path == "/logs/error.json");
}

TEST_CASE("an error file that is too long to read is said so", "[agent]") {
  WorkerEnd end = ended(exited(1));
  end.error_file = error_file(std::string(kErrorFileReadMax, 'm'), "1700000001");
  const FailureRecord record = make_failure_record(end);
  CHECK(record.message ==
        "exited with code 1; the error file is not read (it has more than 4 MiB)");
  CHECK(record.error_file_json.empty());
  CHECK(record.error_file_path == "/logs/error.json");
}

TEST_CASE("whole seconds mean the latest moment of that second before the exit", "[agent]") {
  const auto time = [](const std::string& told) {
    WorkerEnd end = ended(exited(1));
    end.error_file = error_file("m", told);
    return make_failure_record(end).time;
  };
  const WallTime exit_time(1'700'000'005s + 250ms);
  CHECK(time("1700000005") == exit_time);                             // the same second
  CHECK(time("1700000004") == WallTime(1'700'000'004s + 999'999us));  // it took a while to end
  CHECK(time("1700000006") == WallTime(1'700'000'006s));              // another clock: as told
  CHECK(time("1700000003.5") == WallTime(1'700'000'003s + 500ms));    // exact: as told
  CHECK(time("0") == exit_time);
  CHECK(time("soon") == exit_time);
}

TEST_CASE("the runtime's own time and its word on a lost peer are taken over", "[agent]") {
  ErrorRecord written;
  written.message = "all-reduce 12: rank 3 is gone";
  written.time = WallTime(1'700'000'004s + 123'456us);
  written.peer_lost = true;
  WorkerEnd end = ended(exited(1));
  end.error_file = to_json(written);
  const FailureRecord record = make_failure_record(end);
  CHECK(record.peer_lost);
  CHECK(record.time == written.time);
}

TEST_CASE("what decides on a restart does not need an error file", "[agent]") {
  WorkerEnd end = ended(exited(1));
  end.failure_kind = ProgressPage::kFailedForGood;
  CHECK(make_failure_record(end).do_not_retry);
  CHECK_FALSE(make_failure_record(end).peer_lost);
  end.failure_kind = ProgressPage::kFailedByLostPeer;
  CHECK(make_failure_record(end).peer_lost);
  CHECK_FALSE(make_failure_record(end).do_not_retry);
}

TEST_CASE("an error file beyond its bound is shortened, not lost", "[agent]") {
  ErrorRecord written;
  written.message = "KeyError: " + std::string(kErrorFileBytesMax, '\x01');
  for (int i = 0; i < 10'000; ++i) {
    written.callstack += "frame " + std::to_string(i) + "\n";
  }
  written.time = WallTime(1'700'000'004s + 1us);
  WorkerEnd end = ended(exited(1));
  end.error_file = to_json(written);
  REQUIRE(end.error_file->size() > kErrorFileBytesMax);
  const FailureRecord record = make_failure_record(end);
  CHECK(record.error_file_json.size() <= kErrorFileBytesMax);
  const auto kept = parse_error_record(record.error_file_json);
  REQUIRE(kept.has_value());
  CHECK(kept->message.find("KeyError: ") == 0);
  CHECK(kept->callstack.find("frame 9999\n") != std::string::npos);
  CHECK(kept->callstack.find("frame 0\n") == std::string::npos);
  CHECK(record.time == written.time);
  // At the bound it is kept as it is.
  std::string exact = error_file("m", "1700000001");
  exact.insert(exact.size() - 1, kErrorFileBytesMax - exact.size(), ' ');
  end.error_file = exact;
  CHECK((make_failure_record(end).error_file_json == exact));
  end.error_file->insert(1, 1, ' ');
  CHECK(make_failure_record(end).error_file_json.size() < 1000);
}

TEST_CASE("the last lines are whole lines within the bound", "[agent]") {
  CHECK(last_lines("", 8).empty());
  CHECK(last_lines("one\ntwo\n", 8) == "one\ntwo\n");
  CHECK(last_lines("one\ntwo\n", 7) == "two\n");
  CHECK(last_lines("one\ntwo\n", 5) == "two\n");
  CHECK(last_lines("one\ntwo\n", 4) == "two\n");  // begins just behind a newline
  CHECK(last_lines("one\ntwo\n", 3) == "wo\n");   // one line fills it all
  CHECK(last_lines("one\ntwo", 4) == "two");
  CHECK(last_lines("abcdef", 3) == "def");
  CHECK(last_lines("a\xe2\x82\xac", 2).empty());
}

TEST_CASE("the tail and the whole of a file are read within bounds", "[agent]") {
  const TempDir dir;
  std::string text;
  for (int i = 0; text.size() < 3 * kStderrTailBytesMax; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  const std::string path = dir.write("stderr.log", text);
  const std::string tail = read_tail(path, kStderrTailBytesMax);
  CHECK(tail.size() <= kStderrTailBytesMax);
  CHECK(tail.size() > kStderrTailBytesMax - 16);
  CHECK(tail.find("line ") == 0);
  CHECK(text.compare(text.size() - tail.size(), tail.size(), tail) == 0);
  CHECK(read_tail(path, text.size()) == text);
  CHECK(read_tail(path, text.size() - 1) == text.substr(text.find('\n') + 1));
  CHECK(read_bounded(path, 10).value() == text.substr(0, 10));
  CHECK(read_bounded(path, text.size() + 10).value() == text);
  CHECK(read_tail(dir.write("empty", ""), 10).empty());
}

TEST_CASE("what is missing reads as empty, and what is no plain file is told, without waiting",
          "[agent]") {
  const TempDir dir;
  CHECK(read_tail(dir.file("missing"), 10).empty());
  CHECK(read_bounded(dir.file("missing"), 10).value().empty());
  REQUIRE(::mkfifo(dir.file("fifo").c_str(), 0600) == 0);
  REQUIRE(::symlink("circle", dir.file("circle").c_str()) == 0);
  for (const std::string& path :
       {dir.path().string(), dir.file("fifo"), std::string("/dev/null")}) {
    CHECK(read_bounded(path, 10).error().what == "it is not a regular file");
  }
  CHECK(read_bounded(dir.file("circle"), 10).error().what == "Too many levels of symbolic links");
  CHECK(read_tail(dir.file("fifo"), 10).empty());
  CHECK(read_tail("/dev/null", 10).empty());
}
