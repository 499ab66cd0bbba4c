#include "agent/output/log_layout.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <string>

#include "tests/support/temp_dir.h"

using namespace ddprun;
using ddprun::test::TempDir;
namespace fs = std::filesystem;

namespace {

LogSpec spec_in(const std::string& dir) {
  LogSpec spec;
  spec.dir = dir;
  return spec;
}

/// Sets a variable of the environment, and puts the old value back.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      old_ = old;
    }
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

constexpr AttemptNumber kFirst{0};

}  // namespace

TEST_CASE("the run directory is new for every agent and named after the job", "[agent]") {
  const TempDir dir;
  const auto first = LogLayout::create(spec_in(dir.file("a/b")), "job7");
  const auto second = LogLayout::create(spec_in(dir.file("a/b")), "job7");
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(first->run_dir() != second->run_dir());
  const fs::path run = first->run_dir();
  CHECK(fs::is_directory(run));
  CHECK(run.parent_path() == fs::path(dir.file("a/b")));
  CHECK(std::regex_match(run.filename().string(), std::regex("job7_[a-z0-9_]{8}")));
}

TEST_CASE("without --log-dir the logs lie under TMPDIR, for this user alone", "[agent]") {
  const TempDir dir;
  const ScopedVariable tmp("TMPDIR", dir.path().string());
  const auto layout = LogLayout::create(LogSpec{}, "none");
  REQUIRE(layout.has_value());
  const fs::path base = fs::path(layout->run_dir()).parent_path();
  CHECK(base.parent_path() == dir.path());
  CHECK(std::regex_match(base.filename().string(), std::regex("ddprun_[a-z0-9_]{8}")));
  struct stat status {};
  REQUIRE(::stat(base.c_str(), &status) == 0);
  CHECK((status.st_mode & 077) == 0);
}

TEST_CASE("a TMPDIR that is not there does not stop the job", "[agent]") {
  const TempDir dir;
  const ScopedVariable tmp("TMPDIR", dir.file("missing"));
  const auto layout = LogLayout::create(LogSpec{}, "none");
  REQUIRE(layout.has_value());
  const fs::path base = fs::path(layout->run_dir()).parent_path();
  CHECK(base.parent_path() == "/tmp");
  fs::remove_all(base);
}

TEST_CASE("no job id leads out of the log directory", "[agent]") {
  const TempDir dir;
  const fs::path base = dir.file("logs");
  for (const std::string id : {"../../up", "/etc/passwd", "..", ".", "", "a/b/c", "two words"}) {
    const auto layout = LogLayout::create(spec_in(base.string() + "/"), id);
    REQUIRE(layout.has_value());
    INFO(layout->run_dir());
    CHECK(fs::canonical(layout->run_dir()).parent_path() == fs::canonical(base));
  }
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(dir.path())) {
    ++entries;
  }
  CHECK(entries == 1);
}

TEST_CASE("a job id as long as one likes still gives a directory", "[agent]") {
  const TempDir dir;
  for (const std::size_t size : {199, 200, 201, 5000}) {
    CHECK(LogLayout::create(spec_in(dir.file("logs")), std::string(size, 'j')).has_value());
  }
}

TEST_CASE("a log directory that is a file is one sentence", "[agent]") {
  const TempDir dir;
  const std::string file = dir.write("plain", "text");
  const auto layout = LogLayout::create(spec_in(file), "job");
  REQUIRE(!layout);
  CHECK(layout.error().sentence() == "log directory '" + file +
                                         "': it is a file, not a directory; name another path "
                                         "with --log-dir");
  const auto below = LogLayout::create(spec_in(file + "/below"), "job");
  REQUIRE(!below);
  CHECK(below.error().sentence().find("Not a directory") != std::string::npos);
  CHECK(ddprun::test::read_file(file) == "text");
}

TEST_CASE("a log directory that cannot be made or written to is one sentence", "[agent]") {
  // /proc takes no directory, not even from root.
  for (const std::string path : {"/proc", "/proc/logs"}) {
    const auto layout = LogLayout::create(spec_in(path), "job");
    REQUIRE(!layout);
    const std::string sentence = layout.error().sentence();
    CHECK(sentence.find("log directory '" + path) == 0);
    CHECK(sentence.find("--log-dir") != std::string::npos);
    CHECK(sentence.find('\n') == std::string::npos);
  }
}

TEST_CASE("a new attempt wipes what lies at its place, and nothing else", "[agent]") {
  const TempDir dir;
  const auto layout = LogLayout::create(spec_in(dir.file("logs")), "job");
  REQUIRE(layout.has_value());
  REQUIRE(layout->make_attempt(AttemptNumber{0}, 2).has_value());
  REQUIRE(layout->make_attempt(AttemptNumber{1}, 2).has_value());
  const fs::path run = layout->run_dir();
  for (const char* place : {"attempt_0/0", "attempt_0/1", "attempt_1/0", "attempt_1/1"}) {
    CHECK(fs::is_directory(run / place));
  }
  std::ofstream(run / "attempt_0/1/stdout.log") << "old";
  std::ofstream(run / "attempt_1/1/stdout.log") << "kept";
  REQUIRE(layout->make_attempt(AttemptNumber{0}, 1).has_value());
  CHECK(fs::is_empty(run / "attempt_0/0"));
  CHECK(!fs::exists(run / "attempt_0/1"));
  CHECK(fs::exists(run / "attempt_1/1/stdout.log"));
}

