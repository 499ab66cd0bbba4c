"""A job with a token (docs/job-token.md), through the built ddprun: who may join, vote and lead, and what
strangers can do. The protocol of the proof is spoken here with Python's own HMAC.
usage: job_token_test.py DDPRUN [TEST...]"""
import collections
import contextlib
import hashlib
import hmac
import os
import pathlib
import signal
import socket
import struct
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import namespaces  # noqa: E402
import skip  # noqa: E402
from endpoint_job import EndpointJob  # noqa: E402
from free_port import free_port  # noqa: E402
from program import Program, children_of, wait_until  # noqa: E402

DDPRUN = EndpointJob.ddprun = os.path.abspath(sys.argv[1])
MISSING = namespaces.missing()
TOKEN, OTHER = "0123456789abcdef-the-right-one", "0123456789abcdef-another-one"
REMEDY = "give every agent the same --job-token-file"
WAITS = ["sh", "-c", 'echo "rank $RANK attempt $TORCHELASTIC_RESTART_COUNT at '
         '$MASTER_ADDR:$MASTER_PORT with ${DDPRUN_JOB_TOKEN-none}"; until [ -e end ]; do sleep 0.02; done']


def preamble(of_proof=True):
    """Of this build: the version is read from a listener in the test."""
    return b"DDPRUN" + struct.pack("<H", Job.version | (0x8000 if of_proof else 0))


def proof(token, side, a, b, port, host="127.0.0.1"):
    return hmac.new(token.encode(), f"ddprun {side}".encode() + a + b + f"{host} {port}".encode(),
                    hashlib.sha256).digest()


def read(connection, size):
    """That many bytes, or fewer where it ends, however it does."""
    got = b""
    while len(got) < size:
        try:
            part = connection.recv(size - len(got))
        except ConnectionResetError:
            break
        if not part:
            break
        got += part
    return got


