// What a user sees of a bad command line: the built ddprun, its exit code, one sentence on stderr.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"

using ddprun::Fd;

namespace {

using Words = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;  ///< 128 + signal when it was killed
  std::string out;
  std::string err;
};

/// Reads the file that the child has written through another descriptor.
std::string content(const Fd& file) {
  std::string text;
  std::array<char, 4096> block{};
  off_t at = 0;
  for (ssize_t size = 0; (size = ::pread(file.get(), block.data(), block.size(), at)) > 0;
       at += size) {
    text.append(block.data(), static_cast<std::size_t>(size));
  }
  return text;
}

Fd temporary_file() {
  Fd file(::memfd_create("output", MFD_CLOEXEC));
  REQUIRE(file);
  return file;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  std::transform(words.begin(), words.end(), std::back_inserter(result),
                 [](std::string& word) { return word.data(); });
  result.push_back(nullptr);
  return result;
}

constexpr int kDeadlineMs = 20'000;

/// Runs ddprun in an environment of these variables and a plain PATH alone. One that is still
/// there at the deadline is killed, which its exit code tells.
Outcome run_ddprun(Words words, Words variables = {}) {
  words.insert(words.begin(), DDPRUN_BIN_DIR "/ddprun");
  variables.insert(variables.begin(), "PATH=/usr/bin:/bin");
  const Fd out = temporary_file();
  const Fd err = temporary_file();
  posix_spawn_file_actions_t actions;
  REQUIRE(::posix_spawn_file_actions_init(&actions) == 0);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, err.get(), 2);
  pid_t pid = 0;
  const int spawned = ::posix_spawn(&pid, words.front().c_str(), &actions, nullptr,
                                    pointers(words).data(), pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  REQUIRE(spawned == 0);
  // (The header of glibc 2.36 declares pidfd_open as a C++ function.)
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{pidfd.get(), POLLIN, 0};
  if (::poll(&ended, 1, kDeadlineMs) != 1) {
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(out),
                 content(err)};
}

