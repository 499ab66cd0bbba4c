"""What people and programs ask of running agents: the built ddpctl over the agents' Unix sockets, and
HTTP at --metrics-port.
usage: operations_test.py DDPRUN DDPCTL TRAIN [TEST...]"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import browser  # noqa: E402
import namespaces  # noqa: E402
import skip  # noqa: E402
from free_port import free_port  # noqa: E402
from program import Program, children_of, is_alive, wait_until  # noqa: E402

DDPRUN, DDPCTL, TRAIN = (os.path.abspath(path) for path in sys.argv[1:4])
MISSING = namespaces.missing()
NOBODY = 65534
# A worker that says its rank and runs until it is ended.
WAITS = ["sh", "-c", 'echo "here $RANK"; exec sleep 1000']
# So, too, but rank 1 of the first attempt kills itself. ddprun makes one $ of two.
FAILS = ["sh", "-c", 'echo "here $RANK"; [ "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 ] || kill -9 $$$$; '
                     "exec sleep 1000"]


def get(address, path):
    """(status, body) of the page."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def exchange(connect, request, seconds=10):
    """All that comes back for these bytes, until the other end closes."""
    with connect() as client:
        client.settimeout(seconds)
        got = b""
        try:
            client.sendall(request)
            while more := client.recv(65536):
                got += more
        except (ConnectionResetError, BrokenPipeError):
            pass
        return got


class Jobs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-operations-"))
        # An agent that is still ending removes files, too.
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # Agents of other tests, and of the user, are in other directories; ddpctl looks there, too.
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder),
                            "TMPDIR": str(self.folder)}
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.started = 0

    def need_to_be_alone(self):
        """For who counts the agents of this user: see hide_other_agents()."""
        if MISSING:
            skip.need(MISSING[0], False, MISSING[1])

    def start(self, *words):
        self.started += 1
        agent = Program(self.folder, f"agent{self.started}", [DDPRUN, *words], env=self.environment,
                        cwd=self.folder)
        self.addCleanup(agent.end)
        return agent

    def start_alone(self, *words):
        agent = self.start("--standalone", *words)
        self.wait_for_workers(agent)
        return agent

    def start_nodes(self, nnodes, program, *options):
        """Two agents, the coordinator's first, once both have workers."""
        words = ["--nnodes", nnodes, "--rdzv-endpoint", self.endpoint, "--rdzv-id", "pair",
                 "--rdzv-conf", "last_call_timeout=1", *options, *program]
        first = self.start(*words)
        wait_until(lambda: self.ctl(first, "status").returncode == 0, lambda: first)
        second = self.start(*words)
        for agent in (first, second):
            self.wait_for_workers(agent)
        if self.status(first)["source"] != "coordinator":
            first, second = second, first
        return first, second

    def wait_for_workers(self, agent):
        def runs():
            done = self.ctl(agent, "status", "--json")
            workers = json.loads(done.stdout)["workers"] if done.returncode == 0 else []
            return workers and all(worker["running"] for worker in workers)
        wait_until(runs, lambda: agent)

    def ctl(self, agent, *words, **more):
        chosen = ["--pid", str(agent.pid)] if agent else []
        return subprocess.run([DDPCTL, *words, *chosen], capture_output=True, text=True, timeout=60,
                              env=self.environment, **more)

    def told(self, agent, *words):
        done = self.ctl(agent, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def refused(self, code, agent, *words):
        """The one sentence on stderr."""
        done = self.ctl(agent, *words)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done)
        self.assertTrue(done.stderr.startswith("ddpctl: "), done)
        return done.stderr

    def status(self, agent):
        return json.loads(self.told(agent, "status", "--json"))

    def sockets(self):
        return sorted((self.folder / "ddprun").glob("*"))

    def metrics_address(self, agent):
        line = r"metrics are at http://(.*)/metrics\n"
        return wait_until(lambda: re.search(line, agent.err), lambda: agent)[1]


