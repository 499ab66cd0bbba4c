"""ddprun under a real Slurm, by `srun ddprun PROGRAM` and little more: what it takes from Slurm, and what
becomes of a job when a worker, a node, a limit or an administrator ends a part of it."""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import namespaces  # noqa: E402
import skip  # noqa: E402
import slurm_cluster  # noqa: E402
from program import wait_until  # noqa: E402

BIN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin"))
MISSING = slurm_cluster.missing()
NODES = 4
SRUN = ["srun", f"--nodes={NODES}", "--ntasks-per-node=1"]
CLUSTER = None


def setUpModule():
    global CLUSTER
    if MISSING:
        skip.need(MISSING[0], False, MISSING[1])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-slurm-"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    # Workers write to memory and compute with one thread: four nodes share this machine.
    os.environ.update(PATH=f"{BIN}:{os.environ['PATH']}", OMP_NUM_THREADS="1")
    CLUSTER = slurm_cluster.SlurmCluster(folder, NODES)
    unittest.addModuleCleanup(CLUSTER.close)


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = CLUSTER.folder / self.id().rsplit(".", 1)[1]
        self.folder.mkdir()
        self.addCleanup(CLUSTER.end_jobs)

    def start(self, *command, env=None):
        program = CLUSTER.start(*command, env=env, cwd=self.folder)
        self.addCleanup(program.end)
        return program

    def run_to_end(self, *command, code=0):
        program = self.start(*command)
        self.assertEqual(program.wait(60), code, str(program))
        return program

    def submit(self, script, *options):
        """Its output is in self.path("out")."""
        return CLUSTER.submit(script, "--nodes=4", "--ntasks-per-node=1", f"--chdir={self.folder}",
                              f"--output={self.path('out')}", "--open-mode=append", *options)

    def path(self, name):
        return self.folder / name

    def said(self, name="out"):
        return self.path(name).read_text() if self.path(name).exists() else ""

    def wait_for_lines(self, count, pattern, text):
        """`text()` is asked until it has so many lines that match."""
        wait_until(lambda: len(re.findall(pattern, text(), re.M)) >= count,
                   lambda: f"{count} times {pattern!r} in:\n{text()}", 60)

    def assertNothingIsLeft(self):
        wait_until(lambda: not self.left(), lambda: f"nothing of the job is left, but {self.left()}", 20, every=0.1)

    @staticmethod
    def left():
        return {pid: name for pid, name in CLUSTER.processes(OMP_NUM_THREADS="1").items()
                if re.match(r"\S*(ddprun|ddp-guardian|train|sleep)\b", name)}

    def test_srun_without_any_option_trains_on_all_nodes(self):
        done = self.run_to_end(*SRUN, "ddprun", "train", "linear", "2", "1")
        self.assertEqual(set(re.findall(r"^\[CPU(\d)\] Epoch 1 ", done.out, re.M)), set("0123"), done.out)
        self.assertIn("Training finished: 2 epochs", done.out)
        [taken] = re.findall(r"^\[ddprun\] Slurm job: .*$", done.err, re.M)
        self.assertRegex(taken, r"--nnodes 4 \(SLURM_STEP_NUM_TASKS\), --rdzv-endpoint n1:2\d{4} "
                         r"\(SLURM_STEP_NODELIST\), --rdzv-id \d+\.0 ")

    def test_tasks_of_unequal_number_are_one_agent_each(self):
        done = self.run_to_end("srun", "--nodes=3", "--ntasks=4", "ddprun", "bash", "-c",
                               "echo rank $RANK of $WORLD_SIZE is task $SLURM_PROCID")
        # Which of them hosts the endpoint, and so has rank 0, is open: here each node has its address.
        ranks, tasks = zip(*(line.split(" is ") for line in sorted(done.out.splitlines())))
        self.assertEqual(list(ranks), [f"rank {i} of 4" for i in range(4)])
        self.assertEqual(sorted(tasks), [f"task {i}" for i in range(4)])

    def test_a_worker_for_each_gpu_that_slurm_gives_to_the_node(self):
        done = self.run_to_end("srun", "--partition=gpu", "--gpus-per-node=2", "ddprun", "bash", "-c",
                               "echo $LOCAL_RANK of $LOCAL_WORLD_SIZE")
        self.assertEqual(sorted(done.out.split("\n")[:-1]), ["0 of 2", "1 of 2"])
        self.assertRegex(done.err, r"Slurm job: --nproc-per-node 2 \((SLURM_GPUS_ON_NODE|visible GPUs)\)")

    def test_a_failed_worker_restarts_on_all_nodes(self):
        done = self.run_to_end(*SRUN, "ddprun", "--max-restarts", "1", "bash", "-c",
                               "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec echo again $RANK; "
                               "[ $RANK = 2 ] && exit 3; exec sleep 100")
        self.assertEqual(sorted(done.out.split("\n")[:-1]), [f"again {rank}" for rank in range(4)])
        self.assertNothingIsLeft()

    def test_a_script_that_calls_ddprun_without_srun_runs_on_one_node_and_says_so(self):
        job = self.submit("ddprun bash -c 'echo rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME'")
        CLUSTER.wait_for_job(job, "COMPLETED")
        self.assertIn("rank 0 of 1 on n1\n", self.said())
        self.assertIn("[ddprun] SLURM_JOB_NUM_NODES: the job has 4 nodes, but srun did not start ddprun",
                      self.said())

    def test_a_script_that_a_task_of_another_job_submitted_is_alone_too(self):
        script = self.path("script")
        script.write_text("#!/bin/bash\nddprun bash -c 'echo rank $RANK of $WORLD_SIZE in "
                          "${SLURM_STEP_NODELIST-no step}'\n")
        for name, nodes in {"others": "n1,n2", "same": "n3,n4"}.items():
            with self.subTest(nodes=name):
                self.run_to_end("srun", "--nodelist=n3,n4", "bash", "-c",
                                f"[ $SLURM_PROCID = 1 ] || exec sbatch --nodelist={nodes} --nodes=2 "
                                f"--output={self.path(name)} {script}")
                # It has the step of the task that submitted it in its environment.
                self.wait_for_lines(1, r"^rank 0 of 1 in n\[3-4\]$", lambda at=name: self.said(at))

    def test_a_heterogeneous_step_is_one_job(self):
        done = self.run_to_end("srun", "--nodes=1", "ddprun", "bash", "-c", "echo $RANK of $WORLD_SIZE", ":",
                               "--nodes=1", "ddprun", "bash", "-c", "echo $RANK of $WORLD_SIZE")
        self.assertEqual(sorted(done.out.splitlines()), ["0 of 2", "1 of 2"])

    def test_mpirun_in_a_job_starts_the_agents_and_slurm_tells_where_they_meet(self):
        skip.need(skip.MPIRUN, shutil.which("mpirun"), "there is no mpirun on this machine")
        job = self.submit("mpirun --allow-run-as-root --map-by ppr:1:node ddprun bash -c "
                          "'echo rank $RANK of $WORLD_SIZE by $OMPI_COMM_WORLD_SIZE'")
        CLUSTER.wait_for_job(job, "COMPLETED", "FAILED")
        self.wait_for_lines(4, r"^rank \d of 4 by 4$", self.said)
        self.assertRegex(self.said(), r"mpirun of Open MPI: --nnodes 4 \(OMPI_COMM_WORLD_SIZE\), "
                         r"--rdzv-endpoint n1:2\d{4} \(SLURM_JOB_NODELIST\)")

    def test_scancel_saves_and_ends_every_agent_in_order(self):
        job = self.submit("srun ddprun train linear 1000000000 1000000000\n")
        self.wait_for_lines(4, r"^\[CPU\d\] Epoch 3 ", self.said)
        CLUSTER.run("scancel", job)
        CLUSTER.wait_for_job(job, "CANCELLED")
        self.assertNothingIsLeft()
        self.wait_for_lines(4, r"^ddprun: job preempted", self.said)
        self.assertTrue(list(self.path("snapshot.ddp").glob("0*/manifest.json")), self.said())

    def test_the_signal_before_the_limit_has_the_job_saved_with_75(self):
        # The limit of a minute is the shortest. Slurm signals the scripts, too, and not only their agents:
        # one that had saved before its agent has read the signal would be a worker that failed.
        job = self.submit("""srun ddprun bash -c '
                          save() {
                            # It comes from Slurm and from the agent. A child that sleeps dies of it. Both may
                            # have come before the first was heeded: then five seconds are enough.
                            trap agent=heard USR1
                            for part in $(seq 50); do [ "$agent" ] && break; sleep 0.1; done
                            echo saved $RANK
                            exit 75
                          }
                          # Slurm signals one process after the other: a child that dies first is no end.
                          trap save USR1; echo up $RANK; while :; do sleep 100 & wait; done'
                          echo code $?""", "--signal=USR1@58", "--time=1")
        self.wait_for_lines(4, r"^up \d$", self.said)
        CLUSTER.wait_for_job(job, "COMPLETED", "FAILED", "TIMEOUT")
        self.wait_for_lines(4, r"^saved \d$", self.said)
        self.assertIn("\ncode 75\n", self.said())

    def test_a_requeued_job_resumes_from_the_snapshot(self):
        job = self.submit("srun ddprun train linear 1000000000 1000000000\n"
                          "code=$?; echo code $code\n"
                          # Slurm ends the script then: one that ends meanwhile may count as failed. A child
                          # that begins while Slurm looks for what to end may stay, so the script has none.
                          # And only once: it is cancelled below, which is 75, too.
                          "[ $code.$SLURM_RESTART_COUNT = 75. ] && scontrol requeue $SLURM_JOB_ID && "
                          "exec sleep 100\n", "--requeue")
        self.wait_for_lines(4, r"^\[CPU\d\] Epoch 3 ", self.said)
        CLUSTER.run("scancel", "--signal=TERM", job)
        self.wait_for_lines(1, r"^code 75$", self.said)
        CLUSTER.start_requeued(job)
        self.wait_for_lines(4, r"^Resuming training from snapshot at Epoch [1-9]", self.said)
        CLUSTER.run("scancel", job)
        CLUSTER.wait_for_job(job, "CANCELLED")
        self.assertNothingIsLeft()

    def test_a_node_that_is_lost_for_good_does_not_end_the_others(self):
        job = self.start(*SRUN, "--no-kill", "--kill-on-bad-exit=0", "ddprun", "--nnodes", "3:4",
                         "bash", "-c", "echo world $WORLD_SIZE; [ $WORLD_SIZE = 3 ] || exec sleep 100")
        self.wait_for_lines(4, "^world 4$", lambda: job.out)
        CLUSTER.power_off("n4")
        self.addCleanup(CLUSTER.power_on, "n4")
        self.wait_for_lines(3, "^world 3$", lambda: job.out)
        job.wait(60)
        self.assertNotRegex(job.err, r"task [012]: (Exited|Killed|Terminated)")
        self.assertNothingIsLeft()

    def test_kill_on_bad_exit_lets_every_agent_tell_and_end_with_one_code(self):
        job = self.run_to_end(*SRUN, "--kill-on-bad-exit=1", "bash", "-c",
                              "TORCHELASTIC_ERROR_FILE=error.$SLURM_PROCID exec ddprun bash -c "
                              "'[ $RANK = 2 ] && exit 3; exec sleep 100'", code=1)
        self.assertEqual(len(list(self.folder.glob("error.?"))), NODES, job)
        self.assertEqual(self.tasks_with(job.err, "Exited with exit code 1"), {0, 1, 2, 3}, job)
        self.assertNothingIsLeft()

    @staticmethod
    def tasks_with(text, end):
        """Of srun's lines, `srun: error: n2: task 1: Exited with exit code 1` and `tasks 0-2`."""
        tasks = set()
        for numbers in re.findall(rf"tasks? ([\d,-]+): {end}", text):
            for part in numbers.split(","):
                first, _, last = part.partition("-")
                tasks |= set(range(int(first), int(last or first) + 1))
        return tasks


if __name__ == "__main__":
    if not MISSING:
        namespaces.inside()
    skip.main()
