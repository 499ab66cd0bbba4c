// Lines that several workers write are shown once on the console (field I-24), through the built
// program, whose output is a file or a pipe here, where only --fold folds; terminals:
// tests/interop/terminal_test.py.
#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/fd.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests
namespace fs = std::filesystem;

/// Workers that write at the same time as the agent sees it: it is stopped until all have written.
/// How far apart processes run on a loaded machine does not matter then.
class InStep {
 public:
  /// `write`: the shell line of each worker, `before` one for what they do before they are ready.
  /// `launch`: what starts ddprun, with its words behind.
  InStep(const std::vector<std::string>& options, int workers, const std::string& write,
         const std::map<std::string, std::string>& environment = {},
         std::vector<std::string> launch = {"ddprun"}, const std::string& before = ":")
      : workers_(workers) {
    REQUIRE(::mkfifo(dir_.file("gate").c_str(), 0600) == 0);
    const std::string script = before + "; echo $PPID > ready.$LOCAL_RANK; : < gate; " + write +
                               "; echo > done.$LOCAL_RANK; : < end";
    REQUIRE(::mkfifo(dir_.file("end").c_str(), 0600) == 0);
    std::vector<std::string> argv = std::move(launch);
    argv.insert(argv.end(),
                {"--nproc-per-node", std::to_string(workers), "--log-dir", dir_.file("logs")});
    argv.insert(argv.end(), options.begin(), options.end());
    argv.insert(argv.end(), {"sh", "-c", script});
    job_.emplace(ChildRequest{.argv = argv, .environment = environment, .directory = dir_.path()});
  }

  /// Lets them write, and the job end. Its exit code.
  int run() {
    REQUIRE(wait_until([&] { return count("ready.") == workers_; }));
    const pid_t agent = std::stoi(read_file(dir_.file("ready.0")));
    ::kill(agent, SIGSTOP);
    const Fd gate(::open(dir_.file("gate").c_str(), O_RDWR | O_CLOEXEC));
    const bool written = wait_until([&] { return count("done.") == workers_; });
    ::kill(agent, SIGCONT);
    REQUIRE(written);
    const Fd end(::open(dir_.file("end").c_str(), O_RDWR | O_CLOEXEC));
    return job_->exit_code();
  }
  ChildProcess& job() { return *job_; }
  /// What a worker's file holds.
  [[nodiscard]] std::string file(int local_rank, const std::string& name) const {
    for (const auto& entry : fs::recursive_directory_iterator(dir_.file("logs"))) {
      if (entry.path().filename() == name &&
          entry.path().parent_path().filename() == std::to_string(local_rank)) {
        return read_file(entry.path());
      }
    }
    return "no such file";
  }

 private:
  /// Files of this name that have been written.
  [[nodiscard]] int count(const std::string& begin) const {
    int found = 0;
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      const bool named = entry.path().filename().string().starts_with(begin);
      found += named && !read_file(entry.path()).empty() ? 1 : 0;
    }
    return found;
  }

  int workers_;
  TempDir dir_;
  std::optional<ChildProcess> job_;
};

constexpr char kSameThenMine[] = "printf 'same\\nmine %s\\n' $RANK >&2";

}  // namespace

TEST_CASE("I-24: what eight workers write to stderr is shown once, with their ranks") {
  InStep eight({"--fold"}, 8, kSameThenMine);
  CHECK(eight.run() == 0);
  const std::string err = eight.job().err();
  INFO(err);
  CHECK(err.starts_with("[0-7] same\n"));
  CHECK(count_of(err, "same") == 1);
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(count_of(err, "\nmine " + std::to_string(rank) + "\n") == 1);  // no prefix
  }
}

TEST_CASE(
    "where no terminal is, nothing is folded unless --fold says so, and --no-fold wins over it") {
  using Words = std::vector<std::string>;
  for (const Words& options : {Words{}, Words{"--no-fold"}, Words{"--fold", "--no-fold"}}) {
    InStep job(options, 4, kSameThenMine);
    CHECK(job.run() == 0);
    CHECK(count_of(job.job().err(), "same\n") == 4);
    CHECK(count_of(job.job().err(), "[") == 0);
  }
  InStep by_variable({}, 4, kSameThenMine, {{"PET_FOLD", "1"}});
  CHECK(by_variable.run() == 0);
  CHECK(by_variable.job().err().starts_with("[0-3] same\n"));
  InStep both({"--fold"}, 4, kSameThenMine, {{"PET_NO_FOLD", "1"}});
  CHECK(both.run() == 0);
  CHECK(count_of(both.job().err(), "same\n") == 4);
}

TEST_CASE("a tool that reads prefixes finds each rank's own, also with a filter of ranks") {
  InStep teed({"-t", "3"}, 4, "echo out; echo err >&2");
  CHECK(teed.run() == 0);
  InStep filtered({"-t", "3", "--local-ranks-filter", "1,2"}, 4, "echo out; echo err >&2");
  CHECK(filtered.run() == 0);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string prefix = "[default" + std::to_string(rank) + "]:";
    CHECK(count_of(teed.job().out(), prefix + "out\n") == 1);
    CHECK(count_of(teed.job().err(), prefix + "err\n") == 1);
    const int shown = rank == 1 || rank == 2 ? 1 : 0;
    CHECK(count_of(filtered.job().out(), prefix + "out\n") == shown);
    CHECK(count_of(filtered.job().err(), prefix + "err\n") == shown);
  }
}

