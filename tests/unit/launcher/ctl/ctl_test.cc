// The parts of ddpctl that need no agent. With agents: tests/e2e/operations_test.py.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/ctl/ctl_options.h"
#include "launcher/ctl/log_reader.h"
#include "launcher/ctl/status_view.h"
#include "launcher/ctl/top_view.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests
using nlohmann::json;

namespace {

std::variant<CtlOptions, CtlText, Error> parse(std::vector<const char*> words) {
  return parse_ctl(words);
}

json worker(int rank, int steps, int collectives) {
  return {{"rank", rank},           {"pid", 100 + rank},
          {"running", true},        {"phase", "training"},
          {"steps", steps},         {"collectives", collectives},
          {"cpu_ms", 10 * steps},   {"resident_bytes", 1 << 20},
          {"steps_per_second", 4.0}};
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("ddpctl's words are read, the choice of an agent before or behind the verb",
          "[launcher]") {
  const auto before = std::get<CtlOptions>(parse({"--job", "a", "logs", "-f", "--rank", "3"}));
  CHECK((before.job == "a" && before.verb == "logs" && before.follow && before.rank == 3));
  const auto behind = std::get<CtlOptions>(parse({"drain", "n1", "--pid", "12"}));
  CHECK((behind.pid == 12 && behind.verb == "drain" && behind.node == "n1"));
  CHECK(std::get<CtlOptions>(parse({"top", "-n", "2", "-d", "0.5"})).interval_seconds == 0.5);
  CHECK(contains(std::get<CtlText>(parse({"--version"})).text, "ddpctl "));
  CHECK(contains(std::get<CtlText>(parse({"stacks", "--help"})).text, "--rank"));
  for (const char* const interval : {"nan", "inf", "0", "0.09", "3601", "-1", "x"}) {
    INFO(interval);
    CHECK(std::holds_alternative<Error>(parse({"top", "-d", interval})));
  }
  for (const char* const count : {"0", "-1", "1.5", "99999999999"}) {
    const auto parsed = parse({"top", "-n", count});
    REQUIRE(std::holds_alternative<Error>(parsed));
    CHECK(std::get<Error>(parsed).sentence().size() < 120);
  }
  CHECK(std::holds_alternative<Error>(parse({"save", "now"})));
  CHECK(std::holds_alternative<Error>(parse({"status", "stop"})));
  CHECK(std::get<Error>(parse({"reboot", "now"})).what == "'reboot' is no command");
}

TEST_CASE("an empty word, as of a variable that is not set, is no choice", "[launcher]") {
  CHECK(std::get<Error>(parse({"drain", ""})).what == "NODE is given an empty text");
  CHECK(std::get<Error>(parse({"--pid", "", "stop"})).what == "--pid is given an empty text");
  CHECK(std::get<Error>(parse({"--job=", "status"})).what == "--job is given an empty text");
  CHECK(std::get<Error>(parse({"top", "-n="})).what == "-n is given an empty text");
  CHECK(std::get<CtlOptions>(parse({"--job=YWJj=", "status"})).job == "YWJj=");
  CHECK(std::holds_alternative<Error>(parse({"stop", "--job", ""})));
  CHECK(std::holds_alternative<Error>(parse({"logs", "--rank", ""})));
  CHECK(std::holds_alternative<Error>(parse({"stacks", "--rank="})));
}

TEST_CASE("a status of another version is shown as far as it goes", "[launcher]") {
  for (const json& odd : {json(), json::object(), json::array(), json{{"workers", 3}},
                          json{{"agent", 7},
                               {"nodes", {1, "x"}},
                               {"incidents", {nullptr}},
                               {"workers", {{{"rank", "x"}, {"steps_per_second", "fast"}}}}}}) {
    INFO(odd.dump());
    const std::string text = status_text(odd);
    CHECK(contains(text, "job -"));
    CHECK(contains(top_text(odd, odd, 1s, {}), "job -"));
    CHECK_FALSE(slowest_rank(odd));
  }
}

TEST_CASE("the downtime of an incident is told so far until the next workers are there",
          "[launcher]") {
  const json closed = {{"at_ms", 1000}, {"downtime_ms", 3}, {"spawn_ms", 1}};
  const json open = {{"at_ms", 5000}, {"downtime_ms", 1}, {"spawn_ms", nullptr}};
  const auto shown = [](const json& incidents) {
    return status_text({{"accounts", {{"wall_ms", 7500}}}, {"incidents", incidents}});
  };
  CHECK(contains(shown({closed, open}), "; down 3 ms\n"));
  CHECK(contains(shown({closed, open}), "; down 2.5 s so far\n"));
  CHECK(contains(shown({open, closed}), "; down 1 ms\n"));
  CHECK(contains(shown({open, closed}), "; down 3 ms\n"));
}

TEST_CASE("control characters of other hosts do not reach the terminal", "[launcher]") {
  const json status = {{"job_id", "a\x1b[2Jb\n"}, {"workers", json::array()}};
  CHECK(contains(status_text(status), "job a?[2Jb? "));
  CHECK(text_in(json{{"why", "a\tb\x7f"}}, "why") == "a?b?");
}

TEST_CASE("sizes are shown with three digits at most", "[launcher]") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1'023) == "1023 B");
  CHECK(bytes_text(1'024) == "1.0 KiB");
  CHECK(bytes_text(12.0 * 1024 * 1024) == "12 MiB");
}

TEST_CASE("the slowest rank has the fewest steps, then the fewest collectives", "[launcher]") {
  CHECK_FALSE(slowest_rank({{"workers", {worker(0, 5, 9), worker(1, 5, 9)}}}));
  CHECK(slowest_rank({{"workers", {worker(0, 5, 9), worker(1, 5, 8)}}}) == 1);
  CHECK(slowest_rank({{"workers", {worker(0, 4, 9), worker(1, 5, 8)}}}) == 0);
  json ended = worker(0, 1, 1);
  ended["running"] = false;
  CHECK_FALSE(slowest_rank({{"workers", {ended, worker(1, 5, 8)}}}));
}

TEST_CASE("shares and rates are those of the time between two looks", "[launcher]") {
  const json before = {{"workers", {worker(0, 10, 1), worker(1, 10, 1)}}};
  const json now = {{"workers", {worker(0, 30, 9), worker(1, 20, 9), worker(2, 5, 1)}}};
  const std::string text = top_text(before, now, 2s, {{0, 55, 1ULL << 30, 80ULL << 30}});
  CHECK(contains(text, "     0      100     10    1.0 MiB         30        10  training\n"));
  CHECK(contains(text, "     1      101      5    1.0 MiB         20         5  training\n"));
  CHECK(contains(text,
                 "     2      102      -    1.0 MiB          5         4  training, the others"));
  CHECK(contains(text, "GPU 0: 55 % busy, 1.0 GiB of 80 GiB\n"));
}

TEST_CASE("logs are read on from where they are, in whole lines", "[launcher]") {
  const test::TempDir dir;
  const std::string path = dir.file("out.log");
  std::string got;
  LogReader reader([&](const std::string& line) { got += line; });
  const json status = {{"workers",
                        {{{"rank", 0}, {"stdout", path}, {"stderr", "/dev/null"}},
                         {{"rank", 1}, {"stdout", nullptr}, {"stderr", dir.file("none")}}}}};
  CHECK(reader.take(status, std::nullopt) == 2);
  CHECK(reader.take(status, 0) == 1);
  std::ofstream file(path);
  file << "one\ntw" << std::flush;
  reader.show(false);
  CHECK(got == "[rank 0 stdout] one\n");
  file << "o\nend" << std::flush;
  CHECK(reader.take(status, 0) == 1);  // the same files: nothing comes twice
  reader.show(false);
  CHECK(got == "[rank 0 stdout] one\n[rank 0 stdout] two\n");
  reader.show(true);
  CHECK(got == "[rank 0 stdout] one\n[rank 0 stdout] two\n[rank 0 stdout] end\n");
  REQUIRE(reader.unread());
  CHECK(
      reader.unread()->sentence() ==
      dir.file("none") +
          ": cannot be read: No such file or directory; look for the file in the job's --log-dir");
  CHECK(reader.take({{"workers", json::array()}}, std::nullopt) == 0);
  CHECK(reader.take(json::object(), std::nullopt) == 0);
}

TEST_CASE("logs have the last words of an attempt, and what follows a cut", "[launcher]") {
  const test::TempDir dir;
  std::string got;
  LogReader reader([&](const std::string& line) { got += line; });
  const auto attempt = [&](const char* name) -> json {
    return {{"workers", {{{"rank", 0}, {"stdout", dir.file(name)}}}}};
  };
  reader.take(attempt("0.log"), std::nullopt);
  std::ofstream(dir.file("0.log")) << "one\n";
  reader.show(false);
  std::ofstream(dir.file("0.log"), std::ios::app) << "the end\nof it";
  std::ofstream(dir.file("1.log")) << "anew\n";
  reader.take(attempt("1.log"), std::nullopt);
  reader.show(false);
  CHECK(got ==
        "[rank 0 stdout] one\n[rank 0 stdout] the end\n[rank 0 stdout] of it\n"
        "[rank 0 stdout] anew\n");
  got.clear();
  std::ofstream(dir.file("1.log")) << "cut\n";  // shorter than before
  reader.show(false);
  CHECK(got == "[rank 0 stdout] cut\n");
}

TEST_CASE("logs have the attempts that came and went between two looks, and the last",
          "[launcher]") {
  const test::TempDir dir;
  std::string got;
  LogReader reader([&](const std::string& line) { got += line; });
  const auto file_of = [&](int number) {
    const std::string folder = dir.file("attempt_" + std::to_string(number));
    std::filesystem::create_directories(folder + "/0");
    return folder + "/0/stdout.log";
  };
  const auto status = [&](int number) -> json {
    return {{"attempt", number}, {"workers", {{{"rank", 2}, {"stdout", file_of(number)}}}}};
  };
  for (const int number : {0, 1, 3, 4, 5, 6}) {  // attempt 2 has left no file
    std::ofstream(file_of(number)) << "attempt " << number << "\n";
  }
  reader.take(status(0), std::nullopt);
  reader.show(false);
  reader.take(status(4), std::nullopt);
  reader.show(true);
  CHECK(got ==
        "[rank 2 stdout] attempt 0\n[rank 2 stdout] attempt 1\n[rank 2 stdout] attempt 3\n"
        "[rank 2 stdout] attempt 4\n");
  got.clear();
  reader.show_later();
  CHECK(got == "[rank 2 stdout] attempt 5\n[rank 2 stdout] attempt 6\n");
}

TEST_CASE("another machine's agent is named by host and port, and no other choice with it",
          "[launcher]") {
  const auto at = std::get<CtlOptions>(parse({"--at", "n1:29400", "status"}));
  CHECK((at.at && *at.at == Endpoint{"n1", 29400} && !at.token_file));
  const auto behind =
      std::get<CtlOptions>(parse({"stop", "--at", "[::1]:1", "--job-token-file", "t"}));
  CHECK((behind.at && behind.at->host == "::1" && behind.token_file == "t"));
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"--at", "n1", "status"},
                                             {"--at", "n1:0", "status"},
                                             {"--at", "n1:x", "status"},
                                             {"--at", "", "status"},
                                             {"--at", "n1:1", "--pid", "3", "status"},
                                             {"--at", "n1:1", "--job", "j", "status"},
                                             {"--job-token-file", "t", "status"}}) {
    INFO(words[1]);
    CHECK(std::holds_alternative<Error>(parse(words)));
  }
}

TEST_CASE("GPUs are what NVML tells, and without it there is none", "[launcher]") {
  const GpuUsageReader none("no-such-library.so");
  CHECK(none.read().empty());
  ::setenv("FAKE_NVML", "no driver", 1);
  CHECK(GpuUsageReader(FAKE_NVML).read().empty());
  ::setenv("FAKE_NVML", "GPU-a,forbidden,GPU-bcd", 1);
  const GpuUsageReader reader(FAKE_NVML);
  ::unsetenv("FAKE_NVML");
  const auto gpus = reader.read();
  REQUIRE(gpus.size() == 2);
  CHECK((gpus[0].index == 0 && gpus[0].busy_percent == 5));
  CHECK((gpus[1].index == 2 && gpus[1].busy_percent == 7));
  CHECK((gpus[1].used_bytes == 10 && gpus[1].total_bytes == 1'000));
}
