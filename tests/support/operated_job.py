"""What the tests of running agents share: jobs that ddpctl and HTTP clients look at. Its programs are the
first words of the test's command line: DDPRUN DDPCTL TRAIN."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

import namespaces
import skip
from free_port import free_port
from program import Program, wait_until

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


def hide_other_agents():
    """In the mounts of this process alone, the directories of sockets that others use are empty."""
    others = [f"/tmp/ddprun-{os.getuid()}", "/run/user"]
    os.makedirs(others[0], mode=0o700, exist_ok=True)
    for directory in filter(os.path.isdir, others):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "none", directory], check=True)


def main():
    """Runs the tests of the program that was started."""
    if not MISSING:
        namespaces.inside()
        hide_other_agents()
    del sys.argv[1:4]
    skip.main()