TEST_CASE("teed lines are folded with the prefix, and each worker's file keeps its own") {
  InStep four({"--fold", "-t", "3", "--role", "trainer", "--duplicate-stdout-filters", "same"}, 4,
              "printf 'same\\nmine %s\\n' $RANK; echo oops >&2");
  CHECK(four.run() == 0);
  const std::string out = four.job().out();
  INFO(out);
  CHECK(out.starts_with("[trainer0-3]:same\n"));
  CHECK(count_of(out, "same") == 1);
  CHECK(four.job().err() == "[trainer0-3]:oops\n");
  for (int rank = 0; rank < 4; ++rank) {
    const std::string text = std::to_string(rank);
    CHECK(count_of(out, "[trainer" + text + "]:mine " + text + "\n") == 1);
    CHECK(four.file(rank, "stdout.log") == "same\nmine " + text + "\n");
    CHECK(four.file(rank, "stderr.log") == "oops\n");
  }
}

TEST_CASE("with a prefix template nothing is folded: programs read those prefixes") {
  InStep two({"--fold", "-t", "1"}, 2, "echo same; echo same >&2",
             {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${role_name} ${rank} ${local_rank}> "}});
  CHECK(two.run() == 0);
  CHECK(count_of(two.job().out(), "<default 0 0> same\n") == 1);
  CHECK(count_of(two.job().out(), "<default 1 1> same\n") == 1);
  CHECK(two.job().err() == "same\nsame\n");
}

TEST_CASE("stdout that is a pipe or a file is data: every line is there, and no other") {
  const auto piped =
      run({.argv = {"sh", "-c",
                    find_program("ddprun") + " --fold --nproc-per-node 8 echo data | wc -l"}});
  CHECK(piped.out == "8\n");
  const auto file = run({.argv = {"ddprun", "--nproc-per-node", "3", "echo", "data"}});
  CHECK(file.out == "data\ndata\ndata\n");
}

TEST_CASE("stderr through a pipe is folded with --fold as well") {
  InStep two({"--fold"}, 2, "echo same >&2", {},
             {"sh", "-c", "\"$0\" \"$@\" 2>&1 | cat", find_program("ddprun")});
  CHECK(two.run() == 0);
  CHECK(two.job().out() == "[0,1] same\n");
}

TEST_CASE("stragglers are shown together, behind the line that is on the screen already") {
  InStep eight({"--fold"}, 8, "[ $RANK = 0 ] || echo same >&2", {}, {"ddprun"},
               "[ $RANK != 0 ] || echo same >&2");
  CHECK(eight.job().wait_for_err("same\n"));
  CHECK(eight.run() == 0);
  CHECK(eight.job().err() == "same\n[1-7] same\n");
}

TEST_CASE("lines of two attempts are never one, however close") {
  const std::string script =
      "[ $RANK = $TORCHELASTIC_RESTART_COUNT ] && echo same >&2; "
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 0 ] && exit 3; exec sleep 1000";
  const auto job = run({.argv = {"ddprun", "--fold", "--nproc-per-node", "2", "--max-restarts", "1",
                                 "sh", "-c", script}});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK(count_of(job.err, "same\n") == 2);
  CHECK(count_of(job.err, "] same") == 0);
}

TEST_CASE("ranks that are not shown are not waited for, and one rank is not folded") {
  InStep two({"--fold", "--local-ranks-filter", "1,2"}, 4, kSameThenMine);
  CHECK(two.run() == 0);
  CHECK(two.job().err().starts_with("[1,2] same\n"));
  CHECK(count_of(two.job().err(), "\n") == 3);
  const auto alone = run({.argv = {"ddprun", "--fold", "--nproc-per-node", "4",
                                   "--local-ranks-filter", "0", "sh", "-c", "echo same >&2"}});
  CHECK(alone.err == "same\n");
}

TEST_CASE("a line of one worker is shown while the job goes on") {
  const std::string script = "[ $RANK = 2 ] && printf 'mine\\nprompt? ' >&2; exec sleep 1000";
  ChildProcess job(
      ChildRequest{.argv = {"ddprun", "--fold", "--nproc-per-node", "4", "sh", "-c", script}});
  CHECK(job.wait_for_err("mine\nprompt? "));
  job.signal(SIGTERM);
  CHECK(job.exit_code() == 1);
}

TEST_CASE("a worker that floods stderr does not hold up the report of another's failure") {
  // The other fails once a hundred thousand lines have gone through the pipe. The end of the flood
  // is enough, and the report is behind it.
  const TempDir dir;
  const std::string flood = dir.file("flood");
  const std::string script = "if [ $RANK = 0 ]; then yes flooding | head -n 100000 >&2; : >" +
                             flood + "; exec yes flooding >&2; fi; until [ -e " + flood +
                             " ]; do sleep 0.01; done; echo the reason >&2; exit 7";
  const auto job =
      run({.argv = {"sh", "-c", "\"$0\" \"$@\" 2>&1 | tail -c 20000", find_program("ddprun"),
                    "--fold", "--nproc-per-node", "2", "sh", "-c", script}});
  INFO(job.out);
  CHECK(job.out.find("flooding\n") < 100);
  CHECK(count_of(job.out, "Root Cause") == 1);
  CHECK(count_of(job.out, "; last line of stderr: the reason") >= 1);
}

}  // namespace ddprun::test
