#include "launcher/hosts/hosts_plan.h"

#include <catch2/catch.hpp>

#include "launcher/scheduler/told.h"
#include "tests/unit/launcher/resolve_words.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

Result<HostsPlan> planned(const std::string& line, const Variables& variables = {},
                          Machine machine = {}) {
  const auto parsed = parse(line + " p x", variables);
  const auto* const options = std::get_if<Options>(&parsed);
  REQUIRE(options != nullptr);
  static const std::vector<const char*> kEnvironment = {"PATH=/bin", "HOME=/h", "MINE=1"};
  return plan_hosts(*options, environment_of(variables), machine.host(),
                    Shell{"/opt/ddprun/bin/ddprun", kEnvironment});
}

HostsPlan plan(const std::string& line, const Variables& variables = {},
               const Machine& machine = {}) {
  auto result = planned(line, variables, machine);
  if (!result) {
    FAIL(result.error().sentence());
  }
  return *std::move(result);
}

std::string refusal(const std::string& line, const Variables& variables = {},
                    const Machine& machine = {}) {
  const auto result = planned(line, variables, machine);
  return result ? "it is taken" : result.error().sentence();
}

/// What is said of options of hosts without any hosts.
std::string alone(const std::string& line, const Variables& variables = {}) {
  const auto parsed = parse(line + " p x", variables);
  const auto mistake = hosts_option_alone(std::get<Options>(parsed));
  return mistake ? mistake->sentence() : "";
}

using Words = std::vector<std::string>;
const std::string kPort = std::to_string(derived_port("fresh-id"));

}  // namespace

TEST_CASE("Hosts are nodes in their order, which meet at the first", "[launcher][hosts]") {
  const HostsPlan three = plan("--hosts a:2,me@b,c --nproc-per-node 4 --max-restarts 1");
  CHECK(three.start.options == Words{"--nproc-per-node=4", "--max-restarts=1", "--no-scheduler",
                                     "--nnodes=3", "--rdzv-endpoint=a:" + kPort,
                                     "--rdzv-id=fresh-id"});
  CHECK(three.start.program == Words{"p", "x"});
  CHECK(three.start.executable == "/opt/ddprun/bin/ddprun");
  CHECK(three.start.directory == "/home/me");
  CHECK(three.start.environment == Words{"PATH=/bin"});
  CHECK(three.environment.size() == 3);
  CHECK(three.start.ssh == Words{"ssh"});
  CHECK(three.start.fan_out == 32);
  CHECK(three.least == 3);
  CHECK(three.labels == Words{"a", "b", "c"});
  REQUIRE(three.start.hosts.size() == 3);
  CHECK(three.start.hosts[0].words == Words{"--node-rank=0", "--nproc-per-node=2"});
  CHECK(three.start.hosts[1].words == Words{"--node-rank=1"});
  CHECK(three.start.hosts[1].target == "me@b");
}

TEST_CASE("A host alone meets nobody", "[launcher][hosts]") {
  const HostsPlan one = plan("--hosts a:2");
  CHECK(one.start.options == Words{"--no-scheduler", "--nnodes=1"});
  CHECK(one.start.hosts.front().words == Words{"--nproc-per-node=2"});
}

TEST_CASE("What is given stays", "[launcher][hosts]") {
  const HostsPlan elastic = plan("--hosts a,b,c --nnodes 2:3 --rdzv-id x");
  CHECK(elastic.least == 2);
  CHECK(elastic.start.options == Words{"--rdzv-id=x", "--no-scheduler", "--nnodes=2:3",
                                       "--rdzv-endpoint=a:" + std::to_string(derived_port("x")),
                                       "--rdzv-id=x"});
  const HostsPlan placed = plan("--hosts a,b --rdzv-endpoint z:7");
  CHECK(placed.start.options ==
        Words{"--rdzv-endpoint=z:7", "--no-scheduler", "--nnodes=2", "--rdzv-id=fresh-id"});
  const HostsPlan fixed = plan("--hosts a,b --master-addr a");
  CHECK(fixed.start.options ==
        Words{"--master-addr=a", "--no-scheduler", "--nnodes=2", "--rdzv-id=fresh-id"});
  CHECK(plan("--hosts [fe80::1],b").start.options[2] == "--rdzv-endpoint=[fe80::1]:" + kPort);
}

