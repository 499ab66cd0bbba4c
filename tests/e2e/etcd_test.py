"""Jobs whose coordinator is decided by etcd (docs/etcd.md), through the built ddprun and Debian's etcd.
usage: etcd_test.py DDPRUN [TEST...]"""
import base64
import http.server
import json
import os
import pathlib
import re
import signal
import sys
import threading
import time
import unittest
import urllib.error

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from certificates import Authority  # noqa: E402
from etcd_cluster import MISSING, EtcdCluster  # noqa: E402
from free_port import free_port  # noqa: E402
from program import Program, children_of, wait_until  # noqa: E402
from service_job import COORDINATES, WAITS, ServiceJob  # noqa: E402
from tcp_relay import TcpRelay  # noqa: E402

DDPRUN = ServiceJob.ddprun = os.path.abspath(sys.argv[1])


class Etcd(ServiceJob):
    members = 1

    def setUp(self):
        if MISSING:
            skip.need(MISSING[0], False, MISSING[1])
        super().setUp()
        self.etcd = self.make_etcd()
        self.addCleanup(self.etcd.end)

    def make_etcd(self):
        return EtcdCluster(self.folder, self.members)

    def start(self, nnodes, *words, program=WAITS, endpoints=None, env=None):
        return self.start_agent(nnodes, "--rdzv-backend", "etcd", "--rdzv-endpoint",
                                endpoints or ",".join(self.etcd.endpoints), *words, program=program, env=env)

    def end_well(self, agents):
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)
        self.assertEqual(self.etcd.keys(), 0)


