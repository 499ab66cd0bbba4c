"""A job of the built ddprun that meets at one port of this machine, as its tests start and end it."""
import os
import pathlib
import shutil
import tempfile
import unittest

from free_port import free_port
from program import Program, wait_until


class EndpointJob(unittest.TestCase):
    ddprun = None  # its path, by the test's command line

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-job-"))
        # An agent that was ended may still be removing what is its own there.
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.port = free_port()
        self.agents = []

    def start_agent(self, nnodes, job_id, *words, host="127.0.0.1", runner=(), env=None):
        agent = Program(self.folder, f"agent{len(self.agents)}", [
            *runner, self.ddprun, "--nnodes", nnodes, "--rdzv-endpoint", f"{host}:{self.port}", "--rdzv-id", job_id,
            "--join-timeout", "60", *words], cwd=self.folder,
            env={**os.environ, "TMPDIR": str(self.folder), **(env or {})})
        self.agents.append(agent)
        self.addCleanup(agent.end)
        return agent

    def wait_for_workers(self, agents, starts=1):
        for agent in agents:
            wait_until(lambda: agent.out.count(" attempt ") == starts, lambda: agent)

    def end_well(self, agents):
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)
