"""PyTorch jobs that stand still (complaints I-12 and I-16): without our runtime nothing tells what a
worker does, so ddprun goes by processor time and output, and Python's own fault handler tells where
each worker stood."""
import re

import interop

# In attempt 0 the last rank stops coming to the all_reduce; Gloo's others wait inside the kernel.
SCRIPT = r"""
import datetime, os, sys, time
import torch, torch.distributed as dist

def stand_still():
    time.sleep(1000)

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
for step in range(50):
    if attempt == "0" and step == 20 and rank == 1:
        stand_still()
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
os.write(1, f"rank {rank} done in attempt {attempt}\n".encode())
"""


class Hang(interop.JobTest):
    def test_a_rank_that_sleeps_for_ever_is_found_its_stack_told_and_the_job_restarted(self):
        script = self.write("train.py", SCRIPT)
        logs = self.folder / "logs"
        node = self.run_job("--standalone", "--nproc-per-node", 2, "--hang-timeout", 3,
                            "--max-restarts", 1, "--shutdown-timeout", 2, "--redirects", 2,
                            "--log-dir", logs, script)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} done in attempt 1", node.out, str(node))
        self.assertRegex(node.err, r"ranks 0, 1 made no progress for ([3-9](\.\d)?|\d\d) s")
        self.assertIn("restarts used: 1 of 1", node.err)
        # Nobody knows who is late, and so nobody is named; but the stacks of all are there.
        self.assertIn("workers hung: ranks 0, 1 tell nothing (without the worker runtime)", node.err)
        said = [next(logs.rglob(f"attempt_0/{rank}/stderr.log")).read_text() for rank in (0, 1)]
        self.assertIn("in all_reduce", said[0])
        self.assertIn("in stand_still", said[1])
        self.assertTrue(re.search(r"in (all_reduce|stand_still)", node.err), str(node))
        stacks = [next(logs.rglob(f"attempt_0/{rank}/stacks.txt")).read_text() for rank in (0, 1)]
        for text in stacks:
            self.assertIn("state S (sleeping)", text)


if __name__ == "__main__":
    interop.main()
