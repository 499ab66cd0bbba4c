"""The steps of scripts/bench --trainers: `train` beside PyTorch, both sides in turns."""
import json
import os
import pathlib
import subprocess

import measure
import measure_gpt2
import measure_resnet
import measure_snapshot

# The names on the command line, and their steps.
NAMES = {
    "tiny": ["gpt2_tiny"], "10m": ["gpt2_10m", "gpt2_10m_bf16"], "sgemm": ["gpt2_products"],
    "resnet": ["resnet18"], "snapshot": ["snapshot"],
}
RUNS = {
    "full": {"gpt2_tiny": 3, "gpt2_10m": 3, "gpt2_10m_bf16": 3, "gpt2_products": 3, "resnet18": 3, "snapshot": 3},
    "quick": {"gpt2_tiny": 1, "gpt2_10m": 1, "gpt2_10m_bf16": 1, "gpt2_products": 1, "resnet18": 1, "snapshot": 1},
}
# Steps of a training in each run; of GPT-2 the second half counts.
TRAINED = {"full": {"gpt2_tiny": 60, "gpt2_10m": 8, "gpt2_products": 4, "resnet18": 4},
           "quick": {"gpt2_tiny": 4, "gpt2_10m": 2, "gpt2_products": 1, "resnet18": 1}}
MEGABYTES = {"full": 500, "quick": 20}
RESNET_BATCH = 32


class TrainerSteps:
    """Methods of steps.Bench; it brings python, build_dir, how and runs."""

    def gpt2_tiny(self, into):
        """One rank as well: what the second one costs."""
        self._gpt2("tiny", "f32", self.runs["gpt2_tiny"], into, alone=[measure_gpt2.OURS, measure_gpt2.EAGER])

    def gpt2_10m(self, into):
        self._gpt2("10m", "f32", self.runs["gpt2_10m"], into)

    def gpt2_10m_bf16(self, into):
        self._gpt2("10m", "bf16", self.runs["gpt2_10m_bf16"], into)

    def _gpt2(self, model, precision, runs, into, alone=()):
        names = [measure_gpt2.OURS]
        if self.python:
            # To compile takes longer than a quick run should.
            names += [measure_gpt2.EAGER] + [measure_gpt2.COMPILED] * (self.how != "quick")
        jobs = measure_gpt2.Gpt2Jobs(self.build_dir, self.python, model, precision,
                                     TRAINED[self.how][f"gpt2_{model}"])
        worlds = {name: [2, 1] if name in alone else [2] for name in names}
        jobs.by_turns(worlds, runs, into, lambda text: measure.note("  " + text))

    def gpt2_products(self, into):
        """gpt2_step_bench's reports, of 10m on two ranks of one thread."""
        command = [self.ddprun, "--standalone", "--nproc-per-node", "2", self.program("gpt2_step_bench"), "10m",
                   str(measure_gpt2.SIZES["10m"]["batch"]), str(TRAINED[self.how]["gpt2_products"])]
        for _ in range(self.runs["gpt2_products"]):
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600,
                                  env=dict(os.environ, OMP_NUM_THREADS="1"))
            into.setdefault("ddprun", []).append(json.loads(done.stdout.strip().split("\n")[-1]))

    def resnet18(self, into):
        train = {"ddprun": str(pathlib.Path(self.build_dir) / "bin" / "train")}
        commands = measure_resnet.commands(train, self.python, "18", "small", RESNET_BATCH, 1)
        measure_resnet.by_turns(commands, RESNET_BATCH, 1, TRAINED[self.how]["resnet18"], self.runs["resnet18"], into,
                                lambda text: measure.note("  " + text))

    def snapshot(self, into):
        into["megabytes"] = MEGABYTES[self.how]
        measure_snapshot.by_turns(measure_snapshot.programs(self.build_dir, self.python, into["megabytes"]),
                                  self.build_dir, into["megabytes"], self.runs["snapshot"], into)
