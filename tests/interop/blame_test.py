"""Who is to blame (complaint I-20) and what is known of it without any decorator (I-19), for what
really happens to PyTorch jobs. Two nodes; each must name the same rank."""
import os
import re
import signal
import sys

import interop
import skip
from memory_group import MemoryGroup
from program import is_alive, parent_of

# Every rank all-reduces for ever; what else it does is in DO, by rank.
LOOP = r"""
import datetime, os, signal, sys, time
import torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(os.environ["LIMIT"])))
show = sys.excepthook
def end_at_once(*error):  # Python's own end of a process with PyTorch takes long
    for _ in range(6000):
        if os.path.exists(os.environ.get("AFTER", "/")):
            break
        time.sleep(0.005)
    show(*error)
    sys.stderr.flush()
    os._exit(1)
sys.excepthook = end_at_once
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
    def run_loop(self, limit=30, workers=(2, 2), after_start=None, **actions):
        """A node per number of workers, in the order of the ranks; each ends with 1."""
        script = self.write("loop.py", LOOP)
        pids = self.folder / "pids"
        pids.mkdir()
        env = interop.environment(PIDS=pids, LIMIT=limit, **actions)
        nodes = self.start_nodes(
            ["--shutdown-timeout", 1, "--heartbeat-timeout", 120], [script], nodes=len(workers),
            env=env, each=lambda i: ["--nproc-per-node", workers[i], "--node-rank", i, "--rdzv-conf",
                                     f"is_host={int(i == 0)}"])
        if after_start:
            interop.wait_until(lambda: len(list(pids.iterdir())) == sum(workers), "all ranks train")
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

    def test_I_20_the_rank_that_threw_is_the_cause_its_peers_are_victims_and_the_rest_was_stopped(self):
        go = self.folder / "go"

        def fail_unseen(pids):
            # Rank 2 throws, ranks 1 and 3 lose it, rank 0 notices nothing. The coordinator, on the
            # node of rank 0, cannot order a stop before the other agents have seen all that.
            coordinator = parent_of(pids[0])
            agents = [parent_of(pids[rank]) for rank in (1, 2, 3)]
            failing = [pids[rank] for rank in (1, 2, 3)]
            for agent in [coordinator, *agents]:
                os.kill(agent, signal.SIGSTOP)
            try:
                go.touch()
                interop.wait_until(lambda: not any(map(is_alive, failing)), "three have failed")
            finally:
                for agent in agents:
                    os.kill(agent, signal.SIGCONT)
            interop.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in failing),
                               "their agents have seen it")
            os.kill(coordinator, signal.SIGCONT)
        nodes = self.run_loop(workers=(1, 1, 1, 1), after_start=fail_unseen, GO=go,
                              DO0="time.sleep(1000)",
                              DO2="end = time.monotonic() + 150\n"
                                  "while not os.path.exists(os.environ['GO']) and time.monotonic() < end:\n"
                                  "    time.sleep(0.01)\n"
                                  "raise ValueError('my own fault')")
        self.assertCause(nodes, 2)
        for node in nodes:
            self.assertIn("ValueError: my own fault", cause_of(node)[1])
            self.assertIn("blame     : cause\n", cause_of(node)[1])
            others = node.err[node.err.index("\nFailures:"):node.err.index("Root Cause (first")]
            victims = re.findall(r"rank      : (\d) .*\n.*\n  blame     : victim", others)
            self.assertEqual(sorted(victims), ["1", "3"], str(node))
            self.assertEqual(others.count("blame"), 2, others)
            self.assertRegex(others, "(?i)connection (closed|reset) by peer")
            self.assertIn("  Stopped by ddprun after that: rank 0 on ", others)

    def test_I_20_the_rank_that_left_early_without_an_error_is_named(self):
        nodes = self.run_loop(DO1="os._exit(0)")
        self.assertCause(nodes, 1)
        for node in nodes:
            self.assertRegex(cause_of(node)[1], r"it ended (\d+(\.\d)? s before|at the same time as) "
                             r"rank \d failed for the loss of a peer")
            self.assertIn("left with code 0 while others still ran", node.err)

    def test_I_20_the_rank_that_failed_when_it_had_left_the_group_is_the_cause(self):
        # Its peers end for the loss of it once it has said why, and is still on its way out.
        nodes = self.run_loop(AFTER=self.folder / "said",
                              DO1="sys.excepthook = lambda *error: (show(*error), sys.stderr.flush(), "
                                  "open(os.environ['AFTER'], 'w').close(), time.sleep(1000))\n"
                                  "dist.destroy_process_group()\nraise ValueError('my own fault')")
        self.assertCause(nodes, 1)
        for node in nodes:
            self.assertIn("ValueError: my own fault; stopped on its way out", cause_of(node)[1])

    def test_I_20_the_error_of_a_rank_is_told_though_its_process_then_aborts(self):
        nodes = self.run_loop(DO1="sys.excepthook = lambda *error: (show(*error), sys.stderr.flush(), "
                                  "os.abort())\nraise ValueError('my own fault')")
        self.assertCause(nodes, 1)
        for node in nodes:
            self.assertIn("Signal 6 (SIGABRT)", cause_of(node)[1])
            self.assertRegex(cause_of(node)[1], "stderr: .*ValueError: my own fault\n")

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
                node = self.run_job("--standalone", *options, script, code=1)
                _, block = cause_of(node)
                self.assertIn("KeyError: 'no such column'", block)
                self.assertIn("on the way", block)
                self.assertIn("plain.py\", line 3", block)


class OutOfMemory(interop.JobTest):
    needs_torch = False

    def run_in_group(self, source, *options):
        group = MemoryGroup(512 << 20)
        skip.need(skip.CGROUP, not group.why_not, group.why_not)
        self.addCleanup(group.remove)
        # Before anything else of the group: a sanitized ddprun is large too.
        script = self.write("worker.py",
                            "open('/proc/self/oom_score_adj', 'w').write('900')\n" + source)
        shell, *words = group.command(interop.DDPRUN, "--standalone", *options, script)
        return self.run_job(*words, launcher=shell, code=1,
                            env=interop.environment(PYTHON_EXEC=sys.executable))

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
