#include "agent/output/summary.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string>

#include "rendezvous/contract/error_file.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::test::count_of;
using ddprun::test::read_file;
using ddprun::test::TempDir;

namespace {

using WallTime = std::chrono::sys_time<std::chrono::microseconds>;
constexpr WallTime kNow{1'700'000'100s};

FailureRecord failed(int rank, Blame blame, ExitStatus exit) {
  FailureRecord record;
  record.node = "n" + std::to_string(1 + rank / 2);
  record.group_rank = rank / 2;
  record.rank = rank;
  record.local_rank = rank % 2;
  record.pid = 100 + rank;
  record.exit = exit;
  record.time = WallTime(1'700'000'000s + 5ms);
  record.message = "message of rank " + std::to_string(rank);
  record.blame = blame;
  return record;
}

constexpr ExitStatus kTermed{ExitStatus::Kind::signalled, SIGTERM};
constexpr ExitStatus kKilled{ExitStatus::Kind::signalled, SIGKILL};
constexpr ExitStatus kExited{ExitStatus::Kind::exited, 1};

JobSummary failed_job() {
  JobSummary summary;
  summary.verdict = Verdict::failed;
  summary.reason = "rank 3 on n2 was killed by SIGKILL";
  summary.attempts = 1;
  Incident incident;
  incident.reason = summary.reason;
  incident.records = {failed(3, Blame::cause, kKilled)};
  incident.records[0].message = "Signal 9 (SIGKILL) received by PID 103";
  summary.incidents = {incident};
  return summary;
}

JobSummary recovered_job() {
  JobSummary summary;
  summary.attempts = 2;
  summary.restarts_used = 1;
  summary.max_restarts = 3;
  Incident incident;
  incident.reason = "rank 3 on n2 was killed by SIGKILL";
  incident.spent_restart = true;
  incident.downtime = 12'900us;
  incident.parts = {100us, 3ms, 700us, 1'100us, 8ms};
  incident.lost = {17, 340ms};
  incident.next_attempt = AttemptNumber{1};
  incident.resumed_from = SnapshotNumber::epoch(20);
  summary.incidents = {incident};
  summary.accounts.wall = 723'400ms;
  summary.accounts.steps_told = true;
  summary.accounts.by_step.productive = 700s;
  summary.accounts.by_step.replayed = 340ms;
  summary.accounts.by_step.downtime[0] = 12'900us;
  summary.progress.last_epoch = 50;
  summary.progress.loss = 0.0123456789;
  return summary;
}

std::string json_of(const std::string& message, const std::string& callstack) {
  ErrorRecord record;
  record.message = message;
  record.callstack = callstack;
  record.time = WallTime(1'700'000'000s);
  return to_json(record);
}

/// Blocks show local time.
struct Utc {
  Utc() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};
const Utc kUtc;

}  // namespace

TEST_CASE("A node that was preempted before it knew of an attempt counts none", "[agent]") {
  JobSummary summary;
  summary.verdict = Verdict::preempted;
  summary.reason = "SIGTERM was sent to this agent";
  CHECK_THAT(summary_text(summary, ""),
             Catch::StartsWith("ddprun: job preempted: SIGTERM was sent to this agent"));
  summary.attempts = 1;
  CHECK_THAT(summary_text(summary, ""),
             Catch::StartsWith("ddprun: job preempted after 1 attempt:"));
}

TEST_CASE("a clean success says nothing", "[agent]") {
  JobSummary summary;
  summary.attempts = 1;
  summary.progress.loss = 0.5;
  CHECK(summary_text(summary, "train").empty());
  CHECK(agent_error_json(summary, kNow).empty());
}

TEST_CASE("a success after an incident closes with what happened", "[agent]") {
  CHECK(summary_text(recovered_job(), "train") ==
        "ddprun: job succeeded after 2 attempts\n"
        "  restarts used: 1 of 3\n"
        "  attempt 0 ended: rank 3 on n2 was killed by SIGKILL; resumed from epoch 20 as attempt "
        "1, downtime 12 ms (detect 0, stop 3, rendezvous 0, spawn 1, first step 8 ms), 17 steps "
        "(340 ms) done again\n"
        "  effective training time 96.7 % of 12 min 3 s: 1 incident, 12 ms down, 340 ms replayed\n"
        "  training: last epoch 50, final loss 0.0123457\n");
  CHECK(agent_error_json(recovered_job(), kNow).empty());
}

TEST_CASE("an incident tells what is known and leaves out the rest", "[agent]") {
  JobSummary summary = recovered_job();
  summary.progress = {};
  summary.incidents[0].downtime.reset();
  summary.incidents[0].parts = {0ns, 3ms};
  summary.incidents[0].lost = {};
  summary.accounts.steps_told = false;
  CHECK(summary_text(summary, "train")
            .find("; resumed from epoch 20 as attempt 1 (detect 0, stop 3 ms)\n") !=
        std::string::npos);
  summary.incidents[0].resumed_from.reset();
  CHECK(summary_text(summary, "train") ==
        "ddprun: job succeeded after 2 attempts\n"
        "  restarts used: 1 of 3\n"
        "  attempt 0 ended: rank 3 on n2 was killed by SIGKILL (detect 0, stop 3 ms)\n"
        "  effective training time 0.0 % of 12 min 3 s: 1 incident, 0 ms down (at most: its "
        "workers tell no steps)\n");
  summary.incidents[0].downtime = 0ns;
  CHECK(summary_text(summary, "train").find("; resumed as attempt 1, downtime 0 ms (") !=
        std::string::npos);
  summary.progress.loss = 2.0;
  CHECK(summary_text(summary, "train").find("  training: final loss 2\n") != std::string::npos);
  summary.progress.loss = std::copysign(std::numeric_limits<double>::quiet_NaN(), -1.0);
  CHECK(summary_text(summary, "train").find("  training: final loss nan\n") != std::string::npos);
}

TEST_CASE("the report of a failed job has torchrun's layout", "[agent]") {
  const std::string heavy(52, '=');
  const std::string light(52, '-');
  CHECK(summary_text(failed_job(), "train.py") ==
        "\n" + heavy + "\ntrain.py FAILED\n" + light +
            "\nFailures:\n"
            "  <NO_OTHER_FAILURES>\n" +
            light +
            "\nRoot Cause (first observed failure):\n"
            "[0]:\n"
            "  time      : 2023-11-14_22:13:20\n"
            "  host      : n2\n"
            "  rank      : 3 (local_rank: 1)\n"
            "  exitcode  : -9 (pid: 103)  (SIGKILL)\n"
            "  blame     : cause\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 9 (SIGKILL) received by PID 103\n" +
            heavy +
            "\nddprun: job failed after 1 attempt: rank 3 on n2 was killed by SIGKILL\n"
            "  restarts used: 0 of 0\n"
            "  attempt 0 ended: rank 3 on n2 was killed by SIGKILL (detect 0, stop 0 ms)\n");
}

TEST_CASE("victims have blocks of their own, those that we stopped share a line", "[agent]") {
  JobSummary summary = failed_job();
  auto& incident = summary.incidents[0];
  incident.records.push_back(failed(0, Blame::victim, kExited));
  for (const int rank : {7, 1, 4, 6, 5, 8}) {
    incident.records.push_back(failed(rank, Blame::stopped_by_us, kTermed));
  }
  incident.records_dropped = 12;
  const std::string text = summary_text(summary, "train.py");
  INFO(text);
  const auto cause = text.find("Root Cause");
  const std::string failures = text.substr(0, cause);
  CHECK(count_of(failures, "]:\n") == 1);
  CHECK(failures.find("[1]:\n") != std::string::npos);
  CHECK(failures.find("  rank      : 0 (local_rank: 0)\n") != std::string::npos);
  CHECK(failures.find("  exitcode  : 1 (pid: 100)\n") != std::string::npos);
  CHECK(failures.find("  blame     : victim") != std::string::npos);
  CHECK(failures.find("message of rank 0") != std::string::npos);
  CHECK(failures.find("<NO_OTHER_FAILURES>") == std::string::npos);
  CHECK(failures.find("  Stopped by ddprun after that: rank 1 on n1; ranks 4, 5 on n3; "
                      "ranks 6, 7 on n4; rank 8 on n5\n") != std::string::npos);
  CHECK(failures.find("(and 12 more)") != std::string::npos);
  CHECK(count_of(text.substr(cause), "]:\n") == 1);
  CHECK(text.find("[0]:\n", cause) != std::string::npos);
}

TEST_CASE("ranks that follow each other are written as a range", "[agent]") {
  JobSummary summary = failed_job();
  for (const int rank : {9, 2, 0, 1, 3, 5}) {
    auto record = failed(rank, Blame::stopped_by_us, kTermed);
    record.node = "n1";
    record.group_rank = 0;
    summary.incidents[0].records.push_back(record);
  }
  const std::string text = summary_text(summary, "t");
  CHECK(
      text.find("  <NO_OTHER_FAILURES>\n  Stopped by ddprun after that: ranks 0-3, 5, 9 on n1\n") !=
      std::string::npos);
}

TEST_CASE("the cause shows its stack and its last lines of stderr, victims do not", "[agent]") {
  JobSummary summary = failed_job();
  auto& records = summary.incidents[0].records;
  records[0].message = "ValueError: no";
  records[0].error_file_path = "/logs/error.json";
  records[0].error_file_json =
      json_of("ValueError: no", "Traceback (most recent call last):\n  x()\nValueError: no\n");
  records[0].stderr_tail = "warning\nlast words\n";
  records.push_back(failed(0, Blame::victim, kExited));
  records[1].stderr_tail = "noise of a victim\n";
  const std::string text = summary_text(summary, "train.py");
  INFO(text);
  CHECK(text.find("  error_file: /logs/error.json\n"
                  "  traceback : Traceback (most recent call last):\n"
                  "    x()\n"
                  "  ValueError: no\n"
                  "  last lines of stderr:\n"
                  "    warning\n"
                  "    last words\n"
                  "=====") != std::string::npos);
  CHECK(text.find("noise") == std::string::npos);
}

TEST_CASE("a stack that lacks the message gets it in front", "[agent]") {
  JobSummary summary = failed_job();
  summary.incidents[0].records[0].error_file_json = json_of("disk full", "frame 1\nframe 2");
  CHECK(summary_text(summary, "t").find("  traceback : disk full\n  frame 1\n  frame 2\n") !=
        std::string::npos);
}

TEST_CASE("a worker's text cannot disturb the terminal or the report", "[agent]") {
  JobSummary summary = failed_job();
  summary.incidents[0].records[0].stderr_tail =
      "\x1b[31mred\x1b[0m\n 1%\r 2%\r 99%\nwindows\r\nbell\a null" + std::string(1, '\0') +
      "\x1b]0;title\x07 \xc2\x9b\nunfinished \x1b[3";
  const std::string text = summary_text(summary, "t");
  INFO(text);
  CHECK(text.find("    red\n     99%\n    windows\n    bell? null?\?]0;title? ?\n"
                  "    unfinished\n") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
}

TEST_CASE("the rules are as wide as the widest line, at most 60", "[agent]") {
  JobSummary summary = failed_job();
  const auto first_rule = [&](const std::string& title) {
    const std::string text = summary_text(summary, title);
    return text.substr(1, text.find('\n', 1) - 1);
  };
  CHECK(first_rule(std::string(48, 't')) == std::string(55, '='));
  CHECK(first_rule(std::string(90, 't')) == std::string(60, '='));
  summary.incidents[0].records[0].message = "m";
  CHECK(first_rule("t") == std::string(38, '='));
}

TEST_CASE("a job that somebody stopped, or that never ran, says so in a line", "[agent]") {
  JobSummary stopped;
  stopped.verdict = Verdict::stopped;
  stopped.stop_signal = SIGINT;
  stopped.attempts = 1;
  stopped.reason = "n2 got SIGINT";
  CHECK(summary_text(stopped, "t") ==
        "ddprun: job stopped by SIGINT after 1 attempt: n2 got SIGINT\n");
  JobSummary impossible;
  impossible.verdict = Verdict::impossible;
  impossible.reason = "1 of 2 nodes joined within 600 s";
  CHECK(summary_text(impossible, "t") ==
        "ddprun: job could not run: 1 of 2 nodes joined within 600 s\n");
  impossible.attempts = 2;
  CHECK(summary_text(impossible, "t") ==
        "ddprun: job could not go on after 2 attempts: 1 of 2 nodes joined within 600 s\n");
}

TEST_CASE("a failed job without any record still says why it failed", "[agent]") {
  JobSummary summary = failed_job();
  summary.incidents[0].records.clear();
  CHECK(summary_text(summary, "t").find("ddprun: job failed after 1 attempt: rank 3") == 0);
  const auto record = parse_error_record(agent_error_json(summary, kNow));
  REQUIRE(record.has_value());
  CHECK(record->message.find("rank 3 on n2 was killed by SIGKILL") != std::string::npos);
  CHECK(record->time == kNow);
}

TEST_CASE("the agent's error file is the cause's own with the exit code added", "[agent]") {
  JobSummary summary = failed_job();
  summary.incidents[0].records[0].error_file_json = json_of("ValueError: no", "stack");
  const auto record = parse_error_record(agent_error_json(summary, kNow));
  REQUIRE(record.has_value());
  CHECK(record->message == "ValueError: no");
  CHECK(record->callstack == "stack");
  CHECK(record->error_code == -9);
}

TEST_CASE("a cause without an error file gets one made from its record", "[agent]") {
  JobSummary summary = failed_job();
  summary.incidents[0].records[0].stderr_tail = "last words\n";
  for (const std::string own : {"", "not json"}) {
    summary.incidents[0].records[0].error_file_json = own;
    const auto record = parse_error_record(agent_error_json(summary, kNow));
    REQUIRE(record.has_value());
    CHECK(record->message == "Signal 9 (SIGKILL) received by PID 103");
    CHECK(record->callstack == "last words\n");
    CHECK(record->error_code == -9);
    CHECK(record->time == WallTime(1'700'000'000s + 5ms));
  }
}

TEST_CASE("a stopped job's error file does not blame the worker of an older incident", "[agent]") {
  JobSummary summary = failed_job();
  summary.verdict = Verdict::stopped;
  summary.stop_signal = SIGTERM;
  const auto record = parse_error_record(agent_error_json(summary, kNow));
  REQUIRE(record.has_value());
  CHECK(record->message.find("job stopped by SIGTERM") == 0);
  CHECK(!record->error_code);
  CHECK(record->time == kNow);
}

TEST_CASE("an agent that failed by itself leaves its sentence", "[agent]") {
  const auto record =
      parse_error_record(agent_error_json(Error{"is taken", "port 29400", "use another"}, kNow));
  REQUIRE(record.has_value());
  CHECK(record->message == "port 29400: is taken; use another");
  CHECK(record->time == kNow);
}

TEST_CASE("the error file is replaced as a whole, and nothing stays beside it", "[agent]") {
  const TempDir dir;
  const std::string path = dir.write("error.json", "an old and longer text");
  REQUIRE(write_agent_error_file(path, "{}").has_value());
  CHECK(read_file(path) == "{}");
  REQUIRE(write_agent_error_file(dir.file("new.json"), "{\"a\": 1}").has_value());
  CHECK(read_file(dir.file("new.json")) == "{\"a\": 1}");
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    ++entries;
  }
  CHECK(entries == 2);
}

TEST_CASE("a link to the error file stays a link", "[agent]") {
  const TempDir dir;
  const std::string path = dir.write("real.json", "old");
  std::filesystem::create_symlink(path, dir.file("link.json"));
  REQUIRE(write_agent_error_file(dir.file("link.json"), "new").has_value());
  CHECK(std::filesystem::is_symlink(dir.file("link.json")));
  CHECK(read_file(path) == "new");
  // Also where the file is not there yet.
  std::filesystem::create_symlink(dir.file("later.json"), dir.file("ahead.json"));
  REQUIRE(write_agent_error_file(dir.file("ahead.json"), "first").has_value());
  CHECK(std::filesystem::is_symlink(dir.file("ahead.json")));
  CHECK(read_file(dir.file("later.json")) == "first");
}

TEST_CASE("an error file that is a device or a FIFO is written to, not replaced", "[agent]") {
  const TempDir dir;
  CHECK(write_agent_error_file("/dev/null", "{}").has_value());
  CHECK(std::filesystem::is_character_file("/dev/null"));
  REQUIRE(::mkfifo(dir.file("fifo").c_str(), 0600) == 0);
  // Nobody reads: an error instead of waiting for ever.
  CHECK(!write_agent_error_file(dir.file("fifo"), "{}"));
  const int reader = ::open(dir.file("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  CHECK(write_agent_error_file(dir.file("fifo"), "{}").has_value());
  char text[8] = {};
  CHECK(::read(reader, text, sizeof text) == 2);
  ::close(reader);
  CHECK(std::filesystem::is_fifo(dir.file("fifo")));
}

TEST_CASE("an error file that cannot be written is one sentence", "[agent]") {
  const TempDir dir;
  for (const std::string& path :
       {dir.file("missing/error.json"), dir.path().string(), std::string("/proc/error.json")}) {
    const auto written = write_agent_error_file(path, "{}");
    REQUIRE(!written);
    CHECK(written.error().sentence().find("error file '" + path + "': cannot write it: ") == 0);
    CHECK(written.error().sentence().find("TORCHELASTIC_ERROR_FILE") != std::string::npos);
  }
}
