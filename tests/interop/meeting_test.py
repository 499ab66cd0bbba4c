"""Meeting, with PyTorch as the judge: I-1 (a real TCPStore on the port), I-4 (Gloo across nodes
that cannot resolve each other's names, nor their own), I-5 (two jobs with process groups at once)."""
import interop
import namespaces
import skip

MISSING = namespaces.missing()

REDUCE = """
import os, socket, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()} has "
      f"{total.item():.0f} by {os.environ['MASTER_ADDR']}", flush=True)
dist.destroy_process_group()
"""


class Meeting(interop.JobTest):
    def start_on(self, node, *words):
        """With a host name of its own that nobody can resolve."""
        return self.start("netns", "exec", f"node{node}", "unshare", "-u", "sh", "-c",
                          'hostname "$0" && exec "$@"', f"nowhere{node}", interop.DDPRUN, *words,
                          launcher="ip")

    def test_i4_gloo_meets_across_nodes_that_resolve_no_name_not_even_their_own(self):
        if MISSING:
            skip.need(MISSING[0], False, MISSING[1])
        network = namespaces.Nodes(2, self.folder)
        self.addCleanup(network.close)
        script = self.write("reduce.py", REDUCE)
        nodes = [self.start_on(node, "--nnodes", 2, "--rdzv-endpoint",
                               f"{network.address(0)}:29400", script) for node in (1, 0)]
        for node in nodes:
            self.assertEnded(node)
        said = sorted(line for node in nodes for line in node.out.splitlines())
        self.assertEqual(said, ["rank 0 of 2 on nowhere0 has 3 by 10.77.0.1",
                                "rank 1 of 2 on nowhere1 has 3 by 10.77.0.1"])

    def test_i1_a_pytorch_store_on_the_port_is_called_one(self):
        ports = self.host_stores()
        jobs = [self.start("--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{port}", *more, "true")
                for port in ports
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
    if not MISSING:
        namespaces.inside()
    interop.main()
