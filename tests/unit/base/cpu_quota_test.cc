#include "rendezvous/base/cpu_quota.h"

#include <catch2/catch.hpp>
#include <map>

namespace ddprun {
namespace {

FileReader files(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const std::string& path) -> std::optional<std::string> {
    const auto found = all.find(path);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  };
}

const std::string kV2Mount =
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_CASE("a cgroup v2 quota is the ratio of its two numbers", "[agent]") {
  CHECK(parse_cpu_max("150000 100000\n") == 1.5);
  CHECK(parse_cpu_max("50000 100000") == 0.5);
  CHECK_FALSE(parse_cpu_max("max 100000\n"));
  CHECK_FALSE(parse_cpu_max(""));
  CHECK_FALSE(parse_cpu_max("0 100000"));
  CHECK_FALSE(parse_cpu_max("100000 0"));
  CHECK_FALSE(parse_cpu_max("100000"));
  CHECK_FALSE(parse_cpu_max("many 100000"));
}

TEST_CASE("a cgroup v1 quota of -1 is no limit", "[agent]") {
  CHECK(parse_cfs_quota("400000\n", "100000\n") == 4.0);
  CHECK_FALSE(parse_cfs_quota("-1\n", "100000\n"));
  CHECK_FALSE(parse_cfs_quota("", ""));
}

TEST_CASE("the tightest cgroup v2 quota on the way to the root counts", "[agent]") {
  std::map<std::string, std::string> all{{"/proc/self/mountinfo", kV2Mount},
                                         {"/proc/self/cgroup", "0::/jobs/7/step\n"},
                                         {"/sys/fs/cgroup/jobs/7/step/cpu.max", "max 100000\n"},
                                         {"/sys/fs/cgroup/jobs/7/cpu.max", "200000 100000\n"},
                                         {"/sys/fs/cgroup/jobs/cpu.max", "800000 100000\n"}};
  CHECK(cpu_quota(files(all)) == 2.0);
  all["/sys/fs/cgroup/cpu.max"] = "100000 100000\n";
  CHECK(cpu_quota(files(all)) == 1.0);
}

TEST_CASE("without a cgroup file system or a limit there is no quota", "[agent]") {
  CHECK_FALSE(cpu_quota(files({})));
  CHECK_FALSE(
      cpu_quota(files({{"/proc/self/mountinfo", kV2Mount}, {"/proc/self/cgroup", "0::/\n"}})));
}

TEST_CASE("a container that sees its host's cgroup path reads what is mounted", "[agent]") {
  const auto mount = [](const std::string& root) {
    return "31 23 0:28 " + root + " /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
  };
  std::map<std::string, std::string> all{{"/proc/self/cgroup", "0::/docker/ab12/inner\n"},
                                         {"/sys/fs/cgroup/cpu.max", "300000 100000\n"},
                                         {"/sys/fs/cgroup/inner/cpu.max", "250000 100000\n"}};
  all["/proc/self/mountinfo"] = mount("/docker/ab12");
  CHECK(cpu_quota(files(all)) == 2.5);
  // /docker/ab1 is not a directory above /docker/ab12.
  all["/proc/self/mountinfo"] = mount("/docker/ab1");
  CHECK(cpu_quota(files(all)) == 3.0);
  all["/proc/self/cgroup"] = "0::/../elsewhere\n";
  CHECK(cpu_quota(files(all)) == 3.0);
}

TEST_CASE("cgroup v1 and mixed hierarchies are read too", "[agent]") {
  const std::string v1_mount =
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
      "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const std::string base = "/sys/fs/cgroup/cpu,cpuacct";
  std::map<std::string, std::string> all{
      {"/proc/self/mountinfo", v1_mount},
      {"/proc/self/cgroup", "9:cpuset:/other\n3:cpu,cpuacct:/job\n0::/job\n"},
      {base + "/job/cpu.cfs_quota_us", "350000\n"},
      {base + "/job/cpu.cfs_period_us", "100000\n"},
      {base + "/cpu.cfs_quota_us", "-1\n"},
      {base + "/cpu.cfs_period_us", "100000\n"}};
  CHECK(cpu_quota(files(all)) == 3.5);
  all["/sys/fs/cgroup/unified/job/cpu.max"] = "50000 100000\n";
  CHECK(cpu_quota(files(all)) == 0.5);
}

TEST_CASE("a mount point with blanks is unescaped", "[agent]") {
  CHECK(
      cpu_quota(files({{"/proc/self/mountinfo", "31 23 0:28 / /my\\040groups rw - cgroup2 c rw\n"},
                       {"/proc/self/cgroup", "0::/\n"},
                       {"/my groups/cpu.max", "100000 100000\n"}})) == 1.0);
}

TEST_CASE("garbage in the kernel's files is no quota", "[agent]") {
  CHECK_FALSE(cpu_quota(files(
      {{"/proc/self/mountinfo", "- - -\n\n:\ncgroup2"}, {"/proc/self/cgroup", ":\n::\nx\n0:"}})));
}

}  // namespace
}  // namespace ddprun
