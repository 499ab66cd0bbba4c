#include "agent/host/oom_detector.h"

#include <catch2/catch.hpp>
#include <map>

using namespace ddprun;
using Verdict = OomDetector::Verdict;

namespace {

/// A machine's files, which a test may change while the watch looks at them.
struct Files {
  std::map<std::string, std::string> content;
  FileReader reader() {
    return [this](const std::string& path) -> std::optional<std::string> {
      const auto found = content.find(path);
      return found == content.end() ? std::nullopt : std::optional(found->second);
    };
  }
};

constexpr char kV2Mount[] = "30 25 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
constexpr char kV1Mount[] = "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

}  // namespace

TEST_CASE("the count of kills is read in both versions' files") {
  CHECK(parse_oom_kills("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n") == 2U);
  CHECK(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n") == 5U);
  CHECK_FALSE(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\n"));
  CHECK_FALSE(parse_oom_kills(""));
}

TEST_CASE("the kernel's log names the process and whether a limit was the reason") {
  const auto limit = parse_kernel_oom(
      "3,812,93881,-;Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB");
  REQUIRE(limit);
  CHECK(limit->pid == 4242);
  CHECK(limit->by_limit);
  const auto machine =
      parse_kernel_oom("3,813,93882,-;Out of memory: Killed process 7 (train) total-vm:1kB");
  REQUIRE(machine);
  CHECK(machine->pid == 7);
  CHECK_FALSE(machine->by_limit);
  CHECK_FALSE(parse_kernel_oom("6,1,1,-;oom_reaper: reaped process 7 (train), now anon-rss:0kB"));
  CHECK_FALSE(parse_kernel_oom("6,1,1,-;Killed process 7"));
  CHECK_FALSE(parse_kernel_oom(""));
}

TEST_CASE("a count that rose since the attempt began is a kill for want of memory") {
  for (const bool v2 : {true, false}) {
    Files files;
    files.content["/proc/self/mountinfo"] = v2 ? kV2Mount : kV1Mount;
    files.content["/proc/self/cgroup"] = v2 ? "0::/job/step\n" : "4:memory:/job/step\n";
    const std::string counter = v2 ? "/sys/fs/cgroup/job/step/memory.events"
                                   : "/sys/fs/cgroup/memory/job/step/memory.oom_control";
    files.content[counter] = "oom_kill 1\n";
    OomDetector watch(files.reader(), false);
    CHECK(watch.verdict(42) == Verdict::not_memory);
    files.content[counter] = "oom_kill 2\n";
    CHECK(watch.verdict(42) == Verdict::killed_one_of_us);
    watch.begin();
    CHECK(watch.verdict(42) == Verdict::not_memory);
  }
}

TEST_CASE("where neither count nor log can be read nothing is claimed") {
  Files files;
  OomDetector nothing(files.reader(), false);
  CHECK(nothing.verdict(42) == Verdict::unknown);
  files.content["/proc/self/mountinfo"] = kV2Mount;  // the root of v2 keeps no count
  files.content["/proc/self/cgroup"] = "0::/\n";
  OomDetector root(files.reader(), false);
  CHECK(root.verdict(42) == Verdict::unknown);
}

TEST_CASE("a clause is said of a SIGKILL always, of another end only when memory was the reason") {
  CHECK(memory_clause(Verdict::not_memory, false).empty());
  CHECK(memory_clause(Verdict::unknown, false).empty());
  CHECK_FALSE(memory_clause(Verdict::not_memory, true).empty());
  CHECK_FALSE(memory_clause(Verdict::unknown, true).empty());
  for (const auto verdict :
       {Verdict::killed_by_limit, Verdict::killed_by_machine, Verdict::killed_one_of_us}) {
    CHECK(memory_clause(verdict, true).starts_with("out of memory: "));
    CHECK(memory_clause(verdict, false).starts_with("out of memory: "));
  }
}
