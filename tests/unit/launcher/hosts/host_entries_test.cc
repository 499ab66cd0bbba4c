#include "launcher/hosts/host_entries.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

std::string text_of(const Result<HostEntries>& entries) {
  if (!entries) {
    return entries.error().sentence();
  }
  std::string text;
  for (const HostEntry& entry : entries->hosts) {
    text += (text.empty() ? "" : " ") + entry.target() + "*" + std::to_string(entry.workers);
  }
  return text;
}

std::string hosts(const std::string& text) {
  return text_of(parse_hosts(text, "--hosts"));
}
std::string file(const std::string& text) {
  return text_of(parse_hostfile(text, "h.txt"));
}

}  // namespace

TEST_CASE("Hosts of the command line have a user and workers where they are given",
          "[launcher][hosts]") {
  CHECK(hosts("a") == "a*0");
  CHECK(hosts("a,b:4, user@c.site:1") == "a*0 b*4 user@c.site*1");
  CHECK(hosts("10.0.0.1:2,[fe80::1]:4,me@[::1],[fe80::1%eth0]") ==
        "10.0.0.1*2 fe80::1*4 me@::1*0 fe80::1%eth0*0");
  CHECK(hosts("name@realm@a") == "name@realm@a*0");
}

TEST_CASE("What is no host says where it stands, and what to write", "[launcher][hosts]") {
  CHECK(hosts("") == "--hosts, entry 1: it is empty in ''; name a host between the commas");
  CHECK(hosts("a,,b") == "--hosts, entry 2: it is empty in 'a,,b'; name a host between the commas");
  CHECK(hosts("a,-oProxyCommand=x") ==
        "--hosts, entry 2: '-oProxyCommand=x' is no host in '-oProxyCommand=x'; write a name or an "
        "address, as in node1 or node1:4");
  CHECK(hosts("a b") ==
        "--hosts, entry 1: 'a b' is no host in 'a b'; write a name or an address, as in node1 or "
        "node1:4");
  CHECK(hosts("-l@a") ==
        "--hosts, entry 1: '-l' in '-l@a' is no user; write [user@]host or [user@]host:WORKERS");
  CHECK(hosts("fe80::1:4") ==
        "--hosts, entry 1: 'fe80::1:4' has several colons in 'fe80::1:4'; write an IPv6 address in "
        "brackets, as in [fe80::1]:4");
  for (const char* text : {"[fe80::1", "[a]", "[]", "[::1]4", "[::1%]"}) {
    CHECK_THAT(hosts(text), Catch::Contains(" is no IPv6 address in "));
  }
  for (const char* text : {"a:", "a:0", "a:-1", "a:4097", "a:x", "[::1]:"}) {
    CHECK_THAT(hosts(text), Catch::Contains("is not a number of workers"));
  }
  CHECK(hosts("a:4096") == "a*4096");
  CHECK(hosts(std::string(253, 'a')) == std::string(253, 'a') + "*0");
  CHECK_THAT(hosts(std::string(254, 'a')), Catch::Contains("is no host"));
}

TEST_CASE("A host that is named twice is an error that names both places", "[launcher][hosts]") {
  CHECK(hosts("a:2,b,A:2") ==
        "--hosts, entry 3: A is named twice, here and at --hosts, entry 1; name each host once, "
        "with all of its workers");
  CHECK(file("a slots=2\n\nme@a\n") ==
        "h.txt, line 3: a is named twice, here and at h.txt, line 1; name each host once, with all "
        "of its workers");
}

TEST_CASE("A hostfile is read as Open MPI, DeepSpeed and MPICH write it", "[launcher][hosts]") {
  CHECK(
      file("# comment\n\na slots=4\n  b:2\t# rest\r\nme@c\nd slots=3 max_slots=3\n[::1] slots=1") ==
      "a*4 b*2 me@c*0 d*3 ::1*1");
  CHECK(file("\xef\xbb\xbf"
             "a slots=2\r\nb") == "a*2 b*0");  // as an editor of Windows saves it
  CHECK(file("a max-slots=2 slots=2") == "a*2");
  CHECK(parse_hostfile("a\nb slots=1 max-slots=8\n", "h.txt")->passed_over ==
        "h.txt, line 2: max-slots has no effect: a host has as many workers as its slots");
  CHECK(parse_hostfile("a\n", "h.txt")->passed_over.empty());
}

TEST_CASE("A line that cannot be read is shown with its file and number", "[launcher][hosts]") {
  CHECK(file("a\nb slot=4\n") ==
        "h.txt, line 2: 'slot=4' in 'b slot=4' is not known here; write host, host:N or host "
        "slots=N");
  CHECK(file("a b\n") ==
        "h.txt, line 1: 'b' in 'a b' is not known here; write host, host:N or host slots=N");
  CHECK(file("a slots=x") ==
        "h.txt, line 1: 'x' in 'a slots=x' is not a number of workers; give a number from 1 to "
        "4096");
  CHECK(file("a:2 slots=2") ==
        "h.txt, line 1: the workers are given twice in 'a:2 slots=2'; write host:N or host "
        "slots=N");
  CHECK(file("a slots=4 max_slots=2") ==
        "h.txt, line 1: the most slots are fewer than the slots in 'a slots=4 max_slots=2'; leave "
        "max_slots out");
  CHECK(file("a max_slots=no") ==
        "h.txt, line 1: 'no' in 'a max_slots=no' is not a number of workers; give a number, or "
        "leave it out");
  CHECK(file("# nothing\n") ==
        "h.txt: no host is named; write one host a line, as in node1 slots=4");
  CHECK(file(std::string(1000, '!')).size() < 600);
}