class Status(Jobs):
    def test_a_killed_worker_is_an_incident_with_its_cause_and_downtime(self):
        first, second = self.start_nodes("2", FAILS, "--max-restarts", "3")

        def recovered():
            status = self.status(first)
            return status["incidents"] and status["incidents"][0]["spawn_ms"] and status
        status = wait_until(recovered, lambda: first)
        self.assertEqual((status["schema"], status["job_id"], status["state"], status["healthy"]),
                         (1, "pair", "running", True))
        [incident] = status["incidents"]
        self.assertEqual((incident["incident"], incident["kind"], incident["attempt"],
                          incident["next_attempt"], incident["spent_restart"]),
                         (1, "worker_failed", 0, 1, True))
        cause = incident["cause"]
        self.assertEqual((cause["rank"], cause["signal"], cause["exit_code"]), (1, "SIGKILL", None))
        self.assertIn("rank 1", incident["reason"])
        self.assertGreater(incident["downtime_ms"], 0)
        parts = [incident[part + "_ms"] or 0
                 for part in ("detect", "stop", "rendezvous", "spawn", "first_step")]
        self.assertAlmostEqual(sum(parts), incident["downtime_ms"], places=2)
        self.assertEqual((status["restarts_used"], status["restarts_left"], status["attempts"]),
                         (1, 2, 2))
        self.assertEqual([(node["state"], node["first_rank"]) for node in status["nodes"]],
                         [("working", 0), ("working", 1)])
        self.assertGreater(status["accounts"]["ratio"], 0)
        [worker] = status["workers"]
        self.assertTrue(is_alive(worker["pid"]))
        self.assertGreater(worker["resident_bytes"], 0)
        # The other agent has a copy, says how old it is, and that it does not know the nodes.
        copy = wait_until(lambda: (self.status(second)["incidents"] or None) and self.status(second),
                          lambda: second)
        self.assertEqual((copy["source"], copy["nodes"], copy["state"]), ("copy", None, None))
        self.assertEqual(copy["incidents"][0]["reason"], incident["reason"])
        self.assertGreater(copy["source_age_ms"], 0)
        self.assertEqual(copy["coordinator"], self.endpoint)
        text = self.told(first, "status")
        for part in ("job pair", "running, attempt 1", "restarts: 1 used, 2 left", "working  rank 0",
                     "attempt 0: rank 1", "; down "):
            self.assertIn(part, text)
        self.assertIn("knows all nodes", self.told(second, "status"))

    def test_steps_and_the_snapshot_of_a_training_are_there(self):
        agent = self.start_alone(TRAIN, "linear", "1000000", "10")
        status = wait_until(lambda: (lambda told: told["checkpoint"] and told)(self.status(agent)),
                            lambda: agent)
        self.assertGreaterEqual(status["checkpoint"]["epoch"], 0)
        [worker] = status["workers"]
        self.assertIn(worker["phase"], ("training", "saving a snapshot"))
        self.assertGreater(worker["steps"], 1)
        self.assertGreater(worker["steps_per_second"], 0)
        self.assertIsNotNone(worker["loss"])
        looks = self.told(agent, "top", "-n", "2", "-d", "0.2")
        self.assertEqual(looks.count("steps/s"), 2)
        self.assertIn("newest snapshot: epoch", self.told(agent, "status"))


