// What users of torchrun report of an endpoint that cannot be reached (I-1: "connect to the store
// times out, no reason given"; I-2: "accepts, then resets"): each situation for real, and the
// sentence that ddprun has for it, while it goes on trying and at the end.
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/lone_agent.h"
#include "tests/support/event_wait.h"
#include "tests/support/needs.h"
#include "tests/support/net_namespaces.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// Listeners that are no ddprun, on ports 9001 ...: says "ready" once all listen.
constexpr char kStrangers[] = R"(
import http.server, socket, struct, sys, threading

def serve(port, act):
    listener = socket.create_server(("", port))
    def loop():
        kept = []
        while True:
            peer = listener.accept()[0]
            act(peer)
            kept.append(peer)
    threading.Thread(target=loop, daemon=True).start()

def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()

def close(peer):
    peer.recv(1 << 16)
    peer.shutdown(socket.SHUT_RDWR)
    peer.close()

web = http.server.ThreadingHTTPServer(("", 9001), http.server.BaseHTTPRequestHandler)
threading.Thread(target=web.serve_forever, daemon=True).start()
serve(9002, lambda peer: peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"))
serve(9003, reset)
serve(9004, close)
serve(9005, lambda peer: None)
serve(9006, lambda peer: peer.sendall(b"DDPRUN\x63\x00"))
print("ready", flush=True)
threading.Event().wait()
)";

constexpr char kHead[] = "10.77.0.1";

/// Two nodes: 0 is the endpoint's, 1 is ours.
std::unique_ptr<ChildProcess> join(const NetNamespaces& network, const std::string& host, int port,
                                   const std::string& join_timeout = "4") {
  return start({.endpoint = host + ":" + std::to_string(port),
                .options = {"--nnodes", "2", "--join-timeout", join_timeout},
                .network_namespace = network.name(1)});
}

/// It said so while it tried, with how long it goes on, and at the end in one sentence.
void check_told(ChildProcess& agent, const std::string& what, const std::string& todo) {
  const int code = agent.exit_code();
  INFO(agent.report());
  CHECK(code == 1);
  const std::string tried = line_after(agent.err(), "[ddprun] waiting for the coordinator at ");
  CHECK(contains(tried, what));
  CHECK(contains(tried, "tried for "));
  CHECK(contains(tried, " more; " + todo));
  const std::string end = line_after(agent.err(), "ddprun: ");
  CHECK(contains(end, "cannot reach the coordinator: "));
  CHECK(contains(end, what));
  CHECK(contains(end, "tried for 4 s; " + todo));
  CHECK(count_of(agent.err(), "\nddprun: ") == 1);
  CHECK(count_of(agent.err(), "waiting for the coordinator") <= 3);
}

}  // namespace

TEST_CASE("I-1: an endpoint that cannot be reached says why: name, closed port, dropped packets") {
  NEEDS_NAMESPACES();
  NetNamespaces network(2);
  network.drop_packets(1, "10.77.0.77");
  const auto unresolved = join(network, "no-such-host.invalid", 29400);
  const auto refused = join(network, kHead, 29400);
  const auto filtered = join(network, "10.77.0.77", 29400);
  const auto no_route = join(network, "192.0.2.1", 29400);
  check_told(*unresolved, "the name cannot be resolved", "check the host name");
  check_told(*refused, "connection refused", "start the agent on that host");
  check_told(*filtered, "no answer (the host is down, or a firewall drops packets)",
             "check that the host is up, and the network and firewalls");
  check_told(*no_route, "network is unreachable", "check that the host is up");
}

