#!/usr/bin/env python3
"""measure_gpt2.py [--model NAME] [--precision f32|bf16] [--runs N] [--steps N] [--no-compile]
[--overhead] [--build-dir DIR]: tokens per second of GPT-2 on the CPU, 2 ranks of 1 thread: `train gpt2` beside
PyTorch's DDP over Gloo (eager and compiled; bf16 is its autocast), both under ddprun, by turns. Prints medians and
the ratio to the better of PyTorch's. Each run's figure is that of the second half of its steps. Beside it, what
other programs change less: the processor time of a token; ours with the start of the job.
--overhead runs each with one rank, too, and prints how much longer a step of two ranks takes than one of
a single rank on half of the samples."""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
SIZES = {"tiny": dict(layers=4, heads=4, channels=128, context=64, batch=12),
         "10m": dict(layers=6, heads=6, channels=384, context=256, batch=8)}
# As the raw values name them.
OURS, EAGER, COMPILED = "ddprun", "PyTorch", "PyTorch compiled"


class Gpt2Jobs:
    """Trainings under the ddprun of a build. `python`: one with PyTorch, or None."""

    def __init__(self, build_dir, python, model, precision, steps):
        self._bin, self._python = pathlib.Path(build_dir) / "bin", python
        self._model, self._precision, self._steps = model, precision, steps

    def _launch(self, words, ranks):
        """The standard output of a job, and the processor time of all of it."""
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHON_EXEC=str(self._python))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([self._bin / "ddprun", "--standalone", "--nproc-per-node", str(ranks),
                               *map(str, words)],
                              env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(f"{words[0]} failed: {done.stderr[-2000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def run(self, name, ranks, text, folder):
        """[tokens per second of the job, processor seconds of a token]; snapshots go to an empty folder."""
        if name == OURS:
            out, worked = self._launch([self._bin / "train", "gpt2", "--data", text, "--model", self._model,
                                "--batch-size", SIZES[self._model]["batch"], "--max-steps", self._steps,
                                "--log-freq", self._steps // 2, "--save-dir", folder,
                                "--experiment-name", "run", "--ckpt-freq", 10**9,
                                "--validation-share", 0, "--precision", self._precision], ranks)
            size = SIZES[self._model]
            return [float(re.findall(r"tokens_per_s (\d+)", out)[1]),
                    worked / (self._steps * size["batch"] * size["context"] * ranks)]
        more = ["--compile"] * (name == COMPILED) + ["--bf16"] * (self._precision == "bf16")
        out, _ = self._launch([ROOT / "tests/bench/torch_gpt2_train.py", text, self._steps,
                            json.dumps(SIZES[self._model]), *more], ranks)
        return [float(value) for value in re.findall(r"tokens_per_s ([\d.]+) processor_s ([\d.]+)", out)[0]]

    def by_turns(self, worlds, runs, into, say=lambda text: None):
        """`worlds`: numbers of ranks for each name. Adds what run() gives to into[name][number of ranks], a list."""
        with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
            text = pathlib.Path(folder, "text")
            text.write_bytes(b"".join(path.read_bytes() for path in sorted(ROOT.glob("docs/*.md"))))
            for run in range(runs):
                for name, counts in worlds.items():
                    for ranks in counts:
                        value = self.run(name, ranks, text, f"{folder}/{run}-{ranks}")
                        into.setdefault(name, {}).setdefault(str(ranks), []).append(value)
                        say(f"run {run}: {name}, ranks {ranks}: {value[0]:,.0f} tokens/s, "
                            f"{value[1] * 1e6:,.1f} us of a processor a token")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--model", choices=SIZES, default="tiny")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    asked = parser.parse_args()
    names = [OURS, EAGER, *([] if asked.no_compile else [COMPILED])]
    found = {}
    jobs = Gpt2Jobs(asked.build_dir.resolve(), PYTHON, asked.model, asked.precision, asked.steps)
    try:
        worlds = [2, 1] if asked.overhead else [2]
        jobs.by_turns({name: worlds for name in names}, asked.runs, found, lambda text: print(text, flush=True))
    except RuntimeError as why:
        sys.exit(str(why))
    medians, worked = ({name: {ranks: statistics.median(value[which] for value in values)
                               for ranks, values in worlds.items()} for name, worlds in found.items()}
                       for which in (0, 1))
    best = max(medians[name]["2"] for name in names[1:])
    label = asked.model + ("" if asked.precision == "f32" else " bf16")
    for name in names:
        print(f"{label}: {name}: {medians[name]['2']:,.0f} tokens/s, {worked[name]['2'] * 1e6:,.1f} us of a processor a token "
              f"(medians of {asked.runs})")
        if asked.overhead:
            # Two ranks do twice as many tokens a step.
            longer = 2 * medians[name]["1"] / medians[name]["2"] - 1
            print(f"{label}: {name}: a step of two ranks takes {longer:+.1%}")
    least = min(worked[name]["2"] for name in names[1:])
    print(f"{label}: ratio to the better: {medians[OURS]['2'] / best:.2f}; by processor time "
          f"{least / worked[OURS]['2']:.2f}")


if __name__ == "__main__":
    main()
