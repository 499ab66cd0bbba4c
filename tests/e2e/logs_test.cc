// Log files, tee and the console through the built program (torchrun contract, section 7).
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/processes.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests
namespace fs = std::filesystem;

/// The one run directory below a log directory.
fs::path run_dir(const std::string& log_dir) {
  fs::path found;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(log_dir)) {
    found = entry.path();
    ++count;
  }
  REQUIRE(count == 1);
  return found;
}

}  // namespace

TEST_CASE("redirected streams go to files only, teed ones to the file and, prefixed, the console") {
  const TempDir dir;
  const auto job =
      run({.argv = {"ddprun", "--standalone", "--rdzv-id", "job7", "--nproc-per-node", "2",
                    "--log-dir", dir.file("logs"), "-r", "1", "-t", "2", "--role", "trainer", "sh",
                    "-c", "echo out $LOCAL_RANK; printf 'err %s' $LOCAL_RANK >&2"}});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK(job.out.empty());
  CHECK(count_of(job.err, "[trainer0]:err 0\n") == 1);
  CHECK(count_of(job.err, "[trainer1]:err 1\n") == 1);
  const fs::path attempt = run_dir(dir.file("logs")) / "attempt_0";
  for (const std::string rank : {"0", "1"}) {
    CHECK(read_file(attempt / rank / "stdout.log") == "out " + rank + "\n");
    CHECK(read_file(attempt / rank / "stderr.log") == "err " + rank);
  }
}

TEST_CASE("each attempt has a directory of its own") {
  const TempDir dir;
  const auto job = run(
      {.argv = {"ddprun", "--standalone", "--max-restarts", "2", "--log-dir", dir.file("logs"),
                "-r", "3", "sh", "-c",
                "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ]"}});
  CHECK(job.exit_code == 0);
  for (const std::string n : {"0", "1", "2"}) {
    const fs::path attempt = run_dir(dir.file("logs")) / ("attempt_" + n);
    CHECK(read_file(attempt / "0" / "stdout.log") == "attempt " + n + "\n");
  }
}

TEST_CASE("a teed worker that writes as fast as it can loses nothing, and binary stays binary") {
  const TempDir dir;
  // 50 MB of lines, then all 256 byte values.
  ChildProcess job(ChildRequest{.argv = {"ddprun", "--standalone", "--log-dir", dir.file("logs"),
                                         "-t", "1", "python3", "-c",
                                         "import sys, os\n"
                                         "line = b'x' * 99 + b'\\n'\n"
                                         "block = line * 10000\n"
                                         "for _ in range(50): os.write(1, block)\n"
                                         "os.write(1, bytes(range(256)))\n"}});
  REQUIRE(job.exit_code(120s) == 0);
  const std::string file = read_file(run_dir(dir.file("logs")) / "attempt_0" / "0" / "stdout.log");
  CHECK(file.size() == 50u * 1000000u + 256u);
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<char>(i));
  }
  CHECK(file.compare(file.size() - 256, 256, bytes) == 0);
  const std::string console = job.out();
  const std::string prefix = "[default0]:";
  // A prefix for each line; the bytes hold one newline, so they are two lines more. The last
  // one gets an end.
  CHECK(console.size() == file.size() + (500000u + 2u) * prefix.size() + 1);
  CHECK(console.compare(0, prefix.size() + 3, prefix + "xxx") == 0);
}

TEST_CASE("a teed worker's last line has an end on the console, however long it is") {
  for (const int size : {1, 65536, 131072}) {
    INFO(size);
    const auto job = run({.argv = {"ddprun", "--standalone", "-t", "1", "python3", "-c",
                                   fmt::format("print('x' * {}, end='')", size)}});
    CHECK(job.exit_code == 0);
    CHECK(job.out == "[default0]:" + std::string(static_cast<std::size_t>(size), 'x') + "\n");
  }
}

TEST_CASE("a teed line that is too long to wait for ends where another worker's begins") {
  // The second worker writes once the first one's line is on the console, and ends after it.
  const TempDir dir;
  const std::string script = fmt::format(
      "import os, time\n"
      "if os.environ['RANK'] == '0':\n"
      "  print('x' * 65536, end='', flush=True)\n"
      "  while not os.path.exists('{0}'): time.sleep(0.01)\n"
      "else:\n"
      "  while not os.path.exists('{0}'): time.sleep(0.01)\n"
      "  print('second', flush=True)\n"
      "  while not os.path.exists('{1}'): time.sleep(0.01)\n",
      dir.file("shown"), dir.file("end"));
  ChildProcess job(
      ChildRequest{.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "-t", "1",
                            "--log-dir", dir.file("logs"), "--duplicate-stdout-filters", "x,second",
                            "python3", "-c", script}});
  REQUIRE(job.wait_for_out("xxxx"));
  dir.write("shown", "");
  REQUIRE(job.wait_for_out("second"));
  dir.write("end", "");
  REQUIRE(job.exit_code() == 0);
  const std::string shown = "[default0]:" + std::string(65536, 'x') + "\n[default1]:second\n";
  CHECK(job.out() == shown);
  CHECK(read_file(run_dir(dir.file("logs")) / "attempt_0" / "filtered_stdout.log") == shown);
}

