// A worker that is stopped in the middle of a save, with the agent above it, as on a suspended
// machine, and goes on when a later attempt uses the snapshots.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

constexpr char kRefused[] =
    "snapshot: attempt 2 saves here now; this worker belongs to attempt 1 and may not any more";

/// Names in a directory that may change at any moment.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Each snapshot with its manifest, which covers its content.
std::map<std::string, std::string> snapshots(const fs::path& path) {
  std::map<std::string, std::string> found;
  for (const auto& name : names_in(path)) {
    if (name[0] != '.') {
      found[name] = read_file(path / name / "manifest.json");
    }
  }
  return found;
}

std::string newest(const fs::path& path) {
  const auto found = snapshots(path);
  return found.empty() ? "" : found.rbegin()->first;
}

/// Stops the worker, which saves again and again as attempt 1, while it writes a snapshot. The
/// snapshot's name; empty when that did not succeed.
std::string stop_in_save(pid_t worker, const fs::path& path) {
  std::string caught;
  const auto writing = [&] {
    for (const auto& name : names_in(path / ".attempt-00000001")) {
      if (name > newest(path)) {
        return name;  // else it is an old one, moved there to be removed
      }
    }
    return std::string();
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (caught.empty() && std::chrono::steady_clock::now() < deadline) {
    if (writing().empty()) {
      continue;
    }
    REQUIRE(stop_process(worker));
    caught = writing();
    if (caught.empty()) {
      ::kill(worker, SIGCONT);
    }
  }
  return caught;
}

/// Everything in the files below.
std::string all_logs(const fs::path& directory) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) {
      text += read_file(entry.path());
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a job begun anew is not disturbed by a writer of the old one, stopped in a save") {
  const TempDir dir;
  const fs::path path = dir.path() / "snapshot";
  const auto job = [&](const std::string& where) {
    return ChildRequest{.argv = {"ddprun", "--standalone", "--max-restarts", "0", "train", "linear",
                                 "60", "1", "--snapshot-path", where},
                        .environment = {{"OMP_NUM_THREADS", "1"}},
                        .directory = dir.path().string()};
  };
  const std::string expected = weights_in(run(job("calm")).out);
  REQUIRE(expected.size() == 16);

  ChildProcess old(job("snapshot"));
  pid_t worker = 0;
  REQUIRE(wait_until([&] { return (worker = worker_of(old.pid(), 0)) != 0; }));
  REQUIRE(wait_until([&] { return newest(path) > "00000003"; }));
  const std::string caught = stop_in_save(worker, path);
  INFO(old.report());
  REQUIRE(!caught.empty());
  const auto above = descendants_of(old.pid());
  for (const pid_t pid : above) {
    REQUIRE(stop_process(pid));
  }
  old.signal(SIGSTOP);

  const Finished anew = run(job("snapshot"));
  INFO(anew.out << anew.err);
  REQUIRE(anew.exit_code == 0);
  CHECK(contains(anew.out, "Resuming training from snapshot at Epoch"));
  CHECK(weights_in(anew.out) == expected);
  const auto before = snapshots(path);
  CHECK(before.size() == 2);

  old.signal(SIGCONT);
  for (const pid_t pid : above) {
    ::kill(pid, SIGCONT);
  }
  CHECK(old.exit_code() == 1);
  CHECK(contains(old.err(), kRefused));
  CHECK(snapshots(path) == before);
}

TEST_CASE("a node suspended in a save does not disturb the snapshots of the next attempt") {
  const TempDir dir;
  const fs::path path = dir.path() / "snapshot";
  Cluster cluster(
      {.nodes = 3,
       .workers_per_node = 1,
       .options = {"--nnodes", "2:3", "--heartbeat-timeout", "2", "--max-restarts", "0",
                   "--scale-up", "never", "--redirects", "3", "--log-dir", dir.file("logs")},
       .program = {"train", "linear", "1000000", "1", "--snapshot-path", path.string()},
       .environment = {{"OMP_NUM_THREADS", "1"}}});
  cluster.start_all();
  const pid_t zombie = cluster.worker(0);
  REQUIRE(wait_until([&] { return newest(path) > "00000003"; }));
  const std::string caught = stop_in_save(zombie, path);
  INFO(cluster.report());
  REQUIRE(!caught.empty());
  for (int node = 0; node < 3; ++node) {
    if (worker_of(cluster.node(node).pid(), 0) == zombie) {
      REQUIRE(stop_process(cluster.agent(node)));
    }
  }

  // The others go on without that node, and save.
  REQUIRE(wait_until([&] { return names_in(path).front() == ".attempt-00000002"; }));
  REQUIRE(wait_until([&] { return newest(path) > caught; }));
  pid_t first = 0;  // of the next attempt
  REQUIRE(wait_until([&] {
    for (int node = 0; node < 3 && (first == 0 || first == zombie); ++node) {
      first = worker_of(cluster.node(node).pid(), 0);
    }
    return first != 0 && first != zombie;
  }));
  REQUIRE(stop_process(first));
  const auto before = snapshots(path);

  ::kill(zombie, SIGCONT);
  CHECK(wait_until([&] { return !process_runs(zombie); }));
  CHECK(contains(all_logs(dir.path() / "logs"), kRefused));
  CHECK(snapshots(path) == before);

  ::kill(first, SIGCONT);
  CHECK(wait_until([&] { return newest(path) > before.rbegin()->first; }));
}

}  // namespace ddprun::test
