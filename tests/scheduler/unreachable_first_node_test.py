"""A job of two nodes under PBS or Slurm whose nodes do not reach each other as the user thinks: each agent says
within five seconds what was tried and what happened there, the first one who is missing; and where there
is a way, they find it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import namespaces  # noqa: E402
import skip  # noqa: E402
from program import wait_until  # noqa: E402

DDPRUN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin")) / "ddprun"
MISSING = namespaces.missing()
BOUND_S = 5.0  # from the start of the first agent to the reasons on both nodes
PORT = 25422  # of PBS job 15422, and of Slurm job 5422 in its step 0
# Goes through the store's port, as PyTorch's workers do.
PROGRAM = ["bash", "-c", 'exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo "rank $RANK met at $MASTER_ADDR"']
# A name server of one name, node0.dns.
NAME_SERVER = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.77.0.3", 53))
while True:
    query, asker = server.recvfrom(512)
    end = query.index(b"\\0", 12) + 5
    is_ipv4 = query[end - 4:end - 2] == b"\\0\\1"
    answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4" + bytes([10, 77, 0, 1])
    server.sendto(query[:2] + b"\\x81\\x80\\0\\1\\0" + bytes([is_ipv4]) + bytes(4) + query[12:end] +
                  answer * is_ipv4, asker)
"""
NO_ANSWER = "no answer (the host is down, or a firewall drops packets)"


def setUpModule():
    if MISSING:
        skip.need(MISSING[0], False, MISSING[1])


