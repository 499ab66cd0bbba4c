"""Who is to blame (complaint I-20) and what is known of it without any decorator (I-19), for what
really happens to PyTorch jobs. Two nodes; each must name the same rank."""
import os
import pathlib
import re
import signal

import interop

# Every rank all-reduces for ever; what else it does is in DO, by rank.
LOOP = r"""
import datetime, os, signal, sys, time
import torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(os.environ["LIMIT"])))
open(os.path.join(os.environ["PIDS"], f"{rank}-{os.getpid()}"), "w").close()
for step in range(1_000_000):
    dist.all_reduce(torch.ones(4))
    if step == 20:
        exec(os.environ.get(f"DO{rank}", ""))
"""


def cause_of(node):
    """The rank and the block of the root cause."""
    block = node.err.split("Root Cause (first observed failure):")[-1]
    return int(re.search(r"rank      : (\d+)", block).group(1)), block


class Blame(interop.JobTest):
    def run_loop(self, limit=30, after_start=None, **actions):
        script = self.write("loop.py", LOOP)
        pids = self.folder / "pids"
        pids.mkdir()
        env = interop.environment(PIDS=pids, LIMIT=limit, **actions)
        nodes = self.start_nodes(["--nproc-per-node", 2, "--shutdown-timeout", 1], [script], env=env)
        if after_start:
            interop.wait_until(lambda: len(list(pids.iterdir())) == 4, "all ranks train")
            after_start({int(p.name.split("-")[0]): int(p.name.split("-")[1])
                         for p in pids.iterdir()})
        for node in nodes:
            self.assertEnded(node, 1)
        return nodes

    def assertCause(self, nodes, rank):
        for node in nodes:
            self.assertEqual(cause_of(node)[0], rank, str(node))

    def test_I_20_the_rank_that_was_killed_is_the_cause_and_those_that_lost_it_are_victims(self):
        nodes = self.run_loop(after_start=lambda pids: os.kill(pids[3], signal.SIGKILL))
        self.assertCause(nodes, 3)
        for node in nodes:
            self.assertIn("Signal 9 (SIGKILL)", cause_of(node)[1])

    def test_I_20_the_rank_that_threw_is_the_cause_though_others_threw_as_well(self):
        nodes = self.run_loop(DO2="raise ValueError('my own fault')")
        self.assertCause(nodes, 2)
        for node in nodes:
            self.assertIn("ValueError: my own fault", cause_of(node)[1])

    def test_I_20_the_rank_that_left_early_without_an_error_is_named(self):
        nodes = self.run_loop(DO1="dist.destroy_process_group(); os._exit(0)")
        text = "".join(node.err for node in nodes)
        self.assertRegex(text, r"rank 1 had ended with code 0 \d+\.\d s before", str(nodes[0]))

    def test_I_20_the_rank_that_stood_still_is_named_though_it_never_failed(self):
        nodes = self.run_loop(limit=2, after_start=lambda pids: os.kill(pids[0], signal.SIGSTOP))
        text = "".join(node.err for node in nodes)
        for node in nodes:
            self.assertIn("while rank 0 on", node.err)
            self.assertIn("it stood still, stopped by a signal (state T)", node.err, str(node))

    def test_I_19_the_reason_is_told_without_a_decorator_also_from_a_redirected_stream(self):
        script = self.write("plain.py", "import sys\nsys.stderr.write('on the way\\n')\n"
                            "raise KeyError('no such column')\n")
        for options in ([], ["--redirects", 3], ["--tee", 3], ["--redirects", "0:3"]):
            with self.subTest(options=options):
                node = self.run_job("--standalone", *options, script)
                self.assertEnded(node, 1)
                _, block = cause_of(node)
                self.assertIn("KeyError: 'no such column'", block)
                self.assertIn("on the way", block)
                self.assertIn("plain.py\", line 3", block)


class OutOfMemory(interop.JobTest):
    """In a real control group with a real limit, which takes root and a memory controller."""
    ROOT = pathlib.Path("/sys/fs/cgroup/memory")

    def setUp(self):
        super().setUp()
        self.group = self.ROOT / f"ddprun-test-{os.getpid()}"
        try:
            self.group.mkdir()
            (self.group / "memory.limit_in_bytes").write_text(str(512 * 1024 * 1024))
        except OSError as error:
            self.skipTest(f"no control group with a memory limit can be made here: {error}")
        self.addCleanup(self.remove_group)

    def remove_group(self):
        def removed():
            try:
                self.group.rmdir()
                return True
            except OSError:
                return False
        interop.wait_until(removed, "the control group is empty", seconds=10)

    def run_in_group(self, source, *options):
        # Before anything else of the group: a sanitized ddprun is large too.
        script = self.write("worker.py",
                            "open('/proc/self/oom_score_adj', 'w').write('900')\n" + source)
        node = self.start("-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', self.group,
                          interop.DDPRUN, "--standalone", *options, script, launcher="/bin/sh")
        self.assertEnded(node, 1)
        return node

    def test_a_worker_beyond_the_limit_is_told_to_have_run_out_of_memory(self):
        node = self.run_in_group("data = []\nwhile True:\n    data.append(bytearray(8 << 20))\n")
        _, block = cause_of(node)
        self.assertIn("Signal 9 (SIGKILL)", block)
        self.assertIn("out of memory: ", block)

    def test_a_child_beyond_the_limit_is_told_with_the_worker_that_failed_of_it(self):
        node = self.run_in_group("""
import os, sys
child = os.fork()
if child == 0:
    data = []
    while True:
        data.append(bytearray(8 << 20))
os.waitpid(child, 0)
sys.exit("the loader's worker is gone")
""")
        _, block = cause_of(node)
        self.assertIn("the loader's worker is gone", block)
        self.assertIn("out of memory: the kernel killed a process", block)

    def test_a_plain_kill_is_not_taken_for_it(self):
        node = self.run_in_group("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
        _, block = cause_of(node)
        self.assertIn("not by the kernel for want of memory", block)
        self.assertNotIn("out of memory", block)


if __name__ == "__main__":
    interop.main()