class Job(EndpointJob):
    version = None

    @classmethod
    def setUpClass(cls):
        """What an agent says first, to a listener that is none."""
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
            agent = Program(pathlib.Path(folder), "agent", [
                DDPRUN, "--nnodes", "2", "--rdzv-conf", "is_host=0", "--rdzv-endpoint",
                f"127.0.0.1:{listener.getsockname()[1]}", "true"])
            listener.settimeout(60)
            with listener.accept()[0] as connection:
                Job.version = struct.unpack("<H", read(connection, 8)[6:])[0]
            agent.end()

    def setUp(self):
        super().setUp()
        for name, token in (("token", TOKEN), ("other", OTHER)):
            (self.folder / name).write_text(token + "\n")
        os.mkfifo(self.folder / "pipe")

    def start(self, *words, token="token", program=WAITS, nnodes="2", host="127.0.0.1", runner=(), env=None):
        given = ["--job-token-file", self.folder / token] if token else []
        return self.start_agent(nnodes, "job", *given, *words, *program, host=host, runner=runner, env=env)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.addCleanup(connection.close)
        return connection

    def prove(self, token):
        """What is answered to a proof by this token, and the two nonces."""
        connection, a = self.connect(), os.urandom(32)
        connection.sendall(preamble() + a)
        self.assertEqual(read(connection, 8), preamble())
        b = read(connection, 32)
        connection.sendall(proof(token, "connects", a, b, self.port))
        return connection, a, b

    def test_only_agents_with_the_token_join(self):
        first = self.start()
        wait_until(lambda: is_listening(self.port), "the first agent")
        for token, why, remedy in (
                (None, "the job has a token, and this agent was started without one", REMEDY),
                ("other", "its token is not the job's, or a proxy or address translation stands in between",
                 f"{REMEDY}, and endpoints that are agents' own addresses")):
            stranger = self.start(token=token)
            self.assertEqual(stranger.wait(), 1)
            self.assertEqual(stranger.err, f"ddprun: 127.0.0.1 port {self.port}: the coordinator rejected this "
                             f"node: {why}; {remedy}\n")
            self.assertIn(f"[ddprun] refused a connection from 127.0.0.1: {why}\n", first.err)
        # By the variable as by the file; and workers see neither.
        second = self.start(token=None, env={"DDPRUN_JOB_TOKEN": TOKEN})
        self.wait_for_workers([first, second])
        for agent in (first, second):
            self.assertIn(" with none\n", agent.out)
        self.end_well([first, second])

    def test_an_agent_with_a_token_joins_no_job_without_one(self):
        first = self.start(token=None)
        wait_until(lambda: is_listening(self.port), "the first agent")
        stranger = self.start()
        self.assertEqual(stranger.wait(), 1)
        self.assertIn(f"it has a job token, and the job has none; {REMEDY}, or none\n", stranger.err)
        second = self.start(token=None)
        self.wait_for_workers([first, second])
        self.end_well([first, second])

    def test_the_proof_is_an_hmac_of_both_sides_random_bytes(self):
        agents = [self.start(), self.start()]
        self.wait_for_workers(agents)
        connection, a, b = self.prove(TOKEN)
        self.assertEqual(read(connection, 40), preamble() + proof(TOKEN, "accepts", a, b, self.port))
        # What was proved once proves nothing on another connection.
        again = self.connect()
        again.sendall(preamble() + a)
        self.assertNotEqual(read(again, 40)[8:], b)
        again.sendall(proof(TOKEN, "connects", a, b, self.port))
        refusal = read(again, 4096)
        self.assertTrue(refusal.startswith(preamble(of_proof=False)), refusal)
        self.assertIn(b"its token is not the job's", refusal)
        # Nor is the agent's own proof good for who connects.
        mirrored, a, b = self.connect(), os.urandom(32), None
        mirrored.sendall(preamble() + a)
        b = read(mirrored, 40)[8:]
        mirrored.sendall(proof(TOKEN, "accepts", a, b, self.port))
        self.assertIn(b"its token is not the job's", read(mirrored, 4096))
        # Nor one for another place: as of an agent that came to a relay there.
        relayed, a = self.connect(), os.urandom(32)
        relayed.sendall(preamble() + a)
        b = read(relayed, 40)[8:]
        relayed.sendall(proof(TOKEN, "connects", a, b, self.port + 1))
        self.assertIn(b"its token is not the job's", read(relayed, 4096))
        self.end_well(agents)

    def test_who_listens_without_the_token_gets_no_hello(self):
        listener = socket.create_server(("127.0.0.1", self.port))
        self.addCleanup(listener.close)
        listener.settimeout(60)
        agent = self.start("--rdzv-conf", "is_host=0")
        with listener.accept()[0] as connection:
            connection.settimeout(60)
            opening = read(connection, 40)
            self.assertEqual(opening[:8], preamble())
            b = os.urandom(32)
            connection.sendall(preamble() + b)
            self.assertEqual(read(connection, 32), proof(TOKEN, "connects", opening[8:], b, self.port))
            connection.sendall(preamble() + proof(OTHER, "accepts", opening[8:], b, self.port))
            self.assertEqual(read(connection, 1), b"")  # it closed, and said no word more
        self.assertEqual(agent.wait(), 1)
        self.assertIn("who listens there does not have the job's token", agent.err)

    def test_who_answers_without_a_proof_leads_nobody(self):
        """It passes on what a coordinator without a token has said to an agent without one."""
        self.start(token=None)
        wait_until(lambda: is_listening(self.port), "the coordinator without a token")
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        listener.settimeout(60)
        words = ["--rdzv-conf", "is_host=0", "--rdzv-endpoint", f"127.0.0.1:{listener.getsockname()[1]}"]
        dupe = self.start(*words, token=None)
        with listener.accept()[0] as connection:
            hello = read(connection, 12)  # the preamble, and how long the frame is
            hello += read(connection, int.from_bytes(hello[8:], "little"))
            self.assertEqual(hello[:8], preamble(of_proof=False))
            coordinator = self.connect()
            coordinator.sendall(hello)
            accepted = read(coordinator, 12)
            accepted += read(coordinator, int.from_bytes(accepted[8:], "little"))
            self.assertEqual((accepted[:8], accepted[12]), (preamble(of_proof=False), 8))
        dupe.end()
        agent = self.start(*words)
        proved = False
        while not proved:  # it may have come again meanwhile
            with listener.accept()[0] as connection:
                connection.settimeout(60)
                if proved := read(connection, 40)[:8] == preamble():
                    connection.sendall(accepted)
                    self.assertEqual(read(connection, 1), b"")
        self.assertEqual(agent.wait(), 1, agent)
        self.assertIn("who listens there does not have the job's token", agent.err)

    def test_the_coordinators_agent_dies_and_the_others_elect_by_proof(self):
        """Votes and calls go over connections of their own, to ports where each agent listens."""
        port = free_port()
        endpoints = ["--rdzv-endpoint", f"127.0.0.1:{self.port},127.0.0.1:{port}", "--max-restarts", "3",
                     "--heartbeat-timeout", "2", "--scale-up", "now"]
        agents = [self.start(*endpoints, nnodes="2:3")]
        wait_until(lambda: is_listening(self.port), "the first agent")
        agents += [self.start(*endpoints, nnodes="2:3") for _ in range(2)]
        self.wait_for_workers(agents)
        # The guardian's child is the agent.
        os.kill(children_of(agents[0].pid)[0], signal.SIGKILL)
        self.wait_for_workers(agents[1:], starts=2)
        again = self.start(*endpoints, nnodes="2:3")
        stranger = self.start(*endpoints, nnodes="2:3", token="other")
        self.wait_for_workers([again])
        self.wait_for_workers(agents[1:], starts=3)
        self.assertEqual(stranger.wait(), 1)
        self.assertIn("its token is not the job's", stranger.err)
        self.end_well([*agents[1:], again])

    def test_ten_thousand_hostile_connections_change_nothing(self):
        agents = [self.start("--heartbeat-timeout", "2"), self.start("--heartbeat-timeout", "2")]
        self.wait_for_workers(agents)
        held = collections.deque()  # the silent ones stay
        words = [b"", preamble()[:5], os.urandom(64), preamble(of_proof=False) + bytes(64),
                 preamble() + bytes(64), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)]
        for number in range(10_000):
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
            held.append(connection)
            with contextlib.suppress(ConnectionError):  # it was the oldest, and made room already
                connection.sendall(words[number % len(words)])
            if len(held) > 500:
                held.popleft().close()
        # All that is asked for while some of them are still open.
        self.assertEqual(self.prove(TOKEN)[0].recv(8), preamble())
        for connection in held:
            connection.close()
        self.end_well(agents)
        for agent in agents:
            self.assertEqual(agent.out.count("attempt"), 1, agent)
            self.assertNotIn("lost", agent.err)
            # Each complaint once for the address.
            self.assertLessEqual(agent.err.count("\n"), 6, agent)

    def test_what_is_no_token_is_told_in_a_sentence(self):
        (self.folder / "short").write_text("0123456789abcde\n")
        (self.folder / "empty").write_text("\n")
        (self.folder / "long").write_text("x" * 4097)
        (self.folder / "directory").mkdir()
        for name, why in (("short", "the job's token has 15 bytes, and needs 16 to 4096"),
                          ("empty", "the job's token is empty"),
                          ("long", "the job's token has 4097 bytes, and needs 16 to 4096"),
                          ("directory", "no job's token can be read there: it is a directory"),
                          ("absent", "no job's token can be read there: No such file or directory"),
                          ("pipe", "no job's token can be read there: it is no regular file")):
            agent = self.start(token=name)
            self.assertEqual(agent.wait(), 1)
            self.assertRegex(agent.err, f"^ddprun: --job-token-file '{self.folder}/{name}': {why}; [^\n]*\n$")

    def test_the_store_serves_the_jobs_nodes_alone(self):
        if MISSING:
            skip.need(MISSING[0], False, MISSING[1])
        network = namespaces.Nodes(3, self.folder)
        self.addCleanup(network.close)

        def on(node):
            return ["ip", "netns", "exec", f"node{node}"]
        # The nodes meet in one network, and their workers in another (--local-addr).
        for node in range(3):
            namespaces.in_node(node, f"addr add 10.88.0.{node + 1}/24 dev eth0")
        agents = [self.start("--local-addr", f"10.88.0.{node + 1}", host=network.address(0), runner=on(node))
                  for node in range(2)]
        self.wait_for_workers(agents)
        place = agents[0].out.split(" at ")[1].split()[0].rpartition(":")
        # A validation of PyTorch's protocol, then a question that every store answers.
        ask = ("import socket,sys\n"
               f"s=socket.create_connection(('{place[0]}',{place[2]}),timeout=30)\n"
               r"s.sendall(b'\x00\xce\xf7\x85\x3c' + b'\x0d\x2a\x00\x00\x00')" "\n"
               "print(len(s.recv(4)))\n")
        for node, bytes_back in ((0, "4"), (1, "4"), (2, "0")):
            asker = Program(self.folder, f"asker{node}", [*on(node), sys.executable, "-c", ask])
            code = asker.wait(60)
            answered = asker.out.strip() if code == 0 else "0"  # closed by a reset
            self.assertEqual(answered, bytes_back, asker)
        wait_until(lambda: "refused a client of the store from 10.88.0.3: no node of the job came from "
                   "there\n" in agents[0].err + agents[1].err, "the refusal")
        self.end_well(agents)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    if not MISSING:
        namespaces.inside()
    del sys.argv[1]
    skip.main()
