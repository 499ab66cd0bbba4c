#include "agent/operations/agent_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> files_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

}  // namespace

TEST_CASE("a socket's name has the job and the pid, whatever the job is called", "[agent]") {
  CHECK(agent_socket_name({"nightly", 4711}) == "nightly-4711.sock");
  CHECK(agent_socket_name({"nightly", 4711, 2}) == "nightly-4711~2.sock");
  CHECK(job_in_socket_name("a/b c~+") == "a%2Fb%20c%7E%2B");
  CHECK(job_in_socket_name("..") == "%2E.");
  CHECK(job_in_socket_name("").empty());
  const std::string longest =
      agent_socket_name({job_in_socket_name(std::string(500, 'x')), 4'194'304});
  CHECK(longest.size() < 80);
  CHECK(parse_socket_name(longest)->pid == 4'194'304);
  CHECK((parse_socket_name("a-b-12.sock") == AgentSocketName{"a-b", 12}));
  CHECK((parse_socket_name("a-b-12~3.sock") == AgentSocketName{"a-b", 12, 3}));
  for (const char* const other :
       {"", ".sock", "a.sock", "a-.sock", "a-0.sock", "a--1x.sock", "a-12.sock.new",
        "a-99999999999999999999.sock", "a-12~.sock", "a-12~0.sock", "a-~2.sock"}) {
    INFO(other);
    CHECK_FALSE(parse_socket_name(other).has_value());
  }
}

TEST_CASE("no two jobs share the part of a name that stands for the job", "[agent]") {
  const std::string long_id(60, 'x');
  const std::string cut = job_in_socket_name(long_id + "1");
  CHECK(job_in_socket_name(long_id) == long_id);
  CHECK(cut.size() == 60);
  CHECK(cut != job_in_socket_name(long_id + "2"));
  CHECK(cut == job_in_socket_name(long_id + "1"));
  // Who names a job as the name of another one is cut means another job, too.
  CHECK(cut != job_in_socket_name(cut));
}

TEST_CASE("sockets are below the runtime directory, else in one of the user's in /tmp", "[agent]") {
  using Dirs = std::vector<std::string>;
  CHECK(agent_socket_dirs(7, "/x") == Dirs{"/x/ddprun", "/run/user/7/ddprun", "/tmp/ddprun-7"});
  CHECK(agent_socket_dirs(7, "/run/user/7") == Dirs{"/run/user/7/ddprun", "/tmp/ddprun-7"});
  CHECK(agent_socket_dirs(7, nullptr) == Dirs{"/run/user/7/ddprun", "/tmp/ddprun-7"});
  CHECK(agent_socket_dirs(7, "relative").size() == 2);
}

TEST_CASE("an agent's socket takes connections, and goes with it", "[agent]") {
  const test::TempDir dir;
  const std::string path = dir.file("ddprun");
  {
    auto socket = AgentSocket::open({dir.file("none/ddprun"), path}, "j");
    REQUIRE(socket.has_value());
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    auto directory = open_socket_dir(path, ::geteuid(), false);
    REQUIRE(directory.has_value());
    const auto agents = agents_in(*directory);
    CHECK((agents == std::vector<AgentSocketName>{{"j", ::getpid()}}));
    Fd connection;
    REQUIRE(connect_to_agent(*directory, agents.front(), connection) == 0);
    CHECK(peer_is_own_user(connection.get()));
    CHECK(connect_to_agent(*directory, {"j", 1}, connection) == ENOENT);
    // Moved, it still has one owner.
    const AgentSocket moved = std::move(*socket);
    CHECK(files_in(path).size() == 1);
  }
  CHECK(files_in(path).empty());
}