TEST_CASE("what ddprun says begins a line, where a worker has left one open") {
  const auto said = [](int code, const std::string& level) {
    const auto job = run({.argv = {"ddprun", "--standalone", "--max-restarts", "1", "sh", "-c",
                                   fmt::format("printf '45 %%' >&2; exit {}", code)},
                          .environment = {{"LOGLEVEL", level}}});
    CHECK(job.exit_code == (code == 0 ? 0 : 1));
    return job.err;
  };
  CHECK(count_of(said(3, "WARNING"), "45 %\n[ddprun] ") == 2);
  CHECK(contains(said(3, "CRITICAL"), "45 %45 %\n\n====="));  // the report alone
  CHECK(said(0, "WARNING") == "45 %");
}

TEST_CASE("output of hosts that a full disk does not take is told and no success") {
  const auto job = run({.argv = {"sh", "-c",
                                 "exec " + find_program("ddprun") +
                                     " --hosts localhost sh -c 'echo one; echo two' >/dev/full"}});
  CHECK(job.exit_code == 1);
  CHECK(job.err ==
        "ddprun: stdout: cannot be written to: No space left on device; what does not fit there is "
        "lost, and the job goes on\n");
}

TEST_CASE("a second signal ends an agent that only waits for a console which nobody reads") {
  const TempDir dir;
  const std::string unread = dir.file("console");
  REQUIRE(::mkfifo(unread.c_str(), 0600) == 0);
  const Fd reader(::open(unread.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(reader);
  // With its prefixes more than a pipe holds, and less than the agent keeps back: it is done with
  // its logs, and has only to hand them out. In the words of a program, $$ is one dollar.
  const std::string worker = "yes | head -c 20000; echo $$$$ > " + dir.file("worker");
  ChildProcess job(
      ChildRequest{.argv = {"sh", "-c",
                            "exec " + find_program("ddprun") + " --standalone --log-dir " +
                                dir.file("logs") + " -t 1 sh -c '" + worker + "' > " + unread},
                   .environment = {{"LOGLEVEL", "INFO"}}});
  const auto worker_pid = [&] { return std::atoi(read_file(dir.file("worker")).c_str()); };
  REQUIRE(wait_until([&] { return worker_pid() > 0 && !process_runs(worker_pid()); }));
  // The guardian is left alone with its agent, which has nothing more to do.
  REQUIRE(wait_until([&] {
    const auto left = descendants_of(job.pid());
    return left.size() == 1 && process_waits(left.front());
  }));
  CHECK(job.running());
  job.signal(SIGTERM);
  REQUIRE(job.wait_for_err("got SIGTERM"));
  const auto heard = std::chrono::steady_clock::now();
  REQUIRE(wait_until([&] {
    return std::chrono::steady_clock::now() - heard > 600ms;
  }));  // else it were the same wish
  CHECK(job.running());
  job.signal(SIGINT);
  CHECK(job.exit_code() == 0);  // the job had succeeded
}

TEST_CASE("a worker that floods its teed output keeps its agent from nothing else") {
  const TempDir dir;
#ifdef DDPRUN_SANITIZED  // beside other such tests an agent may have no processor for a second
  const int timeout = 3;
#else
  const int timeout = 1;
#endif
  // Rank 1 writes for three heartbeat timeouts; each of its lines gets a prefix.
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--heartbeat-timeout", std::to_string(timeout), "--max-restarts",
                               "1", "--log-dir", dir.file("logs"), "-t", "1"},
                   .program = {"python3", "-c",
                               "import os, sys, time\n"
                               "attempt = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
                               "print('attempt', attempt, flush=True)\n"
                               "end = time.monotonic() + " +
                                   std::to_string(3 * timeout) +
                                   "\n"
                                   "while os.environ['RANK'] == '1' and time.monotonic() < end:\n"
                                   "  os.write(1, b'y\\n')\n"}});
  REQUIRE(cluster.start_in_order());
  CHECK(cluster.exit_codes(120s) == std::vector{0, 0});
  for (const int node : {0, 1}) {
    INFO(cluster.node(node).err());
    CHECK_FALSE(contains(cluster.node(node).err(), "lost"));
    CHECK(count_of(cluster.node(node).out(), "]:attempt ") == 1);
  }
  CHECK(cluster.node(1).out().size() > 1'000'000);
}

