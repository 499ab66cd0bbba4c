"""Field I-24: N copies of each warning, and a banner about OMP_NUM_THREADS with them."""
import os
import re
import signal
import sys

import interop

WARNS = """
import os, warnings
rank = os.environ["RANK"]
def note(name):
    with open(name + rank + ".part", "w") as file:
        file.write(str(os.getppid()))
    os.rename(name + rank + ".part", name + rank)
note("ready")
open("gate").close()
warnings.warn("lr_scheduler.step() before optimizer.step()")
note("done")
open("end").close()
"""
WORKERS = 8


class I24NCopiesOfEachWarning(interop.JobTest):
    needs_torch = False

    def setUp(self):
        super().setUp()
        self.script = self.write("train.py", WARNS)
        for gate in ("gate", "end"):
            os.mkfifo(self.folder / gate)

    def open_gate(self, name):
        self.addCleanup(os.close, os.open(self.folder / name, os.O_RDWR))

    def notes(self, name):
        """What the workers noted, once all of them have."""
        paths = [self.folder / f"{name}{rank}" for rank in range(WORKERS)]
        interop.wait_until(lambda: all(path.exists() for path in paths), f"8 workers {name}")
        return [int(path.read_text()) for path in paths]

    def start_job(self, *options):
        return self.start("--nproc-per-node", WORKERS, *options, self.script,
                          env=interop.environment(PYTHON_EXEC=sys.executable, LOGLEVEL="INFO"))

    def run_in_step(self, *options):
        """The agent sees all warnings at once: it is stopped while they are written. How far apart
        eight processes run on this machine plays no part."""
        job = self.start_job(*options)
        agent = self.notes("ready")[0]
        os.kill(agent, signal.SIGSTOP)
        try:
            self.open_gate("gate")
            self.notes("done")
        finally:
            os.kill(agent, signal.SIGCONT)
        self.open_gate("end")
        self.assertEnded(job)
        return job

    def test_the_same_warning_of_all_ranks_is_shown_once_and_the_omp_banner_once(self):
        job = self.run_in_step("--fold")
        self.assertEqual(len(re.findall("UserWarning", job.err)), 1, str(job))
        self.assertRegex(job.err, r"(?m)^\[0-7\] .*train\.py:\d+: UserWarning: lr_scheduler")
        self.assertRegex(job.err, r"(?m)^\[0-7\]   warnings\.warn\(")  # the second line of it
        self.assertEqual(len(re.findall("OMP_NUM_THREADS", job.err)), 1, str(job))

    def test_the_full_logs_stay_in_the_files(self):
        job = self.run_in_step("--fold", "--tee", 2, "--log-dir", self.folder / "logs")
        self.assertEqual(len(re.findall("UserWarning", job.err)), 1, str(job))
        self.assertRegex(job.err, r"(?m)^\[default0-7\]:.*UserWarning")
        files = list((self.folder / "logs").glob("*/attempt_0/*/stderr.log"))
        self.assertEqual(len(files), WORKERS)
        for file in files:
            self.assertEqual(file.read_text().count("UserWarning"), 1)

    def test_where_no_terminal_is_every_copy_is_shown_with_its_own_prefix(self):
        job = self.run_in_step("--tee", 2)
        for rank in range(WORKERS):
            self.assertEqual(len(re.findall(rf"(?m)^\[default{rank}\]:.*UserWarning", job.err)), 1,
                             str(job))

    def test_stragglers_are_collected_and_every_rank_is_told_of_once(self):
        self.open_gate("gate")
        self.open_gate("end")
        job = self.start_job("--fold")
        self.assertEnded(job)
        labels = re.findall(r"(?m)^(?:\[([0-9,-]+)\] )?/.*UserWarning", job.err)
        ranks = [rank for label in labels for rank in interop.ranks_in(label or "alone")]
        self.assertEqual(len(ranks), WORKERS, str(job))
        self.assertLess(len(labels), WORKERS, str(job))

    def test_a_template_is_for_one_rank_each_with_those_of_the_job_on_its_second_node_too(self):
        template = "${rank}/${local_rank}> "
        nodes = self.start_nodes(
            ["--fold", "--nproc-per-node", 2, "--tee", 1], ["sh", "-c", "echo same"],
            env=interop.environment(TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=template))
        seen = []
        for node in nodes:
            self.assertEnded(node)
            for rank, local_rank in re.findall(r"(?m)^(\d+)/(\d+)> same$", node.out):
                self.assertEqual(int(rank) % 2, int(local_rank), str(node))
                seen.append(int(rank))
        self.assertEqual(sorted(seen), [0, 1, 2, 3])


if __name__ == "__main__":
    interop.main()