class OneMember(Etcd):
    def test_nodes_meet_and_leave_nothing_in_etcd(self):
        agents = self.start_job(3, "3")
        ranks = {re.search(r"rank (\d) of 3 attempt 0", agent.out)[1] for agent in agents}
        self.assertEqual(ranks, {"0", "1", "2"})
        self.assertGreater(self.etcd.keys(), 0)
        self.end_well(agents)
        # A job of the same id is another job.
        self.end_well(self.start_job(2, "2"))

    def test_another_node_coordinates_once_that_agent_is_killed(self):
        others = self.start_job_whose_coordinator_is_killed()
        newcomer = self.start("2:3")
        self.wait_for_world([*others, newcomer], 3)
        self.end_well([*others, newcomer])

    def test_the_accounts_lack_nothing_after_a_failover(self):
        # What etcd has of the job was written when its workers had started.
        events = self.folder / "events"
        began = time.monotonic()
        agents = self.start_job(2, "1:2", "--event-log", str(events))
        started = time.monotonic()
        killed_at = started + 4
        wait_until(lambda: time.monotonic() > killed_at, "the clock", seconds=60)
        first, (other,) = self.coordinator_of(agents)
        before = self.said([other])
        self.kill_agent(first)
        self.wait_for_world([other], 1, before)
        self.end_well([other])
        ended = time.monotonic()
        told = [json.loads(line) for line in events.read_text().splitlines()]
        last = [one for one in told if one["event"] == "ledger"][-1]
        self.assertGreater(last["productive_ms"], 2900, last)  # up to the last contact
        self.assertGreater(last["wall_ms"], 1000 * (killed_at - started), last)
        self.assertLess(last["wall_ms"], 1000 * (ended - began), last)

    def worker_of(self, agents, rank):
        """The process id of the newest."""
        said = re.findall(rf"rank {rank} of .* attempt (\d+) pid (\d+)", "".join(a.out for a in agents))
        return max((int(attempt), int(pid)) for attempt, pid in said)[1]

    def test_a_restart_that_was_spent_while_etcd_was_gone_stays_spent(self):
        agents = self.start_job(2, "2", "--max-restarts", "1", "--heartbeat-timeout", "1")
        self.etcd.kill(0)
        before = self.said(agents)
        os.kill(self.worker_of(agents, 1), signal.SIGKILL)
        self.wait_for_world(agents, 2, before)
        # Its lease ends meanwhile.
        first, _ = self.coordinator_of(agents)
        wait_until(lambda: "this node is no coordinator any more" in first.err, lambda: first,
                   seconds=60)
        before = self.said(agents)
        self.etcd.start(0)
        self.wait_for_world(agents, 2, before)
        os.kill(self.worker_of(agents, 1), signal.SIGKILL)
        for agent in agents:
            self.assertEqual(agent.wait(), 1, agent)
            self.assertIn("the only restart is spent", agent.err)
            self.assertIn("restarts used: 1 of 1", agent.err)

    def test_each_failover_in_a_row_takes_as_long_as_the_first(self):
        agents = self.start_job(5, "1:5", "--heartbeat-timeout", "10")
        for left in (4, 3, 2, 1):
            first, agents = self.coordinator_of(agents)
            before = self.said(agents)
            killed_at = time.monotonic()
            self.kill_agent(first)
            self.wait_for_world(agents, left, before)
            # All have seen it die, so nobody waits for a lease, nor for nodes that are gone.
            self.assertLess(time.monotonic() - killed_at, 5, agents)
        self.end_well(agents)

    def test_the_last_node_of_three_goes_on_alone(self):
        agents = self.start_job(3, "1:3")
        first, others = self.coordinator_of(agents)
        before = self.said(others)
        for agent in (first, others[0]):
            os.kill(children_of(agent.pid)[0], signal.SIGKILL)
        self.wait_for_world([others[1]], 1, before)
        self.end_well([others[1]])

    def test_ten_seconds_without_etcd_stop_nothing(self):
        agents = self.start_job(2, "2", "--max-restarts", "2")
        self.etcd.kill(0)
        gone_until = time.monotonic() + 10
        wait_until(lambda: time.monotonic() > gone_until, "the clock", seconds=60)
        self.etcd.start(0)
        wait_until(lambda: self.etcd.is_healthy(0), "etcd")
        # And a failure afterwards is a restart as any other.
        worker = int(re.search(r"rank 1 .* pid (\d+)", "".join(agent.out for agent in agents))[1])
        for agent in agents:
            self.assertEqual(agent.out.count(" attempt "), 1, agent)
        os.kill(worker, signal.SIGKILL)
        for agent in agents:
            wait_until(lambda: " attempt 1 " in agent.out, lambda: agent)
        self.end_well(agents)

    def test_a_stopped_coordinator_leads_no_more_when_it_goes_on(self):
        agents = self.start_job_whose_coordinator_is_stopped()
        self.end_well(agents)

    def test_a_job_ends_though_etcd_is_gone(self):
        agents = self.start_job(2, "2")
        self.etcd.kill(0)
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)

    def test_a_coordinator_that_alone_loses_etcd_holds_no_nodes_that_wait(self):
        relay = TcpRelay(int(self.etcd.endpoints[0].rsplit(":", 1)[1]))
        self.addCleanup(relay.cut)
        first = self.start("3", endpoints=f"127.0.0.1:{relay.port}")
        wait_until(lambda: COORDINATES in first.err, lambda: first)
        others = [self.start("3")]
        wait_until(lambda: "2 of 3 nodes here" in first.err, lambda: first)
        relay.cut()
        wait_until(lambda: COORDINATES in others[0].err, lambda: (first, others))
        self.assertIn("no coordinator any more: etcd does not let it lead", first.err)
        others += [self.start("3"), self.start("3")]  # in its place, and the third
        self.wait_for_world(others, 3)
        self.end_well(others)

    def test_nodes_meet_again_after_their_keys_were_deleted(self):
        agents = self.start_job(2, "2")
        before = self.said(agents)
        self.etcd.ask("/v3/kv/deleterange", {"key": "AA==", "range_end": "AA=="})
        self.wait_for_world(agents, 2, before)
        self.assertNotIn(" attempt 0 ", "".join(agent.out[before[agent]:] for agent in agents))
        self.end_well(agents)

    def test_a_full_etcd_is_named_and_keeps_no_job_from_its_end(self):
        self.etcd.kill(0)
        self.etcd.start(0, "--quota-backend-bytes", str(512 * 1024))
        wait_until(lambda: self.etcd.is_healthy(0), "etcd")
        agents = self.start_job(2, "2:3", "--scale-up", "now")

        def is_full():
            try:
                self.etcd.ask("/v3/kv/put", {"key": "eA==", "value": "eHh4" * 16 * 1024})
            except urllib.error.HTTPError:
                return True
            return False

        wait_until(is_full, "an etcd without space")
        agents.append(self.start("2:3", "--scale-up", "now"))
        wait_until(lambda: any("mvcc: database space exceeded; compact and defragment etcd, then run etcdctl alarm disarm; "
                                   "no new world" in agent.err for agent in agents),
                   lambda: agents[0])
        agents[0].process.terminate()
        for agent in agents:
            self.assertNotEqual(agent.wait(60), -signal.SIGKILL, agent)

    def test_who_leads_at_first_may_be_anybody(self):
        for turn in range(3):
            with self.subTest(turn=turn):
                agents = self.start_job(2, "2")
                self.coordinator_of(agents)
                self.end_well(agents)
                (self.folder / "end").unlink()
                self.agents.clear()

    def test_a_user_and_a_password(self):
        for path, question in (("user/add", {"name": "root", "password": "secret"}),
                               ("user/grant", {"user": "root", "role": "root"}), ("enable", {})):
            self.etcd.ask(f"/v3/auth/{path}", question)
        refused = self.start("1", "--join-timeout", "3")
        self.assertEqual(refused.wait(), 1)
        self.assertIn("user name is empty; give a user by DDPRUN_ETCD_USER=NAME:PASSWORD", refused.err)
        # Each question has 1.5 s, and etcd works on a password: room for several on a busy machine.
        wrong = self.start("1", "--join-timeout", "12", env={"DDPRUN_ETCD_USER": "root:other"})
        self.assertEqual(wrong.wait(), 1)
        self.assertIn("authentication failed, invalid user ID or password; correct "
                      "DDPRUN_ETCD_USER=NAME:PASSWORD, which gave the user root", wrong.err)
        agents = [self.start("2", env={"DDPRUN_ETCD_USER": "root:secret"}) for _ in range(2)]
        self.wait_for_world(agents, 2)
        for agent in (wrong, *agents):
            self.assertNotIn("secret", agent.out + agent.err)
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)

    def test_authentication_that_is_switched_off_stops_nothing(self):
        for path, question in (("user/add", {"name": "root", "password": "secret"}),
                               ("user/grant", {"user": "root", "role": "root"}), ("enable", {})):
            self.etcd.ask(f"/v3/auth/{path}", question)
        user = {"DDPRUN_ETCD_USER": "root:secret"}
        agents = [self.start("2:4", "--scale-up", "now", env=user) for _ in range(2)]
        self.wait_for_world(agents, 2)
        for turn, size in (("disable", 3), ("enable", 4)):
            token = self.etcd.ask("/v3/auth/authenticate", {"name": "root", "password": "secret"})["token"] \
                if turn == "disable" else None
            self.etcd.ask(f"/v3/auth/{turn}", {}, token=token)
            before = self.said(agents)
            newcomer = self.start("2:4", "--scale-up", "now", env=user)
            self.wait_for_world(agents, size, before)
            agents.append(newcomer)
            self.wait_for_world([newcomer], size)
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)
            self.assertNotIn("leads no more", agent.err)

    def test_a_coordinator_that_cannot_be_reached_is_named(self):
        port = free_port()
        record = {"term": 1, "voter": "77", "instance": "5", "addresses": ["127.0.0.1"], "port": port}
        for key, value in (("leader", json.dumps(record)), ("term", "1")):
            self.etcd.ask("/v3/kv/put", {"key": base64.b64encode(f"ddprun/job/{key}".encode()).decode(),
                                         "value": base64.b64encode(value.encode()).decode()})
        agent = self.start("1", "--join-timeout", "6", env={"LOGLEVEL": "WARNING"})
        started = time.monotonic()
        named = f"127.0.0.1 port {port}: cannot reach the coordinator: connection refused"
        wait_until(lambda: named in agent.err, lambda: agent)
        self.assertLess(time.monotonic() - started, 5, agent)
        self.assertEqual(agent.wait(), 1)
        self.assertEqual(agent.err.count(named), 2, agent)  # once meanwhile, and at the end

    def test_what_is_no_etcd_is_told(self):
        class Page(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.send_error(404)

            def log_message(self, *_):
                pass

        page = http.server.HTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=page.serve_forever, daemon=True).start()
        self.addCleanup(page.server_close)
        self.addCleanup(page.shutdown)
        nobody = free_port()
        for port, why in ((nobody, "cannot be asked: Connection refused; see whether etcd runs there"),
                          (page.server_port, "does not speak etcd's protocol (HTTP status 404); name etcd's port")):
            agent = self.start("1", "--join-timeout", "1", endpoints=f"127.0.0.1:{port}")
            self.assertEqual(agent.wait(), 1)
            self.assertIn(f"etcd at 127.0.0.1:{port} {why}", agent.err)

    def test_bad_words_are_refused(self):
        def refused(*words, env=None):
            done = Program(self.folder, "refused", [DDPRUN, "--nnodes", "2", "--rdzv-backend", *words, "true"],
                           env={**os.environ, **(env or {})})
            self.assertEqual(done.wait(), 1, done)
            return done.err

        self.assertIn("give its members as --rdzv-endpoint", refused("etcd"))
        self.assertIn("give each job an --rdzv-id", refused("etcd", "--rdzv-endpoint", "a"))
        named = ["--rdzv-endpoint", "a", "--rdzv-id", "job"]
        self.assertIn("neither http nor https", refused("etcd-v2", *named, "--rdzv-conf", "protocol=tls"))
        https = [*named, "--rdzv-conf"]
        self.assertIn("/none: cannot read the file of authorities: No such file or directory; give a file in PEM",
                      refused("etcd", *https, "protocol=https,cacert=/none"))
        self.assertIn("/dev/null: is no certificate that can be used: no start line",
                      refused("etcd-v2", *https, "protocol=https,ssl_cert=/dev/null"))
        certificate, _ = Authority(self.folder).issue("one")
        other, key = Authority(self.folder, "stranger").issue("other")
        self.assertIn("give the key of that certificate",
                      refused("etcd", *https, f"protocol=https,cert={certificate},key={key}"))
        self.assertIn("other.pem: is no private key without a passphrase that can be used",
                      refused("etcd", *https, f"protocol=https,cert={certificate},key={other}"))
        self.assertIn("key= is given without cert=", refused("etcd", *https, "protocol=https,key=a"))
        self.assertIn("NAME:PASSWORD", refused("etcd", *named, env={"DDPRUN_ETCD_USER": "root"}))
        self.assertIn("DDPRUN_ETCD_USER is no UTF-8",
                      refused("etcd", *named, env={"DDPRUN_ETCD_USER": os.fsdecode(b"root:\xff\xfe")}))
        said = refused("etcd", "--rdzv-endpoint", "root:secret@a:2379", "--rdzv-id", "job")
        self.assertIn("an endpoint has a user in it", said)
        self.assertNotIn("secret", said)
        self.assertIn("files of certificates are given, but without a protocol it is plain text",
                      refused("etcd", *https, "cacert=/dev/null"))
        self.assertIn("protocol=http is plain text, so cert= would be ignored",
                      refused("etcd", *https, "protocol=http,cert=a"))
        self.assertIn("--master-port: with --rdzv-backend etcd the service decides where the nodes meet",
                      refused("etcd", *named, "--master-port", "1"))
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.assertIn("fifo: is a pipe and no file, so it cannot be the file of authorities",
                      refused("etcd", *https, f"protocol=https,cacert={fifo}"))
        self.assertIn("give c10d, static, etcd or kubernetes", refused("etcd3", "--rdzv-endpoint", "a"))


