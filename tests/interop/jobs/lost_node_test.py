"""PyTorch workers whose peers are gone with their node. The collective's own timeout is PyTorch's
default, 30 minutes: nobody waits for it."""
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interop  # noqa: E402
from program import family_of  # noqa: E402

# All-reduces without an end in attempt 0, and fifty steps in the next.
SCRIPT = r"""
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world, attempt = dist.get_rank(), dist.get_world_size(), os.environ["TORCHELASTIC_RESTART_COUNT"]
step = 0
while attempt == "0" or step < 50:
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total == world
    step += 1
    if step == 20:
        sys.stdout.write(f"{rank} of {world} trains in attempt {attempt}\n")
dist.destroy_process_group()
"""


class LostNode(interop.JobTest):
    def start_training(self, nnodes, *options):
        """Node 0 hosts the job; all train."""
        script = self.write("train.py", SCRIPT)
        count = int(nnodes.split(":")[1])
        nodes = self.start_nodes(["--heartbeat-timeout", 2, *options], [script], nodes=nnodes,
                                 each=lambda i: ["--rdzv-conf", f"is_host={int(i == 0)}"])
        interop.wait_until(lambda: all("trains" in node.out for node in nodes),
                           lambda: "all train:\n" + "\n".join(map(str, nodes)))
        self.assertEqual(self.worlds(nodes, 0), [count] * count)
        return nodes

    def worlds(self, nodes, attempt):
        return [int(world) for node in nodes
                for world in re.findall(f" of (\\d) trains in attempt {attempt}\n", node.out)]

    def signal_all(self, node, number):
        """To the agent, its guardian and its workers."""
        family = family_of(node.pid)
        self.assertGreaterEqual(len(family), 3)
        for pid in family:
            os.kill(pid, number)
        return family

    def assertGoOn(self, nodes, attempt="1"):
        for node in nodes:
            self.assertEnded(node)
        self.assertEqual(self.worlds(nodes, attempt), [len(nodes)] * len(nodes), str(nodes[0]))

    def test_one_of_two_nodes_is_killed_in_the_middle_of_a_collective(self):
        staying, lost = self.start_training("1:2")
        self.signal_all(lost, signal.SIGKILL)
        self.assertGoOn([staying])

    def test_one_of_three_nodes_falls_silent_in_the_middle_of_a_collective(self):
        # Its sockets stay open: Gloo sees nothing, and would wait.
        *staying, lost = self.start_training("2:3")
        stopped = self.signal_all(lost, signal.SIGSTOP)
        try:
            self.assertGoOn(staying)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)

    def test_the_node_of_the_coordinator_is_killed(self):
        lost, *staying = self.start_training("2:3")
        self.signal_all(lost, signal.SIGKILL)
        self.assertGoOn(staying, attempt="[1-9]")  # docs/failover.md: a successor leaves some out


if __name__ == "__main__":
    interop.main()
