"""Meeting, with PyTorch as the judge: I-1 (a real TCPStore on the port), I-4 (Gloo across nodes
that cannot resolve each other's names, nor their own), I-5 (two jobs with process groups at once)."""
import os
import subprocess

import interop

REDUCE = """
import os, socket, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()} has "
      f"{total.item():.0f} by {os.environ['MASTER_ADDR']}", flush=True)
dist.destroy_process_group()
"""

STORES = """
import time, torch.distributed as dist
stores = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=libuv)
          for libuv in (True, False)]
print("ports", *[store.port for store in stores], flush=True)
time.sleep(1000)
"""


def ip(*words):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)


class Namespaces:
    """Nodes with addresses 10.79.0.1 ... on one bridge, in a hub namespace of their own."""

    def __init__(self, nodes):
        self.names = [f"ddpmeet{os.getpid()}n{i}" for i in range(nodes)]
        self.hub = f"ddpmeet{os.getpid()}hub"
        commands = [("netns", "add", self.hub),
                    ("-n", self.hub, "link", "add", "bridge0", "type", "bridge"),
                    ("-n", self.hub, "link", "set", "bridge0", "up")]
        for i, name in enumerate(self.names):
            commands += [("netns", "add", name),
                         ("-n", self.hub, "link", "add", f"p{i}", "type", "veth", "peer", "name",
                          "eth0", "netns", name),
                         ("-n", self.hub, "link", "set", f"p{i}", "master", "bridge0", "up"),
                         ("-n", name, "addr", "add", f"10.79.0.{i + 1}/24", "dev", "eth0"),
                         ("-n", name, "link", "set", "eth0", "up"),
                         ("-n", name, "link", "set", "lo", "up")]
        self.why_not = ""
        for command in commands:
            done = ip(*command)
            if done.returncode != 0:
                self.why_not = f"no network namespaces here: {done.stderr.strip()}"
                return

    def remove(self):
        for name in [*self.names, self.hub]:
            ip("netns", "del", name)


class Meeting(interop.JobTest):
    def namespaces(self, nodes):
        if os.geteuid() != 0:
            self.skipTest("network namespaces need root")
        network = Namespaces(nodes)
        self.addCleanup(network.remove)
        if network.why_not:
            self.skipTest(network.why_not)
        return network

    def start_on(self, network, node, *words):
        """With a host name of its own that nobody can resolve."""
        return self.start("netns", "exec", network.names[node], "unshare", "-u", "sh", "-c",
                          'hostname "$0" && exec "$@"', f"nowhere{node}", interop.DDPRUN, *words,
                          launcher="ip")

    def test_i4_gloo_meets_across_nodes_that_resolve_no_name_not_even_their_own(self):
        network = self.namespaces(2)
        script = self.write("reduce.py", REDUCE)
        nodes = [self.start_on(network, node, "--nnodes", 2, "--rdzv-endpoint", "10.79.0.1:29400",
                               script) for node in (1, 0)]
        for node in nodes:
            self.assertEnded(node)
        said = sorted(line for node in nodes for line in node.out.splitlines())
        self.assertEqual(said, ["rank 0 of 2 on nowhere0 has 3 by 10.79.0.1",
                                "rank 1 of 2 on nowhere1 has 3 by 10.79.0.1"])

    def test_i1_a_pytorch_store_on_the_port_is_called_one(self):
        stores = self.start(self.write("stores.py", STORES), launcher=interop.PYTHON)
        line = interop.wait_until(lambda: "ports" in stores.out and stores.out, "two stores")
        jobs = [self.start("--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{port}", *more, "true")
                for port in line.split()[1:]
                for more in ([], ["--rdzv-conf", "is_host=0", "--join-timeout", 7])]
        for job in jobs:
            self.assertEnded(job, 1)
            self.assertIn("a PyTorch store (of a job under torchrun, or of a script that hosts its "
                          "own) listens there, and it does not speak ddprun's protocol", job.err)
            self.assertEqual(job.err.count("\nddprun: ") + job.err.startswith("ddprun: "), 1)

    def test_i5_two_jobs_with_process_groups_run_at_once_on_their_default_ports(self):
        script = self.write("reduce.py", REDUCE)
        jobs = [self.start("--standalone", script), self.start("--rdzv-backend", "c10d", script),
                self.start("--nproc-per-node", 1, script)]
        for job in jobs:
            self.assertEnded(job)
            self.assertIn("rank 0 of 1 ", job.out)


if __name__ == "__main__":
    interop.main()