/// Nothing on stdout, and on stderr one line that begins with the name of the program.
void check_one_sentence(const Outcome& outcome) {
  INFO(outcome.err);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("ddprun: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.ends_with('\n'));
}

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "command_line_test_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
  std::string file(const std::string& name, mode_t mode) const {
    std::ofstream(at(name)) << "text\n";
    REQUIRE(::chmod(at(name).c_str(), mode) == 0);
    return at(name);
  }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("a bad command line ends in one sentence and torchrun's exit code", "[e2e][launcher]") {
  struct Row {
    Words words;
    int exit_code;
    const char* says;
  };
  const Row rows[] = {
      {{}, 2, "no program"},
      {{"--nnodes", "2"}, 2, "no program"},
      {{"--bogus", "true"}, 2, "--bogus: unknown option"},
      {{"--nproc-per-nod3=2", "true"}, 2, "did you mean --nproc-per-node?"},
      {{"--rdzv", "x", "true"}, 2, "--rdzv-endpoint, --rdzv-backend"},
      {{"--max-restarts", "many", "true"}, 2, "'many' is not a whole number"},
      {{"--nnodes"}, 2, "--nnodes: the value is missing"},
      {{"--standalone=1", "true"}, 2, "takes no value"},
      {{"--start-method", "clone", "true"}, 2, "spawn, fork, forkserver"},
      {{"--nnodes", "4:2", "true"}, 1, "--nnodes: the minimum of 4 nodes is above"},
      {{"--nnodes", "1:2:3", "true"}, 1, "neither N nor MIN:MAX"},
      {{"--nproc-per-node", "0", "true"}, 1, "--nproc-per-node: a node cannot have 0 workers"},
      {{"--nproc-per-node", "foo", "true"}, 1, "'foo'"},
      {{"--max-restarts", "-1", "true"}, 1, "--max-restarts"},
      {{"--rdzv-endpoint", "127.0.0.1:http", "true"}, 1, "the port 'http'"},
      {{"--rdzv-endpoint", "127.0.0.1:70000", "true"}, 1, "the port '70000'"},
      {{"--rdzv-backend", "etcd", "--rdzv-endpoint", "h:1", "true"}, 1, "etcd"},
      {{"--rdzv-conf", "is_host", "true"}, 1, "'is_host' has no value"},
      {{"-r", "7", "true"}, 1, "--redirects: '7'"},
      {{"--numa-binding", "node", "true"}, 1, "NUMA"},
      {{"-m", "--no-python", "true"}, 1, "--module"},
      {{"--rdzv-endpoint", "h", "--rdzv-id", "a\nb\x1b[2J", "true"}, 1, "'a?b?[2J' cannot name"},
  };
  for (const Row& row : rows) {
    std::string line = "ddprun";
    for (const std::string& word : row.words) {
      line += " " + word;
    }
    INFO(line);
    const Outcome outcome = run_ddprun(row.words);
    CHECK(outcome.exit_code == row.exit_code);
    check_one_sentence(outcome);
    CHECK(outcome.err.find(row.says) != std::string::npos);
  }
}

TEST_CASE("a missing program is told with every place that was looked at", "[e2e][launcher]") {
  const Outcome by_name = run_ddprun({"--standalone", "no-such-program"});
  CHECK(by_name.exit_code == 1);
  check_one_sentence(by_name);
  CHECK(by_name.err.find("no-such-program") != std::string::npos);
  CHECK(by_name.err.find("/usr/bin:/bin") != std::string::npos);
  CHECK(by_name.err.find(DDPRUN_BIN_DIR) != std::string::npos);

  const Outcome by_path = run_ddprun({"--standalone", "/no/such/program"});
  CHECK(by_path.exit_code == 1);
  check_one_sentence(by_path);
  CHECK(by_path.err.find("/no/such/program: there is no such file") != std::string::npos);

  const Outcome script = run_ddprun({"--standalone", "/no/such/train.py"});
  CHECK(script.exit_code == 1);
  check_one_sentence(script);
  CHECK(script.err.find("/no/such/train.py") != std::string::npos);
}

TEST_CASE("a program that cannot be executed is told with the reason", "[e2e][launcher]") {
  const TempDir dir;
  const std::string plain = dir.file("plain", 0644);
  const Outcome outcome = run_ddprun({"--standalone", plain});
  CHECK(outcome.exit_code == 1);
  check_one_sentence(outcome);
  CHECK(outcome.err.find(plain + ": it is not executable") != std::string::npos);

  const Outcome directory = run_ddprun({"--standalone", dir.at("")});
  CHECK(directory.exit_code == 1);
  check_one_sentence(directory);
  CHECK(directory.err.find("it is a directory") != std::string::npos);
}

TEST_CASE("GPUs asked for where none is visible: the sentence says what was looked for",
          "[e2e][launcher]") {
  // The empty list hides every GPU, so this holds on any machine.
  const Outcome outcome =
      run_ddprun({"--nproc-per-node", "gpu", "true"}, {"CUDA_VISIBLE_DEVICES="});
  CHECK(outcome.exit_code == 1);
  check_one_sentence(outcome);
  CHECK(outcome.err.find("--nproc-per-node: no GPU was found: ") != std::string::npos);
}

TEST_CASE("a bad PET_ variable is told by its name", "[e2e][launcher]") {
  const Outcome number = run_ddprun({"true"}, {"PET_MAX_RESTARTS=x"});
  CHECK(number.exit_code == 2);
  check_one_sentence(number);
  CHECK(number.err.find("PET_MAX_RESTARTS: 'x'") != std::string::npos);

  const Outcome flag = run_ddprun({"true"}, {"PET_STANDALONE=yes"});
  CHECK(flag.exit_code == 1);
  check_one_sentence(flag);
  CHECK(flag.err.find("PET_STANDALONE: 'yes'") != std::string::npos);
}

TEST_CASE("help and version go to stdout and end well", "[e2e][launcher]") {
  for (const char* word : {"--help", "-h", "--h"}) {
    const Outcome help = run_ddprun({word});
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    CHECK(help.out.find("Usage: ddprun [options] PROGRAM") != std::string::npos);
    CHECK(help.out.find("--nproc-per-node N|cpu|gpu|auto") != std::string::npos);
  }
  const Outcome version = run_ddprun({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.err.empty());
  CHECK(version.out.starts_with("ddprun "));
  CHECK(std::count(version.out.begin(), version.out.end(), '\n') == 1);
}

TEST_CASE("a log directory that cannot be made ends in one sentence with its path",
          "[e2e][launcher]") {
  const TempDir dir;
  const std::string file = dir.file("taken", 0644);
  // Even root cannot make a directory in /proc.
  for (const std::string& path : {file, file + "/below", std::string("/proc/ddprun-logs")}) {
    INFO(path);
    const Outcome outcome =
        run_ddprun({"--standalone", "--log-dir", path, "--no-python", "/bin/true"});
    CHECK(outcome.exit_code == 1);
    check_one_sentence(outcome);
    CHECK(outcome.err.find(path) != std::string::npos);
  }
}

TEST_CASE("a job that succeeds ends with 0 and says nothing", "[e2e][launcher]") {
  for (const char* program : {"true", "/bin/true"}) {
    const Outcome outcome = run_ddprun({"--standalone", "--no-python", program});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
}

TEST_CASE("words after the program are the program's own", "[e2e][launcher]") {
  const Outcome outcome = run_ddprun({"echo", "--nnodes", "0", "-h", "--", "x"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "--nnodes 0 -h -- x\n");
}
