"""`python -m ddprun.accelerate launch` in place of `accelerate launch`: the wheel's module, with Hugging
Face's accelerate. What it prints, its exit code and its workers are the same, and ddprun's."""
import subprocess
import sys

import interop
import skip

SCRIPT = r"""
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
if os.environ["RANK"] == "0":
    by_ddprun = "DDPRUN_PROGRESS_CHANNEL" in os.environ
    sys.stdout.write(f"{int(total)} of {os.environ['WORLD_SIZE']} {os.environ['ACCELERATE_MIXED_PRECISION']} "
                     f"{sys.argv[1:]} attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}"
                     f"{' by ddprun' if by_ddprun else ''}\n")
dist.destroy_process_group()
sys.exit(3 if "fail" in sys.argv or os.environ["TORCHELASTIC_RESTART_COUNT"] < sys.argv[-1] else 0)
"""
# Without a GPU accelerate starts several processes where it is told so.
OPTIONS = ["--multi_gpu", "--num_processes", "2", "--mixed_precision", "bf16", "--dynamo_backend", "no"]
ALONE = ["--num_machines", "1", "--main_process_port", "0"]


class Accelerate(interop.JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        there = list(interop.VENV.glob("lib/python*/site-packages/accelerate"))
        skip.need(skip.PYTORCH, there, f"there is no accelerate in {interop.VENV}; scripts/setup --with-pytorch "
                                       "installs it")

    def setUp(self):
        super().setUp()
        wheel = subprocess.run([sys.executable, interop.ROOT / "packaging/wheel.py", interop.DDPRUN.parent, "0.0.0",
                                self.folder], check=True, capture_output=True, text=True).stdout.strip()
        self.packages = self.folder / "packages"
        subprocess.run([interop.PYTHON, "-m", "pip", "install", "--quiet", "--no-index", "--target", self.packages,
                        wheel], check=True, capture_output=True)
        self.script = self.write("train.py", SCRIPT)

    def launch(self, *words, module="ddprun.accelerate"):
        return self.start("-m", module, "launch", *OPTIONS, *words, launcher=interop.PYTHON,
                          env=interop.environment(PYTHONPATH=self.packages))

    def test_the_words_and_the_workers_are_those_of_accelerate(self):
        ours = self.launch(*ALONE, self.script, "a", "--b", "0")
        theirs = self.launch(*ALONE, self.script, "a", "--b", "0", module="accelerate.commands.accelerate_cli")
        self.assertEnded(ours)
        self.assertEnded(theirs)
        self.assertEqual(theirs.out, "2 of 2 bf16 ['a', '--b', '0'] attempt 0\n")
        self.assertEqual(ours.out, theirs.out.replace("\n", " by ddprun\n"))

    def test_options_of_the_launcher_reach_it_and_failures_are_told(self):
        again = self.launch(*ALONE, "--max_restarts", "1", self.script, "1")
        self.assertEnded(again)
        self.assertEqual(again.out.count("by ddprun"), 2)
        failed = self.launch(*ALONE, self.script, "fail", "0")
        self.assertEnded(failed, 1)
        self.assertIn("exited with code 3", failed.err)

    def test_what_a_caller_of_run_has_filled_in_counts_and_no_variable_or_scheduler(self):
        caller = ("import sys\nfrom ddprun import torchrun\n"
                  "args = torchrun.get_args_parser().parse_args(sys.argv[1:])\n"
                  "args.module = args.standalone = False\nargs.log_dir = None\ntorchrun.run(args)\n")
        script = self.write("lines.py", "import os, sys\nsys.stdout.write(f\"alpha\\nbeta {sys.argv[1:]} \"\n"
                                        "                 f\"{os.environ['RANK']}{os.environ['WORLD_SIZE']}\\n\")\n")
        env = interop.environment(PYTHONPATH=self.packages, PET_MODULE=1, PET_LOG_DIR=self.folder / "not-here",
                                  SLURM_JOB_ID=77, SLURM_STEP_ID=0, SLURM_NNODES=2, SLURM_STEP_NUM_NODES=2,
                                  SLURM_STEP_NODELIST="here,there", SLURM_NODEID=0, SLURM_PROCID=0, SLURM_LOCALID=0)
        one = self.start("-c", caller, "--nnodes=1", "--duplicate-stdout-filters=alpha,gamma", "--tee=3", script,
                         "--", "x", launcher=interop.PYTHON, env=env)
        self.assertEnded(one)
        self.assertIn("]:beta", one.out)
        self.assertRegex(one.out, r"(?m)\]:beta \[.*'x'\] 01$")
        self.assertNotIn("Slurm", one.err)
        self.assertFalse((self.folder / "not-here").exists())

    def test_run_keeps_a_static_rendezvous_and_its_node_ranks(self):
        caller = ("import sys\nfrom ddprun import torchrun\n"
                  "torchrun.run(torchrun.get_args_parser().parse_args(sys.argv[1:]))\n")
        script = self.write("rank.py", "import os, sys\nsys.stdout.write('rank ' + os.environ['RANK'])\n")
        words = ["--nnodes=2", "--rdzv-backend=static", f"--rdzv-endpoint=127.0.0.1:{interop.free_port()}"]
        nodes = {rank: self.start("-c", caller, *words, f"--node-rank={rank}", script, launcher=interop.PYTHON,
                                  env=interop.environment(PYTHONPATH=self.packages)) for rank in (1, 0)}
        for rank, node in nodes.items():
            self.assertEnded(node)
            self.assertEqual(node.out, f"rank {rank}")

    def test_two_machines_are_one_job(self):
        port = str(interop.free_port())
        both = [self.launch("--num_machines", "2", "--machine_rank", rank, "--main_process_ip", "127.0.0.1",
                            "--main_process_port", port, self.script, "0") for rank in ("0", "1")]
        for one in both:
            self.assertEnded(one)
        self.assertEqual(interop.lines_of(both), ["2 of 2 bf16 ['0'] attempt 0 by ddprun"])


if __name__ == "__main__":
    interop.main()