class ThreeMembers(Etcd):
    members = 3

    def test_a_member_that_is_killed_costs_nothing(self):
        agents = self.start_job(2, "2:3")
        self.etcd.kill(0)
        # Each asks the next member, a newcomer too.
        newcomer = self.start("2:3", "--scale-up", "now")
        self.wait_for_world([newcomer], 3)
        first, others = self.coordinator_of([*agents, newcomer])
        before = self.said(others)
        self.kill_agent(first)
        self.wait_for_world(others, 2, before)
        (self.folder / "end").touch()
        for agent in others:
            self.assertEqual(agent.wait(), 0, agent)


class Tls(Etcd):
    """etcd asks each client for a certificate."""

    def make_etcd(self):
        self.authority = Authority(self.folder)
        self.certificate, self.key = self.authority.issue("client")
        return EtcdCluster(self.folder, self.members, self.authority)

    def conf(self, ca=None, certificate=None, key=None):
        return ["--rdzv-conf", f"last_call_timeout=1,protocol=https,cacert={ca or self.authority.certificate},"
                f"cert={certificate or self.certificate},key={key or self.key}"]

    def test_a_job_survives_its_coordinator(self):
        agents = self.start_job(2, "2", *self.conf())
        first, others = self.coordinator_of(agents)
        before = self.said(others)
        self.kill_agent(first)
        newcomer = self.start("2", *self.conf(), endpoints=f"localhost:{self.etcd.ports[0]}")
        self.wait_for_world(others, 2, before)
        self.end_well([*others, newcomer])

    def test_certificates_that_are_renewed_are_read_again(self):
        agents = self.start_job(2, "2:3", "--scale-up", "now", *self.conf())
        self.etcd.kill(0)
        self.authority = Authority(self.folder)  # in the same files
        self.authority.issue("client")
        self.etcd.certify(self.authority)
        self.etcd.start(0)
        wait_until(lambda: self.etcd.is_healthy(0), "etcd")
        before = self.said(agents)
        newcomer = self.start("2:3", "--scale-up", "now", *self.conf())
        self.wait_for_world(agents, 3, before)
        self.end_well([*agents, newcomer])

    def test_a_key_that_is_not_written_to_its_end_is_named(self):
        agents = self.start_job(2, "2", *self.conf())
        self.etcd.kill(0)
        self.authority = Authority(self.folder)
        self.authority.issue("client")
        key = pathlib.Path(self.key)
        whole = key.read_text()
        key.write_text(whole[:100])
        self.etcd.certify(self.authority)
        self.etcd.start(0)
        named = f"and {key}: is no private key without a passphrase that can be used"
        wait_until(lambda: any(named in agent.err for agent in agents), lambda: agents)
        before = self.said(agents)
        key.write_text(whole)
        first, others = self.coordinator_of(agents)
        self.kill_agent(first)
        newcomer = self.start("2", *self.conf())
        self.wait_for_world(others, 2, before)
        self.end_well([*others, newcomer])

    def test_what_is_wrong_is_told(self):
        stranger = Authority(self.folder, "stranger")
        unknown = stranger.issue("unknown")
        elsewhere = f"127.0.0.2:{self.etcd.ports[0]}"  # etcd does not listen there
        plain = EtcdCluster(self.folder / "plain")
        self.addCleanup(plain.end)
        named = EtcdCluster(self.folder / "named", authority=self.authority, names=["DNS:localhost"])
        self.addCleanup(named.end)
        for words, endpoints, why in (
                (self.conf(ca=stranger.certificate), None, "its certificate is not trusted: unable to get local issuer"),
                (self.conf(certificate=unknown[0], key=unknown[1]), None,
                 "it does not take this client's certificate, or misses one"),
                (["--rdzv-conf", f"protocol=https,cacert={self.authority.certificate}"], None,
                 "it does not take this client's certificate, or misses one"),
                (["--rdzv-conf", "protocol=http"], None, "if it wants TLS, give --rdzv-conf protocol=https,cacert=FILE"),
                (self.conf(), plain.endpoints[0], "maybe it speaks no TLS"),
                (self.conf(), named.endpoints[0], "its certificate is not trusted: IP address mismatch"),
                (self.conf(), elsewhere, "cannot be asked: Connection refused")):
            agent = self.start("1", "--join-timeout", "3", *words, endpoints=endpoints)
            self.assertEqual(agent.wait(), 1)
            self.assertIn(why, agent.err)


if __name__ == "__main__":
    del sys.argv[1]
    skip.main()
