"""What people ask of running agents: the built ddpctl over the agents' Unix sockets, and from another
machine.
usage: operations_test.py DDPRUN DDPCTL TRAIN [TEST...]"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from free_port import free_port  # noqa: E402
from operated_job import DDPCTL, FAILS, NOBODY, TRAIN, WAITS, Jobs, exchange, main  # noqa: E402
from program import Program, children_of, is_alive, wait_until  # noqa: E402


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
        accounts = status["accounts"]
        self.assertGreater(incident["at_ms"], 0)
        self.assertLessEqual(incident["at_ms"] + incident["downtime_ms"], accounts["wall_ms"])
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
        self.assertEqual(self.status(first)["lost"], [])
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
        self.assertEqual(self.told_at("logs", "--rank", "0"), "[rank 0 stdout] here 0\n")
        self.assertEqual(self.refused_at(1, "logs", "--rank", "1"),
                         "ddpctl: rank 1: no worker of this rank is on that node; ddpctl status tells "
                         "which node has it\n")
        self.assertIn("cannot be followed", self.refused_at(1, "logs", "-f"))
        self.assertIn("say which node", self.refused_at(1, "drain"))
        # The other agent listens, too: for agents, and not for orders.
        for port in self.ports_of(second):
            self.assertIn("; ask the coordinator, which ddpctl status on a node of the job names",
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
        sentence = self.refused(4, None, "status")
        self.assertIn("2 agents run on this host", sentence)
        self.assertIn("choose one with --job ID or --pid PID", sentence)
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
        self.addCleanup(lambda: is_alive(own) and os.kill(own, signal.SIGCONT))
        os.kill(own, signal.SIGSTOP)
        self.assertIn("does not answer within 5 s; see whether it is stopped or its host is out of memory, and ask "
                      "again", self.refused(5, agent, "status"))
        os.kill(own, signal.SIGCONT)
        self.assertTrue(self.status(agent)["healthy"])
        os.kill(own, signal.SIGSTOP)
        self.assertIn("does not answer within 5 s; see whether it is stopped or its host is out of memory; it may "
                      "still carry the order out when it goes on, which ddpctl status shows then",
                      self.refused(5, agent, "stop"))
        os.kill(own, signal.SIGCONT)
        self.assertEqual(agent.wait(), 1, agent)

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

    def test_before_there_are_workers_logs_says_so(self):
        agent = self.start("--nnodes", "2", "--rdzv-endpoint", self.endpoint, "--tee", "3", *WAITS)
        wait_until(lambda: "1 of 2 nodes here" in agent.err, lambda: agent)
        self.assertIn("no worker runs here yet", self.refused(1, agent, "logs"))

    def test_the_coordinator_tells_where_it_is_itself(self):
        first, second = self.start_nodes("1:2", WAITS)
        place = self.status(first)["coordinator"]
        self.assertRegex(place, r":\d+$")
        self.assertEqual(place.rpartition(":")[2], self.status(second)["coordinator"].rpartition(":")[2])
        self.assertIn(f"coordinator of the job at {place}", self.told(first, "status"))

    def test_without_files_it_says_so(self):
        agent = self.start_alone(*WAITS)
        for words in ((), ("-f",), ("-f", "--rank", "0")):
            self.assertIn("--redirects 3", self.refused(1, agent, "logs", *words))
        self.assertIn("no worker of this rank", self.refused(1, agent, "logs", "-f", "--rank", "7"))

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

    def test_stacks_of_a_python_program_name_what_shows_them(self):
        (self.folder / "sleeper.py").write_text("import time\ntime.sleep(600)\n")
        agent = self.start_alone("--no-python", sys.executable, str(self.folder / "sleeper.py"))
        wait_until(lambda: self.status(agent)["workers"], lambda: agent)
        self.assertIn("py-spy", self.told(agent, "stacks"))


if __name__ == "__main__":
    main()