TEST_CASE("a log directory of /dev/null makes no file") {
  const auto job = run({.argv = {"ddprun", "--standalone", "--log-dir", "/dev/null", "sh", "-c",
                                 "echo \"file='$TORCHELASTIC_ERROR_FILE'\""}});
  CHECK(job.exit_code == 0);
  CHECK(job.out == "file=''\n");
}

TEST_CASE("a failure says that the file system of its log is full") {
  if (::geteuid() != 0) {
    SKIP_TEST("root", "a file system of its own is mounted");
  }
  const TempDir dir;
  const std::string script =
      "mkdir \"$1\" && mount -t tmpfs -o size=64k none \"$1\" && head -c 61440 /dev/zero "
      ">\"$1/full\" && "
      "exec \"$0\" --standalone -t 3 --log-dir \"$1\" python3 -c \"print('x' * 9999, flush=True)\"";
  const auto job = run({.argv = {"unshare", "--mount", "sh", "-c", script, find_program("ddprun"),
                                 dir.file("disk")}});
  INFO(job.err);
  CHECK(job.exit_code == 1);
  CHECK(contains(job.err, "; no space is left for its log " + dir.file("disk")));
}

TEST_CASE("an existing attempt of another run is left alone") {
  const TempDir dir;
  for (int i = 0; i < 2; ++i) {
    CHECK(run({.argv = {"ddprun", "--rdzv-id", "same", "--log-dir", dir.file("logs"), "-r", "3",
                        "echo", "text"}})
              .exit_code == 0);
  }
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(dir.file("logs"))) {
    CHECK(entry.path().filename().string().find("same_") == 0);
    ++runs;
  }
  CHECK(runs == 2);
}

TEST_CASE("what a worker wrote is in its file, though guardian and agent were killed") {
  const TempDir dir;
  // Each line is counted after it was written.
  Cluster cluster({.nodes = 1,
                   .workers_per_node = 1,
                   .options = {"--log-dir", dir.file("logs"), "-r", "1", "-t", "2"},
                   .program = shell("i=0; while :; do i=$((i+1)); echo out $i; echo err $i >&2; "
                                    "echo $i > " +
                                    dir.file("count") + "; done")});
  cluster.start_all();
  REQUIRE(wait_until([&] { return read_file(dir.file("count")).size() > 4; }));
  const pid_t agent = cluster.agent(0);
  const pid_t worker = cluster.worker(0);
  REQUIRE(agent != 0);
  ::kill(agent, SIGSTOP);  // so that it hands on nothing of what comes now
  const int before = std::stoi("0" + read_file(dir.file("count")));
  REQUIRE(
      wait_until([&] { return std::atoi(read_file(dir.file("count")).c_str()) > before + 1'000; }));
  ::kill(cluster.node(0).pid(), SIGKILL);
  ::kill(agent, SIGKILL);
  REQUIRE(wait_until([&] { return !process_runs(worker); }));
  const int written = std::atoi(read_file(dir.file("count")).c_str());
  const fs::path logs = run_dir(dir.file("logs")) / "attempt_0" / "0";
  for (const std::string stream : {"out", "err"}) {
    std::istringstream lines(read_file(logs / ("std" + stream + ".log")));
    int expected = 0;
    for (std::string line; std::getline(lines, line) && expected < written;) {
      REQUIRE(line == stream + " " + std::to_string(++expected));
    }
    CHECK(expected == written);
  }
}

TEST_CASE("an agent under which no attempt began leaves no log directories") {
  struct Row {
    std::vector<std::string> options;
    std::string says;
  };
  const Row rows[] = {
      {{"--standalone", "--event-log", "/no/such/directory/events"}, "cannot write the event log"},
      {{"--nnodes", "2", "--rdzv-endpoint", local_endpoint(), "--join-timeout", "0.3"},
       "1 of 2 nodes was here"}};
  for (const Row& row : rows) {
    const TempDir dir;
    const auto agent = start({.options = row.options, .environment = {{"TMPDIR", dir.file("")}}});
    CHECK(agent->exit_code() == 1);
    INFO(agent->report());
    CHECK(contains(agent->err(), row.says));
    CHECK(fs::is_empty(dir.path()));
  }
  // What the user named stays, and what anybody wrote there.
  const TempDir dir;
  CHECK(start({.options = {"--log-dir", dir.file("logs"), "--event-log", "/no/such/directory/e"}})
            ->exit_code() == 1);
  CHECK(fs::is_empty(dir.file("logs")));
}

}  // namespace ddprun::test
