#include "agent/process/worker_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <optional>

#include "agent/process/descriptor_limit.h"
#include "agent/process/orphans.h"
#include "rendezvous/base/fd.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/agent/forked.h"

namespace ddprun {
namespace {

using test::Forked;
using test::read_file;
using test::TempDir;
using Kind = ExitStatus::Kind;

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

SpawnRequest shell(const std::string& script) {
  return {"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, "", ""};
}

std::optional<ExitStatus> run(const SpawnRequest& request) {
  boost::asio::io_context io;
  std::optional<ExitStatus> end;
  const auto worker = WorkerProcess::spawn(io, request, [&](ExitStatus status) { end = status; });
  REQUIRE(worker.has_value());
  io.run_for(Forked::kPatience);
  return end;
}

bool no_children() {
  return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

std::string spawn_error(const SpawnRequest& request) {
  boost::asio::io_context io;
  const auto worker = WorkerProcess::spawn(io, request, [](ExitStatus) { FAIL("it never ran"); });
  REQUIRE_FALSE(worker.has_value());
  CHECK(no_children());
  CHECK(io.run() == 0);
  return worker.error().sentence();
}

TEST_CASE("an exit code and a signal of the same number are told apart", "[agent]") {
  CHECK(run(shell("exit 9")) == ExitStatus{Kind::exited, 9});
  CHECK(run(shell("kill -KILL $$")) == ExitStatus{Kind::signalled, 9});
  CHECK(run(shell("exit 0")) == ExitStatus{Kind::exited, 0});
  CHECK(run(shell("exit 255")) == ExitStatus{Kind::exited, 255});
  CHECK(run(shell("kill -SEGV $$")) == ExitStatus{Kind::signalled, SIGSEGV});
  CHECK(no_children());
}

TEST_CASE("a program that cannot be executed is an error that says why", "[agent]") {
  const TempDir dir;
  using Catch::Contains;
  CHECK_THAT(spawn_error({dir.file("none"), {"none"}, {}, "", ""}),
             Contains(dir.file("none")) && Contains("there is no such program"));
  CHECK_THAT(spawn_error({"/tmp", {"tmp"}, {}, "", ""}), Contains("this is a directory"));
  write_file(dir.file("plain"), "#!/bin/sh\n", 0644);
  CHECK_THAT(spawn_error({dir.file("plain"), {"plain"}, {}, "", ""}), Contains("chmod +x"));
  write_file(dir.file("garbage"), "\x01\x02\x03 garbage", 0755);
  CHECK_THAT(spawn_error({dir.file("garbage"), {"garbage"}, {}, "", ""}),
             Contains("neither a program for this machine nor a script"));
  write_file(dir.file("lost"), "#!/nonexistent/python\n", 0755);
  CHECK_THAT(spawn_error({dir.file("lost"), {"lost"}, {}, "", ""}), Contains("interpreter"));
  CHECK_THAT(spawn_error({dir.file("plain/below"), {"below"}, {}, "", ""}),
             Contains("Not a directory"));
  const std::string huge(4 << 20, 'x');
  CHECK_THAT(spawn_error({"/bin/true", {"true", huge}, {}, "", ""}), Contains("larger than"));
}

TEST_CASE("a log file that cannot be opened is an error that names it", "[agent]") {
  auto request = shell("exit 0");
  request.stdout_path = "/nonexistent/stdout.log";
  CHECK_THAT(spawn_error(request), Catch::Contains("/nonexistent/stdout.log: cannot write"));
  request.stdout_path.clear();
  request.stderr_path = "/nonexistent/stderr.log";
  CHECK_THAT(spawn_error(request), Catch::Contains("/nonexistent/stderr.log: cannot write"));
}

TEST_CASE("a failed exec prints nothing of the parent's twice", "[agent]") {
  Forked agent([] {
    std::printf("only once;");
    boost::asio::io_context io;
    const auto worker = WorkerProcess::spawn(io, {"/nonexistent", {"x"}, {}, "", ""}, nullptr);
    return worker ? 1 : 0;
  });
  CHECK(agent.all_gone_within(Forked::kPatience));
  CHECK(agent.text() == "only once;");
  CHECK(agent.end().success());
}

TEST_CASE("a worker gets its arguments and its environment as they are, and no others", "[agent]") {
  const TempDir dir;
  SpawnRequest request{"/usr/bin/env", {"env"}, {"B=two words", "A=", "A="}, dir.file("out"), ""};
  CHECK(run(request)->success());
  CHECK(read_file(dir.file("out")) == "B=two words\nA=\nA=\n");
  request = {"/bin/sh",
             {"sh", "-c", "printf '<%s>' \"$0\" \"$@\"", "a b", "", "*"},
             {},
             dir.file("arguments"),
             ""};
  CHECK(run(request)->success());
  CHECK(read_file(dir.file("arguments")) == "<a b><><*>");
}

TEST_CASE("a worker writes its own files, after what they hold already", "[agent]") {
  const TempDir dir;
  write_file(dir.file("out"), "before\n", 0644);
  auto request = shell("echo to-out; echo to-err >&2");
  request.stdout_path = dir.file("out");
  request.stderr_path = dir.file("err");
  CHECK(run(request)->success());
  CHECK(read_file(dir.file("out")) == "before\nto-out\n");
  CHECK(read_file(dir.file("err")) == "to-err\n");
  request.stdout_path = request.stderr_path = dir.file("both");
  CHECK(run(request)->success());
  CHECK(read_file(dir.file("both")) == "to-out\nto-err\n");
}

TEST_CASE("a process reads the stdin that it is given", "[agent]") {
  const TempDir dir;
  write_file(dir.file("in"), "a line\n", 0644);
  SpawnRequest request = shell("read line && [ \"$line\" = 'a line' ]");
  request.stdin_path = dir.file("in");
  CHECK(run(request) == ExitStatus{Kind::exited, 0});
  request.stdin_path = dir.file("none");
  CHECK_THAT(spawn_error(request), Catch::Contains(dir.file("none")));
}

TEST_CASE("nothing but the three standard streams reaches a worker", "[agent]") {
  const TempDir dir;
  // Without O_CLOEXEC, as a careless library opens them; one of them far up.
  const Fd low(::open("/dev/null", O_RDWR));
  const Fd high(::fcntl(low.get(), F_DUPFD, 700));
  REQUIRE(high.get() >= 700);
  SpawnRequest request{"/bin/ls", {"ls", "/proc/self/fd"}, {}, dir.file("out"), dir.file("out")};
  CHECK(run(request)->success());
  // 3 is the directory that ls is reading.
  CHECK(read_file(dir.file("out")) == "0\n1\n2\n3\n");
}

TEST_CASE("descriptors that are passed on become 3, 4 and so on, and no other is left", "[agent]") {
  const TempDir dir;
  write_file(dir.file("a"), "first\n", 0644);
  write_file(dir.file("b"), "second\n", 0644);
  // In our process the two may well have the other's number: 4 becomes 3, and 3 becomes 4.
  Fd low(::open((dir.file("b")).c_str(), O_RDONLY | O_CLOEXEC));
  Fd high(::open((dir.file("a")).c_str(), O_RDONLY | O_CLOEXEC));
  SpawnRequest request = shell("cat <&3; cat <&4; ls /proc/$$/fd | tr '\\n' ' '");
  request.stdout_path = dir.file("out");
  request.descriptors = {high.get(), low.get()};
  REQUIRE(run(request)->success());
  CHECK(read_file(dir.file("out")).starts_with("first\nsecond\n0 1 2 3 4 "));
}

TEST_CASE("a worker gets the limit of descriptors that the agent was started with", "[agent]") {
  const TempDir dir;
  rlimit start{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &start) == 0);
  REQUIRE(start.rlim_max >= 1024);
  Forked agent([&] {
    const rlimit of_login{1000, start.rlim_max};
    SpawnRequest request = shell("ulimit -Sn; ulimit -Hn");
    request.stdout_path = dir.file("out");
    return ::setrlimit(RLIMIT_NOFILE, &of_login) == 0 &&
                   (request.descriptor_limit = raise_descriptor_limit()) == 1000 &&
                   ::sysconf(_SC_OPEN_MAX) == static_cast<long>(start.rlim_max) &&
                   run(request)->success()
               ? 0
               : 1;
  });
  REQUIRE(agent.end().success());
  CHECK(read_file(dir.file("out")) == "1000\n" + std::to_string(start.rlim_max) + "\n");
}

TEST_CASE("a standard stream that the agent has not is /dev/null to the worker", "[agent]") {
  const TempDir dir;
  Forked agent([&] {
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
    auto request = shell("readlink /proc/self/fd/0 /proc/$$/fd/2");
    request.stdout_path = dir.file("out");
    boost::asio::io_context io;
    int code = 1;
    const auto worker =
        WorkerProcess::spawn(io, request, [&](ExitStatus status) { code = status.value; });
    io.run_for(Forked::kPatience);
    return code;
  });
  CHECK(agent.end().success());
  CHECK(read_file(dir.file("out")) == "/dev/null\n/dev/null\n");
}

TEST_CASE("a worker has no signal blocked or ignored, whatever its agent has", "[agent]") {
  const TempDir dir;
  Forked agent([&] {
    sigset_t some;
    ::sigemptyset(&some);
    ::sigaddset(&some, SIGUSR1);
    ::sigaddset(&some, SIGRTMIN + 3);
    ::pthread_sigmask(SIG_BLOCK, &some, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGUSR2, [](int) {});
    boost::asio::io_context io;
    int code = 1;
    const auto worker = WorkerProcess::spawn(
        io, {"/bin/grep", {"grep", "^Sig[BI]", "/proc/self/status"}, {}, dir.file("out"), ""},
        [&](ExitStatus status) { code = status.value; });
    io.run_for(Forked::kPatience);
    sigset_t after;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
    const bool unchanged = ::sigismember(&after, SIGUSR1) == 1 &&
                           ::sigismember(&after, SIGTERM) == 0 &&
                           std::signal(SIGHUP, SIG_DFL) == SIG_IGN;
    return unchanged ? code : 2;
  });
  CHECK(agent.end() == ExitStatus{Kind::exited, 0});
  CHECK(read_file(dir.file("out")) == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("a worker leads a session and a process group of its own", "[agent]") {
  boost::asio::io_context io;
  auto worker = WorkerProcess::spawn(io, shell("exec sleep 1000"), nullptr);
  REQUIRE(worker.has_value());
  const pid_t pid = (*worker)->pid();
  CHECK(::getsid(pid) == pid);
  CHECK(::getpgid(pid) == pid);
  CHECK((*worker)->running());
  worker->reset();
  io.run_for(Forked::kPatience);
  CHECK(no_children());
}

TEST_CASE("a signal reaches the worker's whole group, a stopped one too", "[agent]") {
  Forked agent([] {
    boost::asio::io_context io;
    int code = 1;
    const auto worker =
        WorkerProcess::spawn(io, shell("sleep 1000 & kill -STOP $$; echo never; wait"),
                             [&](ExitStatus status) { code = status.torchrun_code(); });
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>((*worker)->pid()), &info, WSTOPPED | WNOWAIT);
    (*worker)->signal(SIGTERM);
    io.run_for(Forked::kPatience);
    return code == -SIGTERM ? 0 : 1;
  });
  CHECK(agent.all_gone_within(Forked::kPatience));
  CHECK(agent.text().empty());
  CHECK(agent.end().success());
}

TEST_CASE("the end is told once, and signals to the dead do nothing", "[agent]") {
  boost::asio::io_context io;
  int told = 0;
  std::unique_ptr<WorkerProcess> worker;
  auto spawned = WorkerProcess::spawn(io, shell("exit 3"), [&](ExitStatus status) {
    ++told;
    CHECK(status == ExitStatus{Kind::exited, 3});
    CHECK_FALSE(worker->running());
    // Its pid may be another process's by now: this very process is sure to be alive.
    worker->signal(SIGKILL);
  });
  REQUIRE(spawned.has_value());
  worker = *std::move(spawned);
  io.run_for(Forked::kPatience);
  io.restart();
  io.run_for(Forked::kPatience);
  CHECK(told == 1);
}

TEST_CASE("a callback may destroy its worker", "[agent]") {
  boost::asio::io_context io;
  std::unique_ptr<WorkerProcess> worker;
  auto spawned = WorkerProcess::spawn(io, shell("exit 0"), [&](ExitStatus) { worker.reset(); });
  REQUIRE(spawned.has_value());
  worker = *std::move(spawned);
  io.run_for(Forked::kPatience);
  CHECK(worker == nullptr);
  CHECK(no_children());
}

TEST_CASE("a worker that was reaped by somebody else is not signalled any more", "[agent]") {
  boost::asio::io_context io;
  std::optional<ExitStatus> end;
  const auto worker =
      WorkerProcess::spawn(io, shell("exec sleep 1000"), [&](ExitStatus status) { end = status; });
  REQUIRE(worker.has_value());
  ::kill((*worker)->pid(), SIGKILL);
  REQUIRE(::waitpid((*worker)->pid(), nullptr, 0) == (*worker)->pid());
  (*worker)->signal(SIGTERM);
  io.run_for(Forked::kPatience);
  CHECK(end == ExitStatus{Kind::signalled, SIGKILL});
}

TEST_CASE("a worker that is dropped is killed with its group and reaped, in silence", "[agent]") {
  Forked agent([] {
    boost::asio::io_context io;
    bool told = false;
    auto worker = WorkerProcess::spawn(io, shell("trap '' TERM; sleep 1000 & echo up; wait"),
                                       [&](ExitStatus) { told = true; });
    worker->reset();
    io.run_for(Forked::kPatience);
    return !told && no_children() ? 0 : 1;
  });
  CHECK(agent.all_gone_within(Forked::kPatience));
  CHECK(agent.end().success());
}

TEST_CASE("a loop may end before its worker, which is left to kill_descendants", "[agent]") {
  Forked agent([] {
    {
      boost::asio::io_context io;
      const auto worker = WorkerProcess::spawn(io, shell("exec sleep 1000"), [](ExitStatus) {});
      io.poll();
    }
    return kill_descendants({}, std::chrono::seconds(1)) && no_children() ? 0 : 1;
  });
  CHECK(agent.all_gone_within(Forked::kPatience));
  CHECK(agent.end().success());
}

TEST_CASE("a worker dies with its agent, deaf or not", "[agent]") {
  Forked agent([] {
    boost::asio::io_context io;
    const auto worker = WorkerProcess::spawn(
        io, shell("trap '' TERM HUP INT; echo up; exec sleep 1000"), [](ExitStatus) {});
    io.run_for(Forked::kPatience);
    return 1;
  });
  CHECK(agent.lines(1) == "up\n");
  ::kill(agent.pid(), SIGKILL);
  CHECK(agent.all_gone_within(std::chrono::seconds(1)));
}

TEST_CASE("64 workers start and end in one loop", "[agent]") {
  boost::asio::io_context io;
  int succeeded = 0;
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  const auto waited = test::waited_for_processor();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 64; ++i) {
    auto worker = WorkerProcess::spawn(io, {"/bin/true", {"true"}, {}, "", ""},
                                       [&](ExitStatus end) { succeeded += end.success(); });
    REQUIRE(worker.has_value());
    workers.push_back(*std::move(worker));
  }
  const auto took = std::chrono::steady_clock::now() - start;
  const auto waited_now = test::waited_for_processor();
  io.run_for(Forked::kPatience);
  CHECK(succeeded == 64);
  CHECK(took - (waited_now - waited) < std::chrono::seconds(2));
}

}  // namespace
}  // namespace ddprun
