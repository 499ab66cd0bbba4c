"""The built ddprun in the environments of schedulers that no Debian has. Their variables are set as their
documentation describes them; the nodes are names of this machine."""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import namespaces  # noqa: E402
import skip  # noqa: E402
from named_hosts import NamedHosts  # noqa: E402
from program import Program  # noqa: E402

DDPRUN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin")) / "ddprun"
MISSING = namespaces.missing()
PODS = [f"ddp-{index}.workers.default.svc.cluster.local ddp-{index}" for index in range(2)]
PROGRAM = ["bash", "-c", "echo rank $RANK of $WORLD_SIZE"]
FOLDER = None


def setUpModule():
    global FOLDER
    if MISSING:
        skip.need(MISSING[0], False, MISSING[1])
    FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-documented-"))
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, ignore_errors=True)
    NamedHosts(FOLDER, ["n1", "n2", *PODS], "login")
    (FOLDER / "nodes").write_text("n1\nn1\nn2\nn2\n")


class Documented(unittest.TestCase):
    def start(self, name, variables, *words, host="login"):
        """ddprun on a host of this name."""
        command = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh", DDPRUN, *words]
        program = Program(FOLDER, f"{self.id()}.{name}", command, env={"PATH": os.environ["PATH"], **variables})
        self.addCleanup(program.end)
        return program

    def assertOneJob(self, agents, *taken):
        for agent in agents:
            self.assertEqual(agent.wait(60), 0, str(agent))
        self.assertEqual(sorted(line for agent in agents for line in agent.out.splitlines()),
                         [f"rank {rank} of {len(agents)}" for rank in range(len(agents))])
        for text in taken:
            self.assertIn(text, agents[0].err)

    def test_pbsdsh_on_two_nodes(self):
        agents = [self.start(node, {"PBS_JOBID": "15422.login", "PBS_NODEFILE": str(FOLDER / "nodes"),
                                    "PBS_NODENUM": str(node), "PBS_TASKNUM": str(node + 2)}, *PROGRAM)
                  for node in range(2)]
        self.assertOneJob(agents, "[ddprun] PBS job: --nnodes 2 (PBS_NODEFILE), --rdzv-endpoint n1:25422 "
                          "(PBS_NODEFILE), --rdzv-id 15422.login (PBS_JOBID)")

    def test_one_line_of_the_job_says_who_could_join_unless_it_has_a_token(self):
        for token, lines in ({}, 1), ({"DDPRUN_JOB_TOKEN": "a secret of sixteen bytes"}, 0):
            agents = [self.start(f"{node}-{lines}", {
                "PBS_JOBID": f"1542{lines}.login", "PBS_NODEFILE": str(FOLDER / "nodes"), "PBS_NODENUM": str(node),
                "PBS_TASKNUM": str(node + 2), **token}, *PROGRAM) for node in range(2)]
            self.assertOneJob(agents)
            told = [agent.err.count("[ddprun] whoever reaches n1:2542") for agent in agents]
            self.assertEqual(sum(told), lines, "".join(agent.err for agent in agents))

    def test_a_node_file_that_is_not_there_is_an_error_with_what_to_do(self):
        agent = self.start("alone", {"PBS_JOBID": "15422.login", "PBS_NODEFILE": "/nowhere/nodes",
                                     "PBS_NODENUM": "1", "PBS_TASKNUM": "1"}, *PROGRAM)
        self.assertEqual(agent.wait(60), 1)
        self.assertEqual(agent.err, "ddprun: PBS_NODEFILE: '/nowhere/nodes' cannot be read on this node; give "
                         "--nnodes and --rdzv-endpoint HOST:PORT; or copy the file to a folder that all nodes "
                         "see, and set PBS_NODEFILE to it\n")

    def test_blaunch_on_two_hosts(self):
        agents = [self.start(task, {"LSB_JOBID": "8301", "LSB_MCPU_HOSTS": "n1 8 n2 8",
                                    "LSF_PM_TASKID": str(task)}, *PROGRAM) for task in (1, 2)]
        self.assertOneJob(agents, "[ddprun] LSF job: --nnodes 2 (LSB_MCPU_HOSTS), --rdzv-endpoint n1:28301 "
                          "(LSB_MCPU_HOSTS), --rdzv-id 8301 (LSB_JOBID)")

    def test_pods_of_an_indexed_job_once_they_are_told_how_many_they_are(self):
        agents = [self.start(index, {"JOB_COMPLETION_INDEX": str(index)}, "--nnodes", "2", *PROGRAM,
                             host=f"ddp-{index}") for index in range(2)]
        self.assertOneJob(agents, "--rdzv-endpoint ddp-0.workers.default.svc.cluster.local:29400 (the pod's name), "
                          "--rdzv-id ddp (the pod's name)")

    def test_a_pod_that_is_not_told_is_alone_and_says_what_is_needed(self):
        agent = self.start("alone", {"JOB_COMPLETION_INDEX": "1"}, *PROGRAM, host="ddp-1")
        self.assertOneJob([agent], "[ddprun] JOB_COMPLETION_INDEX: Kubernetes does not tell a pod how many")

    def test_several_nodes_at_a_loopback_address_are_refused(self):
        variables = {"LSB_JOBID": "8301", "LSB_MCPU_HOSTS": "login 8 n2 8", "LSF_PM_TASKID": "2"}
        for words, given in (([], "LSB_MCPU_HOSTS: 'login:28301'"),
                             (["--rdzv-endpoint", "localhost:7"], "--rdzv-endpoint: 'localhost:7'")):
            agent = self.start(given[:5], variables, *words, *PROGRAM, host="n2")
            self.assertEqual(agent.wait(60), 1)
            self.assertEqual(agent.err, f"ddprun: {given} is this node's own loopback address, but the LSF job "
                             "has several nodes: every node would be a world of its own; name the first node "
                             "by an address that the others reach\n")


if __name__ == "__main__":
    if not MISSING:
        namespaces.inside()
    skip.main()