TEST_CASE("The hosts come from variables and files, too", "[launcher][hosts]") {
  CHECK(plan("", {{"PET_HOSTS", "a,b"}}).labels == Words{"a", "b"});
  Machine machine;
  machine.node_file = "a slots=2 max_slots=4\nb\n";
  const HostsPlan read = plan("--hostfile f", {}, machine);
  CHECK(read.labels == Words{"a", "b"});
  REQUIRE(read.notices.size() == 1);
  CHECK(read.notices[0].text ==
        "f, line 1: max_slots has no effect: a host has as many workers as its slots");
}

TEST_CASE("This host is reached without ssh by its own name", "[launcher][hosts]") {
  Machine machine;
  machine.name = "b.site";
  const HostsPlan named = plan("--hosts a,b,me@b.site,b.site2", {}, machine);
  CHECK(!named.start.hosts[0].here);
  CHECK(named.start.hosts[1].here);
  CHECK(!named.start.hosts[2].here);  // of another user, maybe
  CHECK(!named.start.hosts[3].here);
  CHECK(plan("--hosts localhost").start.hosts[0].here);
}

TEST_CASE("An option of hosts without any hosts is a mistake, but as a variable of the site",
          "[launcher][hosts]") {
  CHECK(
      alone("--fan-out 3") ==
      "--fan-out: without --hosts or --hostfile it has no effect; name the hosts, or leave it out");
  CHECK(alone("--ssh-command ssh") != "");
  CHECK(alone("--pass-env A,B --nnodes 1") != "");
  CHECK(alone("--nnodes 1", {{"PET_SSH_COMMAND", "ssh -p 2222"}}) == "");
  CHECK(alone("--nnodes 1") == "");
}

TEST_CASE("What does not fit together is refused before any host is reached", "[launcher][hosts]") {
  CHECK(refusal("--hosts a --hostfile f") ==
        "--hosts and --hostfile: the hosts are given twice; leave one of the two out");
  CHECK(refusal("--hosts a --fan-out 0") ==
        "--fan-out: a process cannot start 0 hosts; give 1 or more");
  CHECK(refusal("--hosts a,b --standalone") ==
        "--standalone: it says of one agent what --hosts says of all; leave one of the two out");
  CHECK(refusal("--node-rank 1", {{"PET_HOSTS", "a,b"}}) ==
        "--node-rank: it says of one agent what PET_HOSTS says of all; leave one of the two out");
  CHECK(refusal("--hosts a,b --nnodes 3") ==
        "--nnodes: '3' is not the number of hosts, which are 2; leave it out, or give MIN:2");
  CHECK(refusal("--hosts a,b --nnodes x") ==
        "--nnodes: 'x' is neither N nor MIN:MAX; write for example 2 or 2:4");
  CHECK(refusal("--hosts localhost,b") ==
        "--hosts, entry 1: 'localhost' is a loopback address, at which the other hosts reach only "
        "themselves; name the first host as the others reach it");
  CHECK(refusal("--hosts a,b --max-restarts -1") ==
        "--max-restarts: the number of restarts cannot be -1; give 0 or more");
  CHECK(refusal("--hosts a --pass-env NONE") ==
        "--pass-env: 'NONE' is not set here; set it, or leave it out");
  CHECK(refusal("--hosts a --ssh-command nowhere") ==
        "--ssh-command: it is not there: nowhere: not found; look again; install OpenSSH's client, "
        "or name what reaches the hosts");
  CHECK(refusal("--hosts a --pass-env MINE --nproc-per-node gpu") == "it is taken");
}