TEST_CASE("a run directory that went away is an error, not a crash", "[agent]") {
  const TempDir dir;
  const auto layout = LogLayout::create(spec_in(dir.file("logs")), "job");
  REQUIRE(layout.has_value());
  fs::remove_all(dir.file("logs"));
  dir.write("logs", "now a file");
  const auto made = layout->make_attempt(kFirst, 1);
  REQUIRE(!made);
  CHECK(made.error().sentence().find("--log-dir") != std::string::npos);
}

TEST_CASE("streams go where -r, -t and --local-ranks-filter say", "[agent]") {
  const TempDir dir;
  const auto layout = LogLayout::create(spec_in(dir.file("logs")), "job");
  REQUIRE(layout.has_value());
  const std::string out = layout->run_dir() + "/attempt_0/0/stdout.log";
  const std::string err = layout->run_dir() + "/attempt_0/0/stderr.log";
  constexpr char kNull[] = "/dev/null";
  struct Row {
    Streams redirects, tee;
    bool shown;
    std::string out, err;
    bool echo_out, echo_err;
  };
  const Row rows[] = {
      {Streams::none, Streams::none, true, "", "", false, false},
      {Streams::out, Streams::none, true, out, "", false, false},
      {Streams::err, Streams::none, true, "", err, false, false},
      {Streams::all, Streams::none, true, out, err, false, false},
      {Streams::none, Streams::out, true, out, "", true, false},
      {Streams::none, Streams::err, true, "", err, false, true},
      {Streams::none, Streams::all, true, out, err, true, true},
      {Streams::out, Streams::err, true, out, err, false, true},
      {Streams::all, Streams::all, true, out, err, true, true},
      {Streams::none, Streams::none, false, kNull, kNull, false, false},
      {Streams::out, Streams::none, false, out, kNull, false, false},
      {Streams::none, Streams::all, false, out, err, false, false},
      {Streams::err, Streams::out, false, out, err, false, false},
  };
  for (const Row& row : rows) {
    LogSpec spec = spec_in(dir.file("logs"));
    spec.redirects.value = row.redirects;
    spec.tee.value = row.tee;
    spec.local_ranks_filter = row.shown ? std::vector<int>{0} : std::vector<int>{1};
    const WorkerLogs logs = layout->worker(spec, kFirst, 0);
    INFO(static_cast<int>(row.redirects) << static_cast<int>(row.tee) << row.shown);
    CHECK(logs.stdout_path == row.out);
    CHECK(logs.stderr_path == row.err);
    CHECK(logs.echo_stdout == row.echo_out);
    CHECK(logs.echo_stderr == row.echo_err);
    CHECK(logs.error_file == layout->run_dir() + "/attempt_0/0/error.json");
  }
}

TEST_CASE("a map speaks only of the ranks that it names", "[agent]") {
  const TempDir dir;
  const auto layout = LogLayout::create(spec_in(dir.file("logs")), "job");
  REQUIRE(layout.has_value());
  LogSpec spec = spec_in(dir.file("logs"));
  spec.redirects.value = std::map<int, Streams>{{0, Streams::out}, {2, Streams::all}};
  spec.tee.value = std::map<int, Streams>{{1, Streams::err}};
  const AttemptNumber third{3};
  const std::string dir3 = layout->run_dir() + "/attempt_3/";
  CHECK(layout->worker(spec, third, 0).stdout_path == dir3 + "0/stdout.log");
  CHECK(layout->worker(spec, third, 0).stderr_path.empty());
  CHECK(layout->worker(spec, third, 1).stdout_path.empty());
  CHECK(layout->worker(spec, third, 1).stderr_path == dir3 + "1/stderr.log");
  CHECK(layout->worker(spec, third, 1).echo_stderr);
  CHECK(layout->worker(spec, third, 2).stderr_path == dir3 + "2/stderr.log");
  CHECK(layout->worker(spec, third, 3).stdout_path.empty());
  CHECK(layout->worker(spec, third, 3).error_file == dir3 + "3/error.json");
}

TEST_CASE("a log directory of /dev/null makes no file and shows what is teed", "[agent]") {
  LogSpec spec = spec_in("/dev/null");
  const auto layout = LogLayout::create(spec, "job");
  REQUIRE(layout.has_value());
  CHECK(layout->run_dir().empty());
  CHECK(layout->make_attempt(kFirst, 2).has_value());
  CHECK(layout->filtered_stdout(kFirst).empty());
  spec.redirects.value = Streams::out;
  spec.tee.value = Streams::err;
  const WorkerLogs logs = layout->worker(spec, kFirst, 0);
  CHECK(logs.stdout_path == "/dev/null");  // not on the console, that was asked
  CHECK(logs.stderr_path.empty());         // on the console, that was asked
  CHECK(!logs.echo_stdout);
  CHECK(!logs.echo_stderr);
  CHECK(logs.error_file.empty());
  spec.local_ranks_filter = {1};
  CHECK(layout->worker(spec, kFirst, 0).stderr_path == "/dev/null");
}

TEST_CASE("the filtered logs are one file per stream and attempt", "[agent]") {
  const TempDir dir;
  const auto layout = LogLayout::create(spec_in(dir.file("logs")), "job");
  REQUIRE(layout.has_value());
  CHECK(layout->filtered_stdout(AttemptNumber{2}) ==
        layout->run_dir() + "/attempt_2/filtered_stdout.log");
  CHECK(layout->filtered_stderr(AttemptNumber{2}) ==
        layout->run_dir() + "/attempt_2/filtered_stderr.log");
}