TEST_CASE("sockets of agents that are gone are removed, and those of others are not", "[agent]") {
  const test::TempDir dir;
  const std::string path = dir.file("ddprun");
  auto own = AgentSocket::open({path}, "own");
  REQUIRE(own.has_value());
  // No process has a number this large; a file that is no socket refuses connections, too.
  const std::string gone = path + "/old-4194305.sock";
  const std::string half_made = path + "/old-4194306.sock.new";
  const std::string used_again = path + "/other-" + std::to_string(::getppid()) + ".sock";
  const std::string just_made = used_again + ".new";
  for (const std::string& file : {gone, half_made, used_again, just_made, path + "/note.txt"}) {
    std::ofstream(file) << "";
  }
  auto directory = open_socket_dir(path, ::geteuid(), false);
  REQUIRE(directory.has_value());
  const auto agents = agents_in(*directory);
  CHECK((agents == std::vector<AgentSocketName>{{"own", ::getpid()}}));
  CHECK_FALSE(fs::exists(gone));
  CHECK_FALSE(fs::exists(half_made));
  CHECK_FALSE(fs::exists(used_again));
  CHECK(fs::exists(just_made));
  CHECK(fs::exists(path + "/note.txt"));
}

TEST_CASE("an agent takes no name from another one, and removes its own file alone", "[agent]") {
  // As two agents with the same pid, each in a container, in a directory that both see.
  const test::TempDir dir;
  const std::string path = dir.file("ddprun");
  std::optional<AgentSocket> first;
  {
    auto opened = AgentSocket::open({path}, "j");
    REQUIRE(opened.has_value());
    first.emplace(std::move(*opened));
  }
  auto directory = open_socket_dir(path, ::geteuid(), false);
  REQUIRE(directory.has_value());
  Fd connection;
  {
    auto second = AgentSocket::open({path}, "j");
    REQUIRE(second.has_value());
    CHECK(agents_in(*directory).size() == 2);
    CHECK(connect_to_agent(*directory, {"j", ::getpid(), 2}, connection) == 0);
  }
  CHECK((agents_in(*directory) == std::vector<AgentSocketName>{{"j", ::getpid()}}));
  CHECK(connect_to_agent(*directory, {"j", ::getpid()}, connection) == 0);
  // Another one's file under its name stays.
  const std::string file = path + "/" + agent_socket_name({"j", ::getpid()});
  fs::remove(file);
  std::ofstream(file) << "";
  first.reset();
  CHECK(fs::exists(file));
}

TEST_CASE("what another user has planted among the sockets is not used", "[agent]") {
  const test::TempDir dir;
  const std::string path = dir.file("ddprun");
  auto own = AgentSocket::open({path}, "own");
  REQUIRE(own.has_value());
  const std::string target = agent_socket_name({"own", ::getpid()});
  fs::create_symlink(target, path + "/link-1.sock");
  auto directory = open_socket_dir(path, ::geteuid(), false);
  REQUIRE(directory.has_value());
  CHECK(agents_in(*directory).size() == 1);
  REQUIRE(::chmod(path.c_str(), 0770) == 0);
  const auto refused = open_socket_dir(path, ::geteuid(), false);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().what == "other users may write in this directory");
  CHECK(open_socket_dir(path, ::geteuid(), true).has_value());
  if (::geteuid() != 0) {
    SKIP_TEST("root", "a directory is given to another user");
  }
  // As if root looked after a user whose directory has a way to a service of root's.
  REQUIRE(::chown(path.c_str(), 65'534, 65'534) == 0);
  Fd connection;
  CHECK(connect_to_agent(*directory, {"own", ::getpid()}, connection) == EACCES);
  CHECK(connect_to_agent(*directory, {"link", 1}, connection) == EACCES);
  CHECK(agents_in(*directory).empty());
}

TEST_CASE("a directory of another user is not used, and others are shut out of one's own",
          "[agent]") {
  const test::TempDir dir;
  const std::string path = dir.file("ddprun");
  REQUIRE(::mkdir(path.c_str(), 0777) == 0);
  REQUIRE(::chmod(path.c_str(), 0777) == 0);
  CHECK_FALSE(open_socket_dir(path, ::geteuid() + 1, true).has_value());
  REQUIRE(open_socket_dir(path, ::geteuid(), true).has_value());
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(::symlink(path.c_str(), dir.file("link").c_str()) == 0);
  CHECK_FALSE(open_socket_dir(dir.file("link"), ::geteuid(), true).has_value());
  if (::geteuid() != 0) {
    SKIP_TEST("root", "a directory is given to another user");
  }
  REQUIRE(::chown(path.c_str(), 65'534, 65'534) == 0);
  const auto refused = open_socket_dir(path, 0, true);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().what == "another user owns this directory");
  CHECK_FALSE(AgentSocket::open({path}, "j").has_value());
}
