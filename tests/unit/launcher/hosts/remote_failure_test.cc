#include "launcher/hosts/remote_failure.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "launcher/hosts/remote_command.h"

using namespace ddprun;

namespace {

using State = RelayReader::State;
constexpr ExitStatus kSsh255{ExitStatus::Kind::exited, 255};

std::string sentence(ExitStatus status, const std::string& said, State state = State::waiting,
                     const std::string& noise = "", const std::string& target = "me@a") {
  return remote_failure({.target = target,
                         .executable = "/opt/ddprun",
                         .status = status,
                         .said = said,
                         .state = state,
                         .version = 9,
                         .noise = noise})
      .sentence();
}

}  // namespace

TEST_CASE("A host that cannot be reached is explained in the last words of ssh",
          "[launcher][hosts]") {
  CHECK(sentence(kSsh255, "banner\nssh: connect to host a port 22: Connection refused\r\n") ==
        "ssh: connect to host a port 22: Connection refused; try `ssh me@a true`");
  CHECK(sentence(kSsh255, "Host key verification failed.\n") ==
        "ssh: Host key verification failed; try `ssh me@a true`");
  CHECK(sentence(kSsh255, "") == "ssh ended with 255 and said nothing; try `ssh me@a true`");
}

TEST_CASE("A host without ddprun, or with another one, says so", "[launcher][hosts]") {
  CHECK(sentence({ExitStatus::Kind::exited, 127}, "sh: 1: exec: /opt/ddprun: not found\n") ==
        "there is no program /opt/ddprun there (sh: 1: exec: /opt/ddprun: not found); install "
        "ddprun at the same path on every host");
  CHECK(sentence({ExitStatus::Kind::exited, 126}, "") ==
        "permission to execute is denied there for /opt/ddprun; install ddprun at the same path on "
        "every host");
  CHECK(sentence({ExitStatus::Kind::signalled, 9}, "", State::other_version) ==
        "ddprun there speaks version 9 of the control protocol, and this one version " +
            std::to_string(kProtocolVersion) + "; install the same ddprun on every host");
  CHECK(sentence({ExitStatus::Kind::exited, 1}, "", State::waiting,
                 "This account is currently not available.\n") ==
        "its ddprun did not begin: ssh: This account is currently not available");
}

TEST_CASE("A connection that is lost later says how", "[launcher][hosts]") {
  CHECK(sentence({ExitStatus::Kind::signalled, 9}, "", State::good) ==
        "the connection to its ddprun is lost: ssh was killed by SIGKILL");
  CHECK(sentence(kSsh255, "Timeout, server a not responding.\n", State::good) ==
        "the connection to its ddprun is lost: Timeout, server a not responding");
  CHECK(sentence({ExitStatus::Kind::signalled, 9}, "", State::good, "", "") ==
        "the connection to its ddprun is lost: the relay was killed by SIGKILL");
}

TEST_CASE("ssh gets options that a user's own win over, and another program gets none",
          "[launcher][hosts]") {
  RelayStart start;
  start.executable = "/it's/ddprun";
  start.ssh = {"/usr/bin/ssh", "-oConnectTimeout=3"};
  const auto words = ssh_words(start, "a");
  CHECK(words[1] == "-oConnectTimeout=3");
  CHECK(std::find(words.begin(), words.end(), "-oBatchMode=yes") != words.end());
  CHECK(words[words.size() - 2] == "a");
  CHECK(words.back() == "exec '/it'\\''s/ddprun' --relay-of-hosts");
  start.ssh = {"my-rsh", "-x"};
  CHECK(ssh_words(start, "a").size() == 4);
}