TEST_CASE("I-1: another program at the endpoint is told by its kind") {
  NEEDS_NAMESPACES();
  NetNamespaces network(2);
  ChildProcess strangers(
      {.argv = {"python3", "-c", kStrangers}, .network_namespace = network.name(0)});
  REQUIRE(strangers.wait_for_out("ready"));
  // ddprun's store for its workers speaks PyTorch's protocol, and answers as PyTorch's does.
  const auto host = start({.options = {"--standalone"},
                           .program = shell("echo port=$MASTER_PORT; sleep 1000"),
                           .network_namespace = network.name(0)});
  ChildProcess& job = *host;
  REQUIRE(job.wait_for_out("port="));
  const int store_port = std::stoi(line_after(job.out(), "port="));
  const auto web = join(network, kHead, 9001, "8");
  const auto ssh = join(network, kHead, 9002);
  const auto store = join(network, kHead, store_port);
  const auto mute = join(network, kHead, 9005, "8");
  check_told(*ssh, "an SSH server listens there, and it does not speak ddprun's protocol",
             "choose a port that no other program uses");
  check_told(*store, "a PyTorch store (of a job under torchrun, or of a script that hosts its own)",
             "choose a port that no other program uses");
  for (ChildProcess* const slow : {web.get(), mute.get()}) {
    CHECK(slow->exit_code() == 1);
    INFO(slow->report());
    CHECK(line_after(slow->err(), "ddprun: ")
              .find(slow == web.get()
                        ? "a web server listens there"
                        : "something listens there but does not answer") != std::string::npos);
    CHECK(contains(slow->err(), "[ddprun] waiting for the coordinator at 10.77.0.1"));
  }
}

TEST_CASE("I-1: nodes of different versions name both versions, on both sides") {
  NEEDS_NAMESPACES();
  NetNamespaces network(2);
  ChildProcess strangers(
      {.argv = {"python3", "-c", kStrangers}, .network_namespace = network.name(0)});
  REQUIRE(strangers.wait_for_out("ready"));
  const auto ours = join(network, kHead, 9006);
  CHECK(ours->exit_code() == 1);
  INFO(ours->report());
  CHECK(contains(ours->err(),
                 "the coordinator speaks version 99 of the control protocol, but this agent "
                 "speaks version "));
  CHECK(contains(ours->err(), "install the same ddprun on all nodes"));
  CHECK(count_of(ours->err(), "\n") == 1);

  const auto host = start({.endpoint = std::string(kHead) + ":29400",
                           .options = {"--nnodes", "2", "--join-timeout", "60"},
                           .network_namespace = network.name(0)});
  REQUIRE(listens(std::string(kHead), 29400, network.name(0)));
  const Finished other = run(
      {.argv = shell("exec 3<>/dev/tcp/10.77.0.1/29400; printf 'DDPRUN\\x63\\x00' >&3; cat <&3"),
       .network_namespace = network.name(1)});
  CHECK(contains(other.out, "it speaks version 99 of the control protocol"));
  REQUIRE(host->wait_for_err("refused  -"));
  INFO(host->report());
  CHECK(contains(line_after(host->err(), "[ddprun]   refused  "), "10.77.0.2"));
  CHECK(contains(host->err(), "it speaks version 99 of the control protocol"));
  host->signal(SIGTERM);
}

TEST_CASE("I-2: a port that accepts and then resets, or closes, is said to do so") {
  NEEDS_NAMESPACES();
  NetNamespaces network(2);
  ChildProcess strangers(
      {.argv = {"python3", "-c", kStrangers}, .network_namespace = network.name(0)});
  REQUIRE(strangers.wait_for_out("ready"));
  const auto resets = join(network, kHead, 9003);
  const auto closes = join(network, kHead, 9004);
  check_told(*resets, "something accepts the connection and resets it without an answer",
             "choose a port that no other program uses");
  check_told(*closes, "something listens there but closes the connection without an answer",
             "choose a port that no other program uses");
}

TEST_CASE("I-1: each address of a name is told by itself, and the one that works is used") {
  NEEDS_NAMESPACES();
  NetNamespaces network(2);
  network.drop_packets(1, "10.77.0.77");
  const TempDir folder;
  const std::string hosts = folder.file("hosts");
  std::ofstream(hosts) << "127.0.0.1 localhost\n10.77.0.77 head\n10.77.0.1 head\n";
  const auto agent = start({.endpoint = "head:29400",
                            .options = {"--nnodes", "2", "--join-timeout", "60"},
                            .network_namespace = network.name(1),
                            .hosts_file = hosts});
  REQUIRE(agent->wait_for_err("waiting for the coordinator at head port 29400: 2 addresses"));
  REQUIRE(agent->wait_for_err("  10.77.0.1   connection refused, for "));
  CHECK(agent->wait_for_err("  10.77.0.77  no answer (the host is down"));
  const auto host = start({.endpoint = "10.77.0.1:29400",
                           .options = {"--nnodes", "2"},
                           .network_namespace = network.name(0)});
  CHECK(host->exit_code() == 0);
  CHECK(agent->exit_code() == 0);
}

}  // namespace ddprun::test