class Orders(Jobs):
    def test_a_drained_node_leaves_and_the_job_goes_on(self):
        first, second = self.start_nodes("1:2", WAITS)
        self.assertIn("no node of this job is called elsewhere; there are: ",
                      self.refused(1, second, "drain", "elsewhere"))
        self.told(second, "drain", socket.gethostname())  # that is this node, whoever else has its name
        self.assertEqual(second.wait(), 0, second)
        wait_until(lambda: len(self.status(first)["nodes"]) == 1, lambda: first)
        self.assertEqual(self.status(first)["incidents"][-1]["kind"], "node_left")
        self.wait_for_workers(first)
        self.assertEqual(len(self.sockets()), 1)

    def test_another_node_is_drained_by_its_number_from_any_node(self):
        first, second = self.start_nodes("1:2", WAITS)
        here, other = (node["number"] for node in self.status(first)["nodes"])
        self.assertIn(f"\n  {other}  {socket.gethostname()}  working  rank 1", self.told(first, "status"))
        sentence = self.refused(1, second, "drain", str(here + other))
        self.assertIn(f"there are: {here} ({socket.gethostname()}), {other} (", sentence)
        self.assertIn(f"let the node {other} leave", self.told(first, "drain", str(other)))
        self.assertEqual(second.wait(), 0, second)
        self.assertIn("this node has left the job", second.err)
        wait_until(lambda: len(self.status(first)["nodes"]) == 1, lambda: first)
        self.assertEqual(self.status(first)["incidents"][-1]["kind"], "node_left")
        # The coordinator's own node goes on for the others, from wherever it is drained.
        third = self.start("--nnodes", "1:2", "--rdzv-endpoint", self.endpoint, "--rdzv-id", "pair",
                           "--rdzv-conf", "last_call_timeout=1", *WAITS)
        self.wait_for_workers(third)
        self.told(third, "drain", str(here))
        wait_until(lambda: self.status(first)["nodes"][0]["state"] == "witness", lambda: first)
        self.wait_for_workers(third)

    def test_save_preempts_the_job_on_every_node(self):
        first, second = self.start_nodes("2", [TRAIN, "linear", "1000000", "1000000"])
        self.assertIn("save", self.told(second, "save"))
        for agent in (first, second):
            self.assertEqual(agent.wait(), 75, agent)
        self.assertEqual(self.sockets(), [])

    def test_save_that_is_asked_again_takes_no_time_from_the_workers(self):
        saves = ["sh", "-c", "trap 'echo saving; until [ -e go ]; do sleep 0.02; done; echo saved; exit' TERM; "
                 "echo ready; while :; do sleep 0.02; done"]
        agent = self.start_alone(*saves)
        wait_until(lambda: "ready" in agent.out, lambda: agent)
        self.told(agent, "save")
        wait_until(lambda: "saving" in agent.out, lambda: agent)
        time.sleep(0.6)  # what comes within half a second is one wish in any case
        self.assertIn("save", self.told(agent, "save"))
        self.told(agent, "drain")
        (self.folder / "go").touch()
        self.assertEqual(agent.wait(), 75, agent)
        self.assertIn("saved", agent.out)

    def test_stop_ends_the_job_on_every_node(self):
        first, second = self.start_nodes("2", WAITS)
        self.told(first, "stop")
        for agent in (first, second):
            self.assertIn(agent.wait(), (1, 75), agent)
            self.assertIn("SIGTERM", agent.err)
        self.assertEqual(self.sockets(), [])

    def test_a_look_over_get_changes_nothing(self):
        agent = self.start_alone(*WAITS)
        [path] = self.sockets()

        def connect():
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            return client
        for verb in ("drain", "save", "stop"):
            answer = exchange(connect, f"GET /{verb} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            self.assertIn(b" 405 ", answer.split(b"\r\n")[0])
        self.assertTrue(self.status(agent)["healthy"])


class FromAnotherMachine(Jobs):
    """ddpctl --at: the job's token is what lets it in."""
    TOKEN, WRONG = "0123456789abcdef-the-right-one", "0123456789abcdef-another-one"

    def at(self, *words, token=TOKEN, at=None):
        environment = {**self.environment, "DDPRUN_JOB_TOKEN": token} if token else self.environment
        return subprocess.run([DDPCTL, "--at", at or self.endpoint, *words], capture_output=True, text=True,
                              timeout=60, env=environment)

    def ports_of(self, agent):
        """At which it listens: of the listening sockets of this machine, those that it has open."""
        fds = pathlib.Path(f"/proc/{children_of(agent.pid)[0]}/fd")
        own = {os.readlink(fd) for fd in fds.iterdir() if fd.is_symlink()}
        rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ports = [int(row[1].split(":")[1], 16) for row in rows
                 if row[3] == "0A" and f"socket:[{row[9]}]" in own]
        self.assertTrue(ports)
        return ports

    def refused_at(self, code, *words, **more):
        done = self.at(*words, **more)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done)
        return done.stderr

    def told_at(self, *words):
        done = self.at(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def token_file(self):
        path = self.folder / "token"
        path.write_text(self.TOKEN + "\n")
        return str(path)

    def test_who_has_the_token_looks_and_orders(self):
        first, second = self.start_nodes("1:2", WAITS, "--job-token-file", self.token_file(),
                                         "--redirects", "3")
        status = json.loads(self.told_at("status", "--json", "--job-token-file", self.token_file()))
        self.assertEqual((status["source"], len(status["nodes"])), ("coordinator", 2))
        self.assertIn("job pair", self.told_at("status"))
        self.assertEqual(self.told_at("top", "-n", "1").count("steps/s"), 1)
        self.assertEqual(self.told_at("logs"), "[rank 0 stdout] here 0\n")
        self.assertEqual(self.told_at("logs", "--rank", "1"), "")
        self.assertIn("cannot be followed", self.refused_at(1, "logs", "-f"))
        self.assertIn("say which node", self.refused_at(1, "drain"))
        # The other agent listens, too: for agents, and not for orders.
        for port in self.ports_of(second):
            self.assertIn("ddpctl status on a node of the job names the coordinator",
                          self.refused_at(1, "status", at=f"127.0.0.1:{port}"))
        # The name is that of both nodes here, and no order is guessed.
        self.assertIn("2 nodes are called", self.refused_at(1, "drain", socket.gethostname()))
        other = status["nodes"][1]["number"]
        self.assertIn(f"agent at {self.endpoint} is asked to let the node {other} leave",
                      self.told_at("drain", str(other)))
        self.assertEqual(second.wait(), 0, second)
        self.told_at("stop")
        self.assertIn(first.wait(), (1, 75), first)
        self.assertIn("no agent can be reached there", self.refused_at(3, "status"))

    def test_who_has_not_the_token_is_told_so_and_changes_nothing(self):
        agent = self.start("--nnodes", "1", "--rdzv-endpoint", self.endpoint, "--job-token-file",
                           self.token_file(), *WAITS)
        self.wait_for_workers(agent)
        self.assertIn("its token is not the job's", self.refused_at(1, "stop", token=self.WRONG))
        self.assertIn("asks for the job's token", self.refused_at(1, "stop", token=None))
        self.assertIn("16 to 4096", self.refused_at(1, "stop", token="short"))
        host, port = self.endpoint.split(":")

        def connect():
            return socket.create_connection((host, int(port)), timeout=10)
        stop = b"POST /stop HTTP/1.1\r\nHost: x\r\n\r\n"
        self.assertEqual(exchange(connect, stop), b"")
        # Who passes bytes on at an address of its own gets nobody in, and what it has read is worth
        # nothing on another connection.
        said = b""
        with socket.create_server((host, 0)) as tap:
            tap.settimeout(60)
            asks = Program(self.folder, "asks", [DDPCTL, "--at", f"{host}:{tap.getsockname()[1]}", "stop"],
                           env={**self.environment, "DDPRUN_JOB_TOKEN": self.TOKEN})
            with tap.accept()[0] as client, connect() as server:
                for ways in ((client, server, 40), (server, client, 40), (client, server, 32)):
                    part = self.read(ways[0], ways[2])
                    said += part if ways[0] is client else b""
                    ways[1].sendall(part)
                client.sendall(self.read(server, 8))
                self.assertEqual(asks.wait(), 1, asks)
        self.assertIn("a proxy or address translation", asks.err)
        self.assertNotIn(b"HTTP", exchange(connect, said + stop))
        self.assertTrue(self.status(agent)["healthy"])

    def read(self, connection, size):
        connection.settimeout(60)
        got = b""
        while len(got) < size:
            part = connection.recv(size - len(got))
            self.assertTrue(part, f"ended after {got}")
            got += part
        return got

    def test_a_job_without_a_token_serves_no_other_machine(self):
        agent = self.start("--nnodes", "1", "--rdzv-endpoint", self.endpoint, *WAITS)
        self.wait_for_workers(agent)
        self.assertIn("has no token", self.refused_at(1, "stop"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(60)
            at = "127.0.0.1:{}".format(listener.getsockname()[1])
            stranger = Program(self.folder, "stranger", [DDPCTL, "--at", at, "stop"],
                               env={**self.environment, "DDPRUN_JOB_TOKEN": self.TOKEN})
            with listener.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-x\r\n")
                self.assertEqual(stranger.wait(), 1, stranger)
        self.assertIn("is no ddprun agent", stranger.err)
        self.assertTrue(self.status(agent)["healthy"])


class Finding(Jobs):
    def test_no_agent_and_several_are_one_sentence_each(self):
        self.need_to_be_alone()
        self.assertIn("no agent of this user", self.refused(3, None, "status"))
        first = self.start_alone("--rdzv-id", "ignored", *WAITS)
        self.assertEqual(json.loads(self.told(None, "status", "--json"))["agent"]["pid"],
                         children_of(first.pid)[0])
        second = self.start("--nnodes", "1", "--rdzv-endpoint", self.endpoint, "--rdzv-id", "b c",
                            *WAITS)
        self.wait_for_workers(second)
        self.assertIn("2 agents run on this host", self.refused(4, None, "status"))
        named = self.ctl(None, "status", "--json", "--job", "b c")
        self.assertEqual(json.loads(named.stdout)["job_id"], "b c")
        self.assertIn("for the job 'none'", self.refused(3, None, "status", "--job", "none"))
        # Ids that differ behind what a socket's name has room for.
        night = "a-long-id-" * 7
        third = self.start("--nnodes", "1", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id",
                           night + "1", *WAITS)
        self.wait_for_workers(third)
        for verb in ("status", "stop"):
            self.assertIn("no agent of this user", self.refused(3, None, verb, "--job", night + "2"))
        named = self.ctl(None, "status", "--json", "--job", night + "1")
        self.assertEqual(json.loads(named.stdout)["job_id"], night + "1")
        own = children_of(second.pid)[0]
        self.assertEqual(json.loads(self.ctl(None, "status", "--json", "--pid", str(own)).stdout)
                         ["agent"]["pid"], own)

    def test_a_wrong_command_line_is_one_sentence(self):
        for words in ([], ["explode"], ["status", "--rank", "1"], ["top", "-d", "0"],
                      ["logs", "--rank", "x"], ["--pid"]):
            with self.subTest(words):
                self.assertIn("ddpctl --help", self.refused(2, None, *words))
        self.assertIn("Exit code:", self.told(None, "--help"))
        self.assertIn("--json", self.told(None, "status", "--help"))

    def test_an_agent_that_stands_still_is_given_up_after_five_seconds(self):
        agent = self.start_alone(*WAITS)
        [own] = children_of(agent.pid)
        os.kill(own, signal.SIGSTOP)
        self.addCleanup(os.kill, own, signal.SIGCONT)
        self.assertIn("does not answer within 5 s", self.refused(5, agent, "status"))
        os.kill(own, signal.SIGCONT)
        self.assertTrue(self.status(agent)["healthy"])

    def test_the_socket_of_a_killed_agent_is_removed_by_who_looks_and_who_starts(self):
        self.need_to_be_alone()
        for finds in (lambda: self.refused(3, None, "status"), lambda: self.start_alone(*WAITS)):
            agent = self.start_alone(*WAITS)
            [stale] = self.sockets()
            os.kill(children_of(agent.pid)[0], signal.SIGKILL)
            agent.wait()
            self.assertEqual(self.sockets(), [stale])
            found = finds()
            self.assertFalse(stale.exists())
            if isinstance(found, Program):
                found.end()

    def test_the_directory_is_the_users_alone(self):
        self.start_alone(*WAITS)
        [path] = self.sockets()
        self.assertEqual((path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777),
                         (0o700, 0o600))

    def test_another_user_is_refused(self):
        skip.need("root", os.geteuid() == 0, "another user's process is started")
        agent = self.start_alone(*WAITS)
        [path] = self.sockets()
        self.folder.chmod(0o755)
        other = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        done = self.ctl(None, "stop", "--pid", str(agent.pid), **other)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("no agent of this user", done.stderr)
        # Even where the file system lets it through, the agent looks who it is.
        path.parent.chmod(0o755)
        path.chmod(0o777)
        asks = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
                "s.sendall(b'POST /stop HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); print(s.recv(4096).decode())")
        done = subprocess.run(["python3", "-c", asks, str(path)], capture_output=True, text=True,
                              timeout=60, **other)
        self.assertIn(" 403 ", done.stdout.splitlines()[0], done)
        self.assertTrue(self.status(agent)["healthy"])


class Output(Jobs):
    def test_logs_come_from_the_files(self):
        agent = self.start_alone("--nproc-per-node", "2", "--redirects", "3", "--log-dir",
                                 str(self.folder / "logs"), *WAITS)
        wait_until(lambda: "here 1" in self.told(agent, "logs"), lambda: agent)
        self.assertEqual(self.told(agent, "logs", "--rank", "1"), "[rank 1 stdout] here 1\n")
        for words in ((), ("-f",)):
            self.assertIn("no worker of this rank",
                          self.refused(1, agent, "logs", "--rank", "7", *words))
        follower = Program(self.folder, "follower", [DDPCTL, "logs", "-f", "--pid", str(agent.pid)],
                           env=self.environment)
        self.addCleanup(follower.end)
        wait_until(lambda: "here 0" in follower.out and "here 1" in follower.out, lambda: follower)
        out = self.folder / "logs"
        [log] = out.glob("*/attempt_0/0/stdout.log")
        with open(log, "a", encoding="utf-8") as file:
            file.write("and more\n")
        wait_until(lambda: "[rank 0 stdout] and more\n" in follower.out, lambda: follower)
        agent.end()
        self.assertEqual(follower.wait(), 0, follower)

    def test_logs_go_on_behind_an_agent_that_stands_still(self):
        agent = self.start_alone("--redirects", "3", "--log-dir", str(self.folder / "logs"), *WAITS)
        [own] = children_of(agent.pid)
        [log] = wait_until(lambda: list(self.folder.glob("logs/*/attempt_0/0/stdout.log")), lambda: agent)
        follower = Program(self.folder, "follower", [DDPCTL, "logs", "-f", "--pid", str(agent.pid)],
                           env=self.environment)
        self.addCleanup(follower.end)
        wait_until(lambda: "here 0" in follower.out, lambda: follower)
        os.kill(own, signal.SIGSTOP)
        self.addCleanup(lambda: is_alive(own) and os.kill(own, signal.SIGCONT))
        # It asks every second, and gives a question up after five; that passes while others do so.
        for _ in range(2):
            self.refused(5, agent, "status")
        with open(log, "a", encoding="utf-8") as file:
            file.write("still here\n")
        wait_until(lambda: "still here" in follower.out, lambda: follower)
        os.kill(own, signal.SIGCONT)
        agent.end()
        self.assertEqual(follower.wait(), 0, follower)

    def test_logs_have_attempts_that_are_shorter_than_a_look(self):
        fails = ["sh", "-c", 'echo "attempt $TORCHELASTIC_RESTART_COUNT"; until [ -e go ]; do sleep 0.02; done; '
                             "exit 1"]
        agent = self.start_alone("--redirects", "3", "--log-dir", str(self.folder / "logs"),
                                 "--max-restarts", "3", *fails)
        follower = Program(self.folder, "follower", [DDPCTL, "logs", "-f", "--pid", str(agent.pid)],
                           env=self.environment)
        self.addCleanup(follower.end)
        wait_until(lambda: "attempt 0" in follower.out, lambda: follower)
        (self.folder / "go").touch()
        self.assertEqual(follower.wait(), 0, follower)
        self.assertEqual(follower.out, "".join(f"[rank 0 stdout] attempt {i}\n" for i in range(4)))

    def test_without_files_it_says_so(self):
        agent = self.start_alone(*WAITS)
        for words in ((), ("-f",), ("-f", "--rank", "7")):
            self.assertIn("--redirects 3", self.refused(1, agent, "logs", *words))

    def test_stacks_are_taken_and_the_workers_run_on(self):
        agent = self.start_alone("--nproc-per-node", "2", TRAIN, "linear", "1000000", "1000000")
        wait_until(lambda: all(worker["steps"] for worker in self.status(agent)["workers"]),
                   lambda: agent)
        before = [worker["pid"] for worker in self.status(agent)["workers"]]
        text = self.told(agent, "stacks", "--rank", "1")
        self.assertIn("rank 1, pid", text)
        self.assertNotIn("rank 0, pid", text)
        self.assertIn("stacks taken on request", text)
        self.assertIn("newest frame first", text)
        self.assertEqual([worker["pid"] for worker in self.status(agent)["workers"]], before)
        self.assertIn("no worker of this rank", self.refused(1, agent, "stacks", "--rank", "9"))
        self.assertEqual(self.status(agent)["incidents"], [])


class Metrics(Jobs):
    def test_metrics_are_what_prometheus_reads(self):
        first, _ = self.start_nodes("2", FAILS, "--max-restarts", "3", "--metrics-port", "0")
        address = self.metrics_address(first)
        wait_until(lambda: "ddprun_incidents_total 1\n" in get(address, "/metrics")[1], lambda: first)
        status, text = get(address, "/metrics")
        self.assertEqual(status, 200)
        for line in ("ddprun_restarts_total 1", 'ddprun_job_state{state="running"} 1',
                     'ddprun_nodes{state="working"} 2', "ddprun_restarts_left 2",
                     "# TYPE ddprun_incidents_total counter"):
            self.assertIn(line + "\n", text)
        self.assertRegex(text, r'ddprun_downtime_seconds\{kind="worker_failed"\} [0-9.e-]+\n')
        # Each sample belongs to a family that was told before it, and is there once.
        seen, kinds = set(), {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                kinds[line.split()[2]] = line.split()[3]
            elif not line.startswith("#"):
                series = line.rpartition(" ")[0]
                name = series.partition("{")[0]
                self.assertIn(name, kinds)
                self.assertEqual(kinds[name] == "counter", name.endswith("_total"))
                self.assertNotIn(series, seen)
                seen.add(series)
                float(line.rpartition(" ")[2])

    def test_promtool_has_nothing_against_them(self):
        promtool = shutil.which("promtool")
        skip.need("program", promtool, "promtool (of Prometheus) is not installed")
        agent = self.start_alone("--metrics-port", "0", TRAIN, "linear", "1000000", "10")
        address = self.metrics_address(agent)
        wait_until(lambda: "ddprun_checkpoint_number" in get(address, "/metrics")[1], lambda: agent)
        done = subprocess.run([promtool, "check", "metrics"], input=get(address, "/metrics")[1],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_health_is_200_while_it_gathers_and_503_with_the_reason_while_it_ends(self):
        port = free_port()
        agent = self.start("--nnodes", "1:2", "--rdzv-endpoint", self.endpoint, "--rdzv-conf",
                           "last_call_timeout=2", "--metrics-port", str(port), "--preempt-grace", "20s",
                           "sh", "-c", "trap '' TERM; echo here; while :; do sleep 1000 & wait; done")
        address = f"127.0.0.1:{port}"

        def answers():
            try:
                return get(address, "/healthz")
            except urllib.error.URLError:
                return None
        self.assertEqual(wait_until(answers, lambda: agent), (200, "ok\n"))
        wait_until(lambda: "here" in agent.out, lambda: agent)
        self.assertEqual(get(address, "/healthz"), (200, "ok\n"))
        self.told(agent, "stop")
        status, why = wait_until(lambda: (lambda told: told[0] != 200 and told)(get(address, "/healthz")),
                                 lambda: agent)
        self.assertEqual(status, 503)
        self.assertTrue(why.startswith("the job ends: SIGTERM was sent to "), why)
        self.told(agent, "stop")
        agent.wait()

    def test_every_node_is_unhealthy_while_the_job_saves_for_its_end(self):
        waits = "trap '' TERM USR1; echo here; while :; do sleep 1000 & wait; done"
        first, second = self.start_nodes("2", ["sh", "-c", waits], "--metrics-port", "0",
                                         "--preempt-grace", "60s")
        at = {agent: self.metrics_address(agent) for agent in (first, second)}
        for agent in at:
            wait_until(lambda: "here" in agent.out, lambda: agent)
            self.assertEqual(get(at[agent], "/healthz"), (200, "ok\n"))
        self.told(second, "save")
        for agent in at:
            # The coordinator knows of the end a moment before its own agent has the order.
            status, _ = wait_until(
                lambda: (lambda told: "the job ends: SIGUSR1 was sent to " in told[1] and told)(
                    get(at[agent], "/healthz")), lambda: agent)
            self.assertEqual(status, 503)
            self.assertIn("ddprun_healthy 0\n", get(at[agent], "/metrics")[1])
        for worker in [self.status(agent)["workers"][0] for agent in at]:
            self.assertTrue(worker["running"])
            os.kill(worker["pid"], signal.SIGKILL)
        for agent in at:
            agent.wait()

    def test_the_port_that_was_chosen_is_told_at_any_log_level(self):
        self.environment["LOGLEVEL"] = "CRITICAL"
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        self.assertEqual(get(self.metrics_address(agent), "/healthz"), (200, "ok\n"))

    def test_a_port_that_cannot_be_had_is_one_sentence(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for words, code, what in (
                    (["--metrics-port", port], 1, "Address already in use"),
                    (["--metrics-port", "70000"], 1, "is not a port"),
                    (["--metrics-port", "0", "--metrics-address", "localhost"], 1, "numeric"),
                    (["--metrics-address", "::1"], 1, "without --metrics-port"),
                    (["--metrics-port", "x"], 2, "--metrics-port")):
                with self.subTest(words):
                    agent = self.start("--standalone", *words, *WAITS)
                    self.assertEqual(agent.wait(), code, agent)
                    self.assertEqual(len(agent.err.splitlines()), 1, agent)
                    self.assertIn(what, agent.err)

    def test_the_page_needs_nothing_but_the_status(self):
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        address = self.metrics_address(agent)
        with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
            page = answer.read().decode()
            self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
            self.assertEqual(answer.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertTrue(page.endswith("</script>\n"))
        self.assertNotIn("://", page)
        self.assertNotIn("innerHTML", page)
        # What it shows are fields of the status.
        status = json.loads(get(address, "/status.json")[1])
        fields = set(re.findall(r"\bstatus\.(\w+)", page)) - {"json"}  # the name of the file
        self.assertLessEqual(fields, set(status), fields - set(status))
        self.assertLessEqual(set(re.findall(r"\bworker\.(\w+)", page)), set(status["workers"][0]))
        self.assertLessEqual(set(re.findall(r"\baccounts\.(\w+_ms)", page)), set(status["accounts"]))

    def test_the_last_lines_of_workers_are_text(self):
        line = "<script>document.title = 'taken'</script>"
        says = ["sh", "-c", f"""echo "{line}" >&2; seq 60; printf 'a\\033[31mb\\n'; exec sleep 1000"""]
        agent = self.start_alone("--metrics-port", "0", "--redirects", "1", *says)
        address = self.metrics_address(agent)
        text = wait_until(lambda: (lambda told: "[rank 0 stdout] ab" in told and told)(
            get(address, "/log.txt")[1]), lambda: agent)
        # stderr comes by a pipe here, stdout from its file; both together fill a screen.
        self.assertEqual(text.splitlines()[-2:], ["[rank 0 stdout] ab", f"[rank 0 stderr] {line}"])
        self.assertEqual(len(text.splitlines()), 50)
        skip.need("program", browser.program(), "chromium, which shows the page")
        with contextlib.closing(browser.Page(self.folder, f"http://{address}/", 390)) as page:
            shown = wait_until(lambda: (lambda told: told and line in told and told)(
                page.value("document.getElementById('log').textContent")), "the page shows the lines")
            self.assertEqual(shown, text)
            self.assertEqual(page.value("document.title"), "ddprun")
            self.assertLessEqual(page.value("document.documentElement.scrollWidth"), 390)
            self.assertIn("sh", page.value("document.getElementById('job').textContent"))

    def test_head_tells_all_but_the_body(self):
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        host, port = self.metrics_address(agent).split(":")
        for path in ("/", "/log.txt", "/metrics", "/healthz", "/status.json"):
            with self.subTest(path):
                answer = exchange(lambda: socket.create_connection((host, int(port)), timeout=10),
                                  f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
                self.assertIn(b"\r\nContent-Length: ", answer)
                self.assertTrue(answer.endswith(b"\r\n\r\n"), answer)

    def test_over_tcp_nothing_can_be_ordered(self):
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        address = self.metrics_address(agent)
        for path in ("/stop", "/save", "/drain", "/stacks", "/x", "/metrics/.."):
            request = urllib.request.Request(f"http://{address}{path}", method="POST", data=b"")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=10)
            self.assertEqual(refused.exception.code, 404)
        self.assertEqual(get(address, "/healthz"), (200, "ok\n"))


class Attacks(Jobs):
    def setUp(self):
        super().setUp()
        self.agent = self.start_alone("--metrics-port", "0", *WAITS)
        host, port = self.metrics_address(self.agent).split(":")
        self.place = (host, int(port))

    def connect(self):
        return socket.create_connection(self.place, timeout=10)

    def open_sockets(self):
        [own] = children_of(self.agent.pid)
        fds = pathlib.Path(f"/proc/{own}/fd")
        return sum("socket:" in os.readlink(fd) for fd in fds.iterdir() if fd.is_symlink())

    def has_taken(self, client):
        """Whether a process has the other end of that connection; false again once it has closed it."""
        ends = [self.place[1], client.getsockname()[1]]
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if [int(end.split(":")[1], 16) for end in fields[1:3]] == ends:
                return fields[9] != "0"  # the inode
        return False

    def check_it_serves(self):
        self.assertEqual(get("{}:{}".format(*self.place), "/healthz"), (200, "ok\n"))

    def test_what_is_too_long_or_no_http_is_refused(self):
        head = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
        for request, code in ((head + b"X: " + b"y" * 20_000 + b"\r\n\r\n", b" 431 "),
                              (b"GET /" + b"z" * 20_000 + b" HTTP/1.1\r\n\r\n", b" 431 "),
                              (b"\x00\x01\x02\r\n\r\n", b" 400 "),
                              (b"POST /metrics HTTP/1.1\r\nContent-Length: 999999\r\n\r\n", b" 413 "),
                              (head + b"Content-Length: -1\r\n\r\n", b" 400 "),
                              (b"PUT /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b" 405 "),
                              (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", b" 404 ")):
            with self.subTest(request[:40]):
                self.assertIn(code, exchange(self.connect, request).split(b"\r\n")[0])
        self.check_it_serves()

    def test_bytes_at_random_do_no_harm(self):
        import random
        dice = random.Random(17)
        good = b"GET /status.json?rank=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for _ in range(100):
            bad = bytearray(good)
            for _ in range(dice.randrange(1, 8)):
                at = dice.randrange(len(bad))
                if dice.random() < 0.5:
                    bad[at] = dice.randrange(256)
                else:
                    del bad[at:at + dice.randrange(1, 9)]
                bad = bad or bytearray(b"x")
            with self.connect() as client:
                client.sendall(bytes(bad))
                client.shutdown(socket.SHUT_WR)
        self.check_it_serves()

    def test_who_sends_nothing_is_ended_and_keeps_nobody_out(self):
        idle = [self.connect() for _ in range(40)]
        for one in idle:
            self.addCleanup(one.close)
            one.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        # All are taken, and no more than a few are kept.
        self.check_it_serves()
        self.assertLess(self.open_sockets(), 30)
        for one in idle:
            one.settimeout(20)
            try:
                self.assertEqual(one.recv(1), b"")  # within the server's five seconds
            except ConnectionResetError:
                pass

    def test_who_does_not_read_is_ended(self):
        with self.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            wait_until(lambda: self.has_taken(client), "the agent takes the connection")
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: not self.has_taken(client), "the agent closes its end")
        self.check_it_serves()


def hide_other_agents():
    """In the mounts of this process alone, the directories of sockets that others use are empty."""
    others = [f"/tmp/ddprun-{os.getuid()}", "/run/user"]
    os.makedirs(others[0], mode=0o700, exist_ok=True)
    for directory in filter(os.path.isdir, others):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "none", directory], check=True)


if __name__ == "__main__":
    if not MISSING:
        namespaces.inside()
        hide_other_agents()
    del sys.argv[1:4]
    skip.main()
