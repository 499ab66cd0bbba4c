"""A job of the built ddprun whose coordinator is decided by a service: its agents, and what they have said."""
import os
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

from program import Program, children_of, wait_until

WAITS = ["sh", "-c", 'echo "rank $RANK of $WORLD_SIZE attempt $TORCHELASTIC_RESTART_COUNT pid $$$$"; '
         'until [ -e end ]; do sleep 0.02; done']
COORDINATES = "this node is the coordinator from here on"


class ServiceJob(unittest.TestCase):
    ddprun = None  # its path, by the test's command line

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-service-"))
        # An agent that was ended may still be removing what is its own there.
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.agents = []

    def start_agent(self, nnodes, *words, program=WAITS, env=None):
        agent = Program(self.folder, f"agent{len(self.agents)}", [
            self.ddprun, "--nnodes", nnodes, "--rdzv-id", "job", "--join-timeout", "60",
            "--rdzv-conf", "last_call_timeout=1", *words, *program], cwd=self.folder,
            env={**os.environ, "LOGLEVEL": "INFO", "TMPDIR": str(self.folder), **(env or {})})
        self.agents.append(agent)
        self.addCleanup(agent.end)
        return agent

    def start(self, nnodes, *words):
        """An agent that asks the service of this test."""
        raise NotImplementedError

    def start_job(self, nodes, nnodes, *words):
        agents = [self.start(nnodes, *words) for _ in range(nodes)]
        self.wait_for_world(agents, nodes)
        return agents

    def wait_for_world(self, agents, size, since=None):
        """Each has a worker in a world of that size, begun after `since` (lines that each had said)."""
        for agent in agents:
            at = since[agent] if since else 0
            wait_until(lambda: f" of {size} attempt" in agent.out[at:], lambda: agent)

    def said(self, agents):
        return {agent: len(agent.out) for agent in agents}

    def coordinator_of(self, agents):
        """The agent that came to lead last, and the others."""
        leading = [agent for agent in agents if COORDINATES in agent.err]
        self.assertEqual(len(leading), 1, leading)
        return leading[0], [agent for agent in agents if agent is not leading[0]]

    def kill_agent(self, agent):
        """The agent itself: its guardian ends what it leaves behind."""
        os.kill(children_of(agent.pid)[0], signal.SIGKILL)
        self.assertEqual(agent.wait(), 128 + signal.SIGKILL)

    def start_job_whose_coordinator_is_killed(self):
        """Of three nodes. Returns the two that went on; no lease of the service was waited for."""
        agents = self.start_job(3, "2:3")
        first, others = self.coordinator_of(agents)
        before = self.said(others)
        killed_at = time.monotonic()
        self.kill_agent(first)
        self.wait_for_world(others, 2, before)
        self.assertLess(time.monotonic() - killed_at, 12, others)
        second, _ = self.coordinator_of(others)
        self.assertIn("term 2", second.err)
        self.assertNotIn(" attempt 0 ", "".join(agent.out[before[agent]:] for agent in others))
        return others

    def start_job_whose_coordinator_is_stopped(self):
        """Of three nodes, for as long as the others need to go on without it: no kernel says that this
        process is dead, so they go by the service's lease. Then it ends its workers, and joins them."""
        agents = self.start_job(3, "2:3", "--heartbeat-timeout", "1")
        first, others = self.coordinator_of(agents)
        stopped = children_of(first.pid)[0]
        before = self.said(agents)
        os.kill(stopped, signal.SIGSTOP)
        try:
            self.wait_for_world(others, 2, before)
        finally:
            os.kill(stopped, signal.SIGCONT)
        self.wait_for_world(agents, 3, before)
        self.assertIn("this node is no coordinator any more", first.err)
        return agents
