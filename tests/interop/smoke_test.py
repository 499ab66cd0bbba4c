"""A PyTorch script under ddprun: the least that everything else here stands on."""
import interop

ALL_REDUCE = r"""
import sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
# One write: print() makes two, and the other workers write to the same pipe.
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} has {total.item():.0f}\n")
dist.destroy_process_group()
"""


class Smoke(interop.JobTest):
    def test_ranks_of_two_nodes_with_different_numbers_of_workers_reduce_together(self):
        script = self.write("reduce.py", ALL_REDUCE)
        nodes = self.run_nodes([], [script], each=lambda i: ["--nproc-per-node", 1 + 2 * i])
        self.assertEqual(interop.lines_of(nodes), [f"rank {rank} of 4 has 10" for rank in range(4)])


if __name__ == "__main__":
    interop.main()
