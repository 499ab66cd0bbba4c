"""Field I-24: N copies of each warning of Python, and a banner about OMP_NUM_THREADS with them. What
needs no Python: tests/e2e/fold_test.cc."""
import re
import sys

import in_step
import interop

WARNS = in_step.WORKER + """
import warnings
before()
warnings.warn("lr_scheduler.step() before optimizer.step()")
after()
"""
WORKERS = 8


class I24NCopiesOfEachWarning(interop.JobTest):
    needs_torch = False

    def test_the_same_warning_of_all_ranks_is_shown_once_and_the_omp_banner_once(self):
        script = self.write("train.py", WARNS)
        workers = in_step.InStep(self, WORKERS)
        job = self.start("--nproc-per-node", WORKERS, "--fold", script,
                         env=interop.environment(PYTHON_EXEC=sys.executable, LOGLEVEL="INFO"))
        workers.let_write()
        self.assertEnded(job)
        self.assertEqual(len(re.findall("UserWarning", job.err)), 1, str(job))
        self.assertRegex(job.err, r"(?m)^\[0-7\] .*train\.py:\d+: UserWarning: lr_scheduler")
        self.assertRegex(job.err, r"(?m)^\[0-7\]   warnings\.warn\(")  # the second line of it
        self.assertEqual(len(re.findall("OMP_NUM_THREADS", job.err)), 1, str(job))

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