class UnreachableFirstNode(unittest.TestCase):
    """node0 and node1 are on two networks: 10.77.0.0/24 (eth0) and, with connect(), 10.78.0.0/24 (hsn0). A third
    machine may answer in the place of node0."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-unreachable-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.nodes = namespaces.Nodes(3, self.folder)
        self.addCleanup(self.nodes.close)
        self.agents, self.hosts = {}, self.folder / "hosts"
        self.resolve("10.77.0.1")
        subprocess.run(["mount", "--bind", self.hosts, "/etc/hosts"], check=True)
        self.addCleanup(subprocess.run, ["umount", "/etc/hosts"], check=True)
        (self.folder / "nodefile").write_text("node0.site\nnode0.site\nnode1.site\n")

    def resolve(self, *addresses):
        """These are what the first node's name means."""
        self.hosts.write_text("127.0.0.1 localhost\n10.77.0.2 node1.site node1\n" +
                              "".join(f"{address} node0.site node0\n" for address in addresses))

    def connect(self):
        namespaces.ip("link add name bridge1 type bridge", "link set bridge1 up")
        self.addCleanup(namespaces.ip, "link del bridge1")
        for node in range(2):
            namespaces.ip(f"link add name second{node} type veth peer name hsn0 netns node{node}",
                          f"link set second{node} master bridge1 up")
            # At once: what is left to the end of the node's namespace goes some time after it.
            self.addCleanup(namespaces.ip, f"link del second{node}")
            namespaces.in_node(node, f"addr add 10.78.0.{node + 1}/24 dev hsn0", "link set hsn0 up")

    def filter_port(self, action):
        """What comes to the port of the job at node0 meets this kind of routing rule."""
        path = "/proc/sys/net/ipv4/ip_forward"  # a host that does not forward sends no such refusals
        subprocess.run(["ip", "netns", "exec", "node0", "sh", "-c", f"echo 1 >{path}"], check=True)
        namespaces.in_node(0, "rule add pref 100 lookup local", "rule del pref 0",
                           *(f"rule add pref 10 iif eth0 ipproto {kind} dport {PORT} {action}"
                             for kind in ("tcp", "udp")))

    # ---- the agents ----------------------------------------------------------------------------

    def pbs(self, node):
        return {"PBS_JOBID": "15422.login", "PBS_NODEFILE": str(self.folder / "nodefile"), "PBS_NODENUM": str(node),
                "PBS_TASKNUM": str(node + 2)}

    @staticmethod
    def slurm(node):
        return {"SLURM_JOB_ID": "5422", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(node),
                "SLURM_STEP_NODELIST": "node[0-1]", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": str(node),
                "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}

    def start(self, scheduler, options=((), ()), nodes=(0, 1), environment=None):
        self.begun = time.monotonic()
        for node in nodes:
            with open(self.folder / f"out{node}", "wb") as out, open(self.folder / f"err{node}", "wb") as err:
                self.agents[node] = self.nodes.start(node, [DDPRUN, *options[node], *PROGRAM],
                                                     dict(scheduler(node), **(environment or {})), out, err)
        self.addCleanup(self.end)

    def end(self):
        for agent in self.agents.values():
            agent.kill()
            agent.wait()

    def text(self, node, stream="err"):
        return (self.folder / f"{stream}{node}").read_text()

    def assertSaid(self, node, *texts):
        """Within the bound, in lines that a user sees."""
        def all_texts():
            return all(text in self.text(node) for text in texts)
        wait_until(all_texts, lambda: f"{texts} on node{node}, but\n{self.text(node)}",
                   max(BOUND_S - (time.monotonic() - self.begun), 0))
        print(f"{self.id().rpartition('.')[2]}: node{node} said so after "
              f"{time.monotonic() - self.begun:.2f} s")

    def assertMissing(self, variable="PBS_NODEFILE", networks="10.77.0.1 (eth0)"):
        self.assertSaid(0, "1 of 2 nodes here, waiting for 1 more", f"missing  node1 ({variable})",
                        f"no other node has connected to port {PORT} of {networks} yet; start ddprun on the "
                        "missing nodes too, and let the network pass TCP to that port")

    def assertWaits(self, what, todo, host="node0.site"):
        self.assertSaid(1, f"waiting for the coordinator at {host} (10.77.0.1) port {PORT}: {what}", todo,
                        "this node is at 10.77.0.2 (eth0)")

    def assertTrained(self, address):
        for node, agent in self.agents.items():
            left = max(BOUND_S - (time.monotonic() - self.begun), 0.01)
            self.assertEqual(agent.wait(left), 0, self.text(node))
            self.assertEqual(self.text(node, "out"), f"rank {node} met at {address}\n", self.text(node))

    # ---- no way --------------------------------------------------------------------------------

    def test_packets_to_the_first_node_are_lost(self):
        self.nodes.cut(0)
        self.start(self.pbs)
        self.assertWaits(NO_ANSWER, "check that the host is up, and the network and firewalls")
        self.assertMissing()

    def test_there_is_no_route_to_the_first_node(self):
        namespaces.in_node(1, "route add unreachable 10.77.0.1/32")
        self.start(self.slurm)
        self.assertWaits("no route to host", "check that the host is up", host="node0")
        self.assertMissing("SLURM_STEP_NODELIST")

    def test_a_firewall_drops_what_comes_to_the_port(self):
        self.filter_port("blackhole")
        self.start(self.pbs)
        self.assertWaits(NO_ANSWER, "check that the host is up, and the network and firewalls")
        self.assertMissing()

    def test_a_firewall_refuses_what_comes_to_the_port(self):
        self.filter_port("prohibit")
        self.start(self.pbs)
        self.assertWaits("no route to host", "check that the host is up, and the network and firewalls")
        self.assertMissing()

    def test_a_firewall_resets_what_comes_to_the_port(self):
        # node1 sends to the link address of another machine, which has the address, too, and closed ports.
        namespaces.in_node(2, "addr add 10.77.0.1/32 dev lo")
        namespaces.in_node(1, "neigh replace 10.77.0.1 lladdr 02:77:00:00:00:02 dev eth0 nud permanent")
        self.start(self.pbs)
        self.assertWaits("connection refused", "start the agent on that host")
        self.assertMissing()

    def test_only_the_first_node_was_started(self):
        # The script of a PBS job runs on its first node alone.
        script = dict(self.pbs(0), PBS_TASKNUM="1")
        self.start(lambda node: script, [["--nnodes", "2", "--rdzv-endpoint", f"10.77.0.1:{PORT}"]], nodes=[0])
        self.assertMissing()

    def test_the_first_of_two_name_servers_does_not_answer(self):
        namespaces.in_node(1, f"neigh replace 10.77.0.9 lladdr {namespaces.NOWHERE} dev eth0 nud permanent")
        (self.folder / "resolv.conf").write_text("nameserver 10.77.0.9\nnameserver 10.77.0.3\n")
        (self.folder / "nsswitch.conf").write_text("hosts: files dns\n")
        for name in ("resolv.conf", "nsswitch.conf"):
            subprocess.run(["mount", "--bind", self.folder / name, f"/etc/{name}"], check=True)
            self.addCleanup(subprocess.run, ["umount", f"/etc/{name}"], check=True)
        server = self.nodes.start(2, [sys.executable, "-c", NAME_SERVER], {}, subprocess.DEVNULL, None)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        job = ["--nnodes", "2", "--rdzv-id", "7", "--rdzv-endpoint"]
        self.start(lambda node: {}, [[*job, f"10.77.0.1:{PORT}"], [*job, f"node0.dns:{PORT}"]])
        self.assertSaid(1, f"waiting for the coordinator at node0.dns port {PORT}: the name cannot be resolved "
                        "(the name service does not answer)")
        # The system asks the second one after five seconds.
        for agent in self.agents.values():
            self.assertEqual(agent.wait(30), 0, self.text(1))

    # ---- a way that was not named --------------------------------------------------------------

    def test_the_name_means_an_address_of_a_network_that_is_cut(self):
        self.connect()
        self.nodes.cut(0)
        for token in ({}, {"DDPRUN_JOB_TOKEN": "a secret of sixteen bytes"}):
            with self.subTest(token=token):
                self.start(self.pbs, environment=token)
                self.assertSaid(1, f"node0.site (10.77.0.1) port {PORT}: {NO_ANSWER}; its host answers at 10.78.0.1, "
                                   "on a network of this node: trying there")
                self.assertTrained("10.78.0.1")

    def test_a_host_without_the_token_is_not_found(self):
        self.connect()
        self.nodes.cut(0)
        self.start(lambda node: dict(self.pbs(node), **{"DDPRUN_JOB_TOKEN": "another secret of it"} if node else {}))
        self.assertWaits(NO_ANSWER, "check that the host is up")
        self.assertMissing(networks="10.77.0.1 (eth0) and 10.78.0.1 (hsn0)")

    def test_the_name_has_a_second_address(self):
        self.connect()
        self.nodes.cut(0)
        self.resolve("10.77.0.1", "10.78.0.1")
        self.start(self.slurm)
        self.assertTrained("10.78.0.1")

    def test_the_first_node_has_a_local_addr_that_others_do_not_reach(self):
        self.connect()
        self.nodes.cut(0)
        self.resolve("10.78.0.1")
        self.start(self.pbs, [["--local-addr", "10.77.0.1"], []])
        self.assertSaid(1, "workers here cannot reach 10.77.0.1 port ", "the --local-addr of the coordinator's node "
                        "(no answer); they meet at 10.78.0.1 instead, by which that node was reached")
        self.assertEqual(self.agents[1].wait(BOUND_S), 0, self.text(1))
        self.assertEqual(self.text(1, "out"), "rank 1 met at 10.78.0.1\n")

    def test_a_local_addr_that_is_nobodys(self):
        self.start(self.pbs, [["--local-addr", "10.79.0.1"], []])
        for node in range(2):
            self.assertSaid(node, "workers here cannot reach 10.79.0.1 port ", "; they meet at 10.77.0.1 instead")
        self.assertTrained("10.77.0.1")


if __name__ == "__main__":
    if not MISSING:
        namespaces.inside()
    skip.main()
