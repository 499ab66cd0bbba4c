"""ddprun and train under a real mpirun, without any option of theirs."""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from program import Program  # noqa: E402

BIN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin"))
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


class Mpirun(unittest.TestCase):
    def setUp(self):
        skip.need(skip.MPIRUN, shutil.which("mpirun"), "there is no mpirun on this machine")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-mpirun-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, name, *words):
        # Two that begin at once would make one folder for their sessions: "File exists", and one ends.
        sessions = self.folder / f"{name}.sessions"
        sessions.mkdir()
        environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", OMP_NUM_THREADS="1",
                           OMPI_MCA_orte_tmpdir_base=str(sessions))
        program = Program(self.folder, name, MPIRUN + list(words), env=environment, cwd=self.folder)
        self.addCleanup(program.end)
        return program

    def run_to_end(self, *words, code=0):
        program = self.start("job", *words)
        self.assertEqual(program.wait(60), code, str(program))
        return program

    def test_train_is_a_rank_of_mpiruns_world(self):
        done = self.run_to_end("-np", "2", "train", "linear", "2", "1")
        self.assertEqual(set(re.findall(r"^\[CPU(\d)\] Epoch 1 ", done.out, re.M)), set("01"), done.out)

    def test_one_ddprun_on_each_node_is_a_node_of_the_job(self):
        done = self.run_to_end("--map-by", "ppr:1:node", "ddprun", "train", "linear", "2", "1")
        self.assertIn("Training finished: 2 epochs", done.out)
        self.assertNotIn("rdzv", done.err)

    def test_several_ddprun_on_one_host_meet_there(self):
        done = self.run_to_end("-np", "3", "ddprun", "bash", "-c", "echo rank $RANK of $WORLD_SIZE")
        self.assertEqual(sorted(done.out.splitlines()), [f"rank {rank} of 3" for rank in range(3)])
        [taken] = re.findall(r"^.*--nnodes.*$", done.err, re.M)
        self.assertRegex(taken, r"mpirun of Open MPI: --nnodes 3 \(OMPI_COMM_WORLD_SIZE\), "
                         r"--rdzv-endpoint 127\.0\.0\.1:2\d{4} .*, --rdzv-id \d+ \(PMIX_NAMESPACE\)")

    def test_two_runs_at_once_do_not_meet(self):
        script = ("echo up; until [ $(cat *.out | grep -c up) = 4 ]; do sleep 0.02; done; "
                  "echo rank $RANK of $WORLD_SIZE")
        runs = [self.start(name, "-np", "2", "ddprun", "bash", "-c", script) for name in ("a", "b")]
        for run in runs:
            self.assertEqual(run.wait(60), 0, str(run))
            self.assertEqual(sorted(run.out.splitlines())[:2], ["rank 0 of 2", "rank 1 of 2"])

    def test_no_scheduler_makes_each_a_job_of_its_own(self):
        done = self.run_to_end("-np", "2", "ddprun", "--no-scheduler", "bash", "-c",
                               "echo rank $RANK of $WORLD_SIZE")
        self.assertEqual(done.out.splitlines(), ["rank 0 of 1"] * 2)


if __name__ == "__main__":
    skip.main()
