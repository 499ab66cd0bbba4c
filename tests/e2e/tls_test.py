"""A job whose agents speak TLS with each other (docs/tls.md), through the built ddprun: who may join, what
both sides are told, what can be seen on the way, and what strangers can do.
usage: tls_test.py DDPRUN [TEST...]"""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from certificates import Authority  # noqa: E402
from endpoint_job import EndpointJob  # noqa: E402
from free_port import free_port  # noqa: E402
from program import Program, children_of, wait_until  # noqa: E402
from tcp_relay import TcpRelay  # noqa: E402

DDPRUN = EndpointJob.ddprun = os.path.abspath(sys.argv[1])
TOKEN = "0123456789abcdef-the-right-one"
JOB_ID = "a-name-that-nobody-else-is-to-read"
WAITS = ["sh", "-c", 'echo "rank $RANK of $WORLD_SIZE attempt $TORCHELASTIC_RESTART_COUNT"; '
         'until [ -e end ]; do [ -e fail$RANK ] && rm fail$RANK && exit 3; sleep 0.02; done']
REMEDY = "give every agent a valid certificate of one authority (--tls-ca, --tls-cert, --tls-key)"
WITHIN = 5  # seconds, for a refusal


class Job(EndpointJob):
    def setUp(self):
        skip.need("program", shutil.which("openssl"), "there is no openssl")
        super().setUp()
        self.authority = Authority(self.folder)
        self.node = self.authority.issue("node")
        (self.folder / "token").write_text(TOKEN + "\n")

    def certified(self, ca=None, pair=None):
        certificate, key = pair or self.node
        return ["--tls-ca", ca or self.authority.certificate, "--tls-cert", certificate, "--tls-key", key]

    def start(self, *words, tls=True, program=WAITS, nnodes="2", env=None):
        return self.start_agent(nnodes, JOB_ID, *(self.certified() if tls else []), *words, *program, env=env)

    def listening(self, *words, **how):
        agent = self.start(*words, **how)
        wait_until(lambda: is_listening(self.port), "the first agent")
        return agent

    def refused(self, first, stranger, why_here, why_there):
        """The stranger ends with its sentence in time, and the first agent says its own, once."""
        began = time.monotonic()
        self.assertEqual(stranger.wait(), 1, stranger)
        self.assertLess(time.monotonic() - began, WITHIN)
        self.assertRegex(stranger.err, f"^ddprun: 127.0.0.1 port {self.port}: the coordinator rejected this node: "
                         f"[^\n]*{why_here}[^\n]*; [^\n]*\n$")
        line = f"[ddprun] refused a connection from 127.0.0.1: {why_there}"
        wait_until(lambda: line in first.err, lambda: first, WITHIN)
        self.assertEqual(first.err.count(line), 1)

    def test_two_agents_run_and_a_failed_worker_restarts(self):
        agents = [self.start("--max-restarts", "1") for _ in range(2)]
        self.wait_for_workers(agents)
        (self.folder / "fail1").touch()
        self.wait_for_workers(agents, starts=2)
        self.end_well(agents)
        for agent in agents:
            self.assertNotIn("can join this job", agent.err)

    def test_variables_name_the_files_as_well(self):
        names = dict(zip(("DDPRUN_TLS_CA", "DDPRUN_TLS_CERT", "DDPRUN_TLS_KEY"),
                         map(str, (self.authority.certificate, *self.node))))
        agents = [self.start(tls=False, env=names), self.start()]
        self.wait_for_workers(agents)
        self.end_well(agents)

    def test_the_coordinators_agent_dies_and_another_takes_over(self):
        """Votes and calls go over connections of their own, to ports where each agent listens."""
        token = ["--job-token-file", "token"]
        endpoints = ["--rdzv-endpoint", f"127.0.0.1:{self.port},127.0.0.1:{free_port()}", "--max-restarts", "3",
                     "--heartbeat-timeout", "2", "--scale-up", "now", *token]
        agents = [self.listening(*endpoints, nnodes="2:3")]
        agents += [self.start(*endpoints, nnodes="2:3") for _ in range(2)]
        self.wait_for_workers(agents)
        os.kill(children_of(agents[0].pid)[0], signal.SIGKILL)  # the guardian's child is the agent
        self.wait_for_workers(agents[1:], starts=2)
        again = self.start(*endpoints, nnodes="2:3")
        plain = self.start(*endpoints, nnodes="2:3", tls=False)
        self.wait_for_workers([again])
        self.wait_for_workers(agents[1:], starts=3)
        self.assertEqual(plain.wait(), 1)
        self.assertIn("the job has TLS, and this agent was started without it", plain.err)
        self.end_well([*agents[1:], again])

    def test_who_has_no_valid_certificate_is_refused_and_both_sides_say_why(self):
        first = self.listening()
        other = Authority(self.folder, "other")
        alien = other.issue("alien")
        authority = self.authority
        both = self.folder / "both.pem"
        both.write_text(authority.certificate.read_text() + other.certificate.read_text())
        for words, why_here, why_there in (
                (self.certified(other.certificate, alien), "its certificate is not trusted: self-signed certificate",
                 "it does not trust this agent's certificate: unknown ca"),
                (self.certified(both, alien), "it does not trust this agent's certificate: unknown ca",
                 "its certificate is not trusted: self-signed certificate in certificate chain"),
                (self.certified(pair=authority.issue_for("early", "20490101000000Z", "20491231000000Z")),
                 "it does not trust this agent's certificate: bad certificate",
                 "its certificate is not trusted: certificate is not yet valid")):
            self.refused(first, self.start(*words, tls=False), why_here, why_there)
            self.assertIn(REMEDY, self.agents[-1].err)
        for words in ([], ["--job-token-file", "token"]):
            stranger = self.start(*words, tls=False)
            self.refused(first, stranger, "the job has TLS, and this agent was started without it",
                         "the job has TLS, and this agent was started without it")
        second = self.start()
        self.wait_for_workers([first, second])
        self.end_well([first, second])
        self.assertNotIn("lost", first.err)

    def test_an_agent_with_certificates_joins_no_job_without(self):
        for token in ([], ["--job-token-file", "token"]):
            (self.folder / "end").unlink(missing_ok=True)
            self.port = free_port()
            first = self.listening(*token, tls=False)
            why = "it has TLS, and the job has none"
            stranger = self.start("--rdzv-conf", "is_host=0", "--join-timeout", "3")
            self.assertEqual(stranger.wait(), 1, stranger)
            self.assertRegex(stranger.err, f"who listens there answers in plain text, [^\n]*it says: {why}[^\n]*; "
                             "[^\n]*--tls-ca[^\n]*\n$")
            line = f"[ddprun] refused a connection from 127.0.0.1: {why}"
            wait_until(lambda: line in first.err, lambda: first, WITHIN)
            self.assertEqual(first.err.count(line), 1)
            second = self.start(*token, tls=False)
            self.wait_for_workers([first, second])
            self.end_well([first, second])

    def test_what_is_said_in_plain_text_ends_no_agent_that_has_tls(self):
        """Here the stranger is an agent of a job without TLS, so its refusal is a real one."""
        stranger = self.listening(tls=False)
        agent = self.start("--rdzv-conf", "is_host=0")
        wait_until(lambda: "answers in plain text" in agent.err, lambda: agent)
        self.assertIsNone(agent.process.poll())
        stranger.end()
        agents = [self.start(), agent]
        self.wait_for_workers(agents)
        self.end_well(agents)
        self.assertEqual(agent.err.count("answers in plain text"), 1, agent)

    def test_who_was_reset_before_it_is_answered_is_named_by_its_address(self):
        first = self.listening()
        agent = children_of(first.pid)[0]
        os.kill(agent, signal.SIGSTOP)
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as guest:
            guest.sendall(b"GET / HTTP/1.1\r\n\r\n")
            guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.kill(agent, signal.SIGCONT)
        wait_until(lambda: "closed a connection from" in first.err, lambda: first)
        self.assertIn("closed a connection from 127.0.0.1 that does not speak", first.err)
        self.end_well([first, self.start()])

    def test_new_keys_hold_no_connection(self):
        """A member of the job that says nothing but KeyUpdate (RFC 8446, 4.6.3), by OpenSSL's program: at once, and
        behind its preamble."""
        first = self.listening()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as guest:
            guest.sendall(b"DDPRUN\1\0")  # who has no TLS is answered in plain text
            preamble = guest.recv(8, socket.MSG_WAITALL)
        for words in (b"", preamble):
            self.only_new_keys(first, words)
        self.end_well([first, self.start()])

    def only_new_keys(self, first, words):
        certificate, key = self.node
        client = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", "-cert", certificate,
                                   "-key", key, "-CAfile", self.authority.certificate], stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(client.communicate)  # it closes the pipe, also a broken one
        self.addCleanup(client.kill)

        to_say = [words] if words else []

        def renewed():
            with contextlib.suppress(BrokenPipeError):
                client.stdin.write(to_say.pop() if to_say else b"k\n")
                client.stdin.flush()
            return client.poll() is not None
        wait_until(renewed, lambda: first, seconds=20, every=0.5)

    def test_the_token_is_proved_inside_of_tls(self):
        first = self.listening("--job-token-file", "token")
        why = "the job has a token, and this agent was started without one"
        self.refused(first, self.start(), why, why)
        second = self.start("--job-token-file", "token")
        self.wait_for_workers([first, second])
        self.end_well([first, second])

    def test_ddpctl_on_another_machine_shows_a_certificate(self):
        for token in ([], ["--job-token-file", "token"]):
            (self.folder / "end").unlink(missing_ok=True)
            self.port = free_port()
            agents = [self.start(*token) for _ in range(2)]
            self.wait_for_workers(agents)
            alien = Authority(self.folder, "other").issue("alien")
            at = ["--at", f"127.0.0.1:{self.port}"]
            done = self.ddpctl(*at, *token, *self.certified(), "status", "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(json.loads(done.stdout)["job_id"], JOB_ID)
            with_token = ["--job-token-file", "token"]
            for words, why in (
                    ([*with_token], "the agent refuses: the job has TLS, and this agent was started without it"),
                    ([], "asks for the job's token or its certificates; give --job-token-file FILE or DDPRUN_JOB_TOKEN "
                     "where the job has a token, and --tls-ca, --tls-cert and --tls-key where it has TLS"),
                    ([*token, *self.certified(pair=alien)], "the agent there does not trust ddpctl's certificate: unknown ca"),
                    ([*with_token, "--tls-ca", self.authority.certificate], "--tls-ca: TLS needs --tls-cert"),
                    (self.certified(), "it ended the connection without an answer; give --job-token-file where the "
                     "job has a token; else ask the coordinator") if token else
                    ([*with_token, *self.certified()], "the agent refuses: it has a job token")):
                done = self.ddpctl(*at, *words, "status")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, f"^ddpctl: [^\n]*{re.escape(why)}[^\n]*\n$")
            self.end_well(agents)

    def test_ddpctl_with_certificates_learns_that_a_job_has_no_tls(self):
        agents = [self.start("--job-token-file", "token", tls=False) for _ in range(2)]
        self.wait_for_workers(agents)
        done = self.ddpctl("--at", f"127.0.0.1:{self.port}", "--job-token-file", "token", *self.certified(), "status")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the agent refuses: it has TLS, and the job has none; leave --tls-ca", done.stderr)
        self.end_well(agents)

    def ddpctl(self, *words):
        return subprocess.run([pathlib.Path(DDPRUN).parent / "ddpctl", *words], cwd=self.folder, capture_output=True,
                              text=True, timeout=60)

    def test_what_passes_on_the_way_says_nothing_of_the_job(self):
        for tls in (False, True):
            (self.folder / "end").unlink(missing_ok=True)
            self.port = free_port()
            first = self.listening(tls=tls)
            relay = TcpRelay(self.port)
            self.addCleanup(relay.cut)
            second = self.start("--rdzv-conf", "is_host=0", "--rdzv-endpoint", f"127.0.0.1:{relay.port}", tls=tls)
            self.wait_for_workers([first, second])
            self.end_well([first, second])
            self.assertGreater(len(relay.carried), 500)
            # Without TLS it is there to be read: so this test would see it.
            self.assertEqual(JOB_ID.encode() in relay.carried, not tls)
            self.assertEqual(b"DDPRUN" in relay.carried, not tls)

    def test_certificates_are_replaced_while_the_job_runs(self):
        agents = [self.start("--scale-up", "now", nnodes="2:3") for _ in range(2)]
        self.wait_for_workers(agents)
        old = self.folder / "old"
        old.mkdir()
        for file in (self.authority.certificate, *self.node):
            shutil.copy(file, old)
        self.authority = Authority(self.folder)  # in the same files
        self.node = self.authority.issue("node")
        late = self.start(*self.certified(old / self.authority.certificate.name,
                                          (old / self.node[0].name, old / self.node[1].name)), tls=False, nnodes="2:3")
        self.assertEqual(late.wait(), 1, late)
        self.assertIn("its certificate is not trusted", late.err)
        third = self.start("--scale-up", "now", nnodes="2:3")
        self.wait_for_workers([third])
        self.wait_for_workers(agents, starts=2)
        self.end_well([*agents, third])

    def test_the_store_at_the_same_port_stays_plain(self):
        port = str(self.port)
        agents = [Program(self.folder, f"static{rank}", [
            DDPRUN, "--nnodes", "2", "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port,
            *self.certified(), *WAITS], cwd=self.folder) for rank in range(2)]
        for agent in agents:
            self.addCleanup(agent.end)
        self.wait_for_workers(agents)
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.sendall(b"\x00\xce\xf7\x85\x3c" + b"\x0d\x2a\x00\x00\x00")  # VALIDATE, PING of PyTorch's protocol
            self.assertEqual(client.recv(4), b"\x2a\x00\x00\x00")
        self.end_well(agents)

    def test_ten_thousand_hostile_connections_change_nothing(self):
        agents = [self.start("--heartbeat-timeout", "2") for _ in range(2)]
        self.wait_for_workers(agents)
        hello = client_hello()
        record = b"\x16\x03\x01\x00\x40"
        words = [b"", hello[:len(hello) // 2], hello, record + os.urandom(64), os.urandom(64), b"DDPRUN", hello + record,
                 b"\x15\x03\x03\x00\x02\x02\x28", hello + os.urandom(300)]
        held = collections.deque()  # the silent ones stay
        began = time.monotonic()
        for number in range(10_000):
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
            held.append(connection)
            with contextlib.suppress(ConnectionError):  # it was the oldest, and made room already
                connection.sendall(words[number % len(words)])
            if len(held) > 500:
                held.popleft().close()
        print(f"10,000 connections in {time.monotonic() - began:.1f} s, resident at the end: "
              f"{resident_kib(children_of(agents[0].pid)[0])} and {resident_kib(children_of(agents[1].pid)[0])} KiB")
        # An agent is answered while some of them are still open. Where it waits for too long behind them it
        # is closed with them, and tries again, as agents do.
        context = self.authority.client(*self.node)

        def answered():
            with contextlib.suppress(OSError):
                with context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=30)) as member:
                    return member.version()
        self.assertEqual(wait_until(answered, lambda: agents), "TLSv1.3")
        for connection in held:
            connection.close()
        self.end_well(agents)
        for agent in agents:
            self.assertEqual(agent.out.count("attempt"), 1, agent)
            self.assertNotIn("lost", agent.err)
            # Each complaint once for the address.
            self.assertLessEqual(agent.err.count("\n"), 12, agent)

    def test_a_certificate_that_no_peer_would_take_is_told_before_anything_begins(self):
        authority = self.authority
        alien = Authority(self.folder, "other").issue("alien")
        late = authority.issue_for("late", "20200101000000Z", "20210101000000Z")
        authority.purposes = "clientAuth"
        client = authority.issue("client")
        authority.purposes = "serverAuth"
        server = authority.issue("server")
        for pair, why in (
                (alien, f"is not signed by an authority in {authority.certificate}; give a certificate of that"),
                (late, "has expired, .*; give a certificate that is valid now"),
                (client, "is not for the purpose serverAuth .*; give a certificate for both serverAuth and clientAuth"),
                (server, "is not for the purpose clientAuth .*; give a certificate for both serverAuth and clientAuth")):
            agent = self.start(*self.certified(pair=pair), tls=False)
            self.assertEqual(agent.wait(), 1, agent)
            self.assertRegex(agent.err, f"^ddprun: {pair[0]}: {why}[^\n]*\n$")
            self.assertFalse(is_listening(self.port))

    def test_what_is_wrong_with_the_files_is_told_in_a_sentence(self):
        locked = self.folder / "locked.key"
        self.authority._openssl("ec", "-in", self.node[1], "-aes128", "-passout", "pass:secret", "-out", locked)
        alien = Authority(self.folder, "other").issue("alien")
        ca, (certificate, key) = self.authority.certificate, self.node
        for words, env, why in (
                (["--tls-ca", ca], {}, "--tls-ca: TLS needs --tls-cert and --tls-key too; give all three files"),
                (["--tls-cert", certificate, "--tls-key", key], {},
                 "--tls-cert and --tls-key: TLS needs --tls-ca too; give all three files"),
                ([], {"DDPRUN_TLS_CA": ca}, "DDPRUN_TLS_CA: TLS needs --tls-cert and --tls-key too; give all three files"),
                (["--tls-key", key], {"DDPRUN_TLS_CERT": certificate},
                 "DDPRUN_TLS_CERT and --tls-key: TLS needs --tls-ca too; give all three files"),
                (["--tls-key", key], {"PET_TLS_CERT": certificate},
                 "PET_TLS_CERT and --tls-key: TLS needs --tls-ca too; give all three files"),
                ([], {"DDPRUN_TLS_KEY": ""}, "DDPRUN_TLS_KEY: it names no file; name one, or unset the variable"),
                (["--tls-ca", ca, "--tls-cert", certificate, "--tls-key", alien[1]], {},
                 f"{alien[1]}: is no private key .*; give the key of that certificate"),
                (["--tls-ca", ca, "--tls-cert", certificate, "--tls-key", locked], {},
                 f"{locked}: is no private key without a passphrase .*; give a key without a passphrase"),
                (["--tls-ca", ca, "--tls-cert", self.folder / "absent", "--tls-key", key], {},
                 f"{self.folder}/absent: cannot read the certificate: No such file"),
                (["--tls-ca", key, "--tls-cert", certificate, "--tls-key", key], {},
                 f"{key}: is no file of authorities that can be used")):
            agent = self.start(*words, tls=False, env=env)
            self.assertEqual(agent.wait(), 1, agent)
            self.assertRegex(agent.err, f"^ddprun: {why}[^\n]*\n$")


def client_hello():
    """The first words of some client of TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def resident_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    del sys.argv[1]
    skip.main()
