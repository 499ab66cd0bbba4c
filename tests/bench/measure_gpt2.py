#!/usr/bin/env python3
"""measure_gpt2.py [--model NAME] [--precision f32|bf16] [--runs N] [--steps N] [--no-compile]
[--overhead]: tokens per second of GPT-2 on the CPU, 2 ranks of 1 thread: `train gpt2` beside PyTorch's
DDP over Gloo (eager and compiled; bf16 is its autocast), both under ddprun, by turns. Prints medians and
the ratio to the better of PyTorch's. Each run's figure is that of the second half of its steps.
--overhead runs each with one rank, too, and prints how much longer a step of two ranks takes than one of
a single rank on half of the samples."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
BIN = ROOT / "build" / "bin"
SIZES = {"tiny": dict(layers=4, heads=4, channels=128, context=64, batch=12),
         "10m": dict(layers=6, heads=6, channels=384, context=256, batch=8)}


def launch(words, ranks):
    """The standard output of a job."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHON_EXEC=str(PYTHON))
    done = subprocess.run([BIN / "ddprun", "--standalone", "--nproc-per-node", str(ranks), *map(str, words)],
                          env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"{words[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def ours(model, precision, steps, text, folder, ranks):
    out = launch([BIN / "train", "gpt2", "--data", text, "--model", model, "--batch-size",
                  SIZES[model]["batch"], "--max-steps", steps, "--log-freq", steps // 2,
                  "--save-dir", folder, "--experiment-name", "run", "--ckpt-freq", 10**9,
                  "--validation-share", 0, "--precision", precision], ranks)
    return float(re.findall(r"tokens_per_s (\d+)", out)[1])


def torch(model, steps, text, ranks, *more):
    out = launch([ROOT / "tests/bench/torch_gpt2_train.py", text, steps, json.dumps(SIZES[model]),
                  *more], ranks)
    return float(re.findall(r"tokens_per_s ([\d.]+)", out)[0])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--model", choices=SIZES, default="tiny")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    options = parser.parse_args()
    names = ["train gpt2", "PyTorch", *([] if options.no_compile else ["PyTorch compiled"])]
    worlds = [2, 1] if options.overhead else [2]
    figures = {(name, ranks): [] for name in names for ranks in worlds}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        text = pathlib.Path(folder, "text")
        text.write_bytes(b"".join(path.read_bytes() for path in sorted(ROOT.glob("docs/*.md"))))
        for run in range(options.runs):
            for name, ranks in figures:
                if name == "train gpt2":
                    value = ours(options.model, options.precision, options.steps, text,
                                 f"{folder}/{run}-{ranks}", ranks)
                else:
                    more = ["--compile"] if "compiled" in name else []
                    more += ["--bf16"] if options.precision == "bf16" else []
                    value = torch(options.model, options.steps, text, ranks, *more)
                figures[name, ranks].append(value)
                print(f"run {run}: {name}, ranks {ranks}: {value:,.0f} tokens/s", flush=True)
    medians = {key: statistics.median(values) for key, values in figures.items()}
    best = max(medians[name, 2] for name in names[1:])
    label = options.model + ("" if options.precision == "f32" else " bf16")
    for name in names:
        print(f"{label}: {name}: {medians[name, 2]:,.0f} tokens/s (median of {options.runs})")
        if options.overhead:
            # Two ranks do twice as many tokens a step.
            longer = 2 * medians[name, 1] / medians[name, 2] - 1
            print(f"{label}: {name}: a step of two ranks takes {longer:+.1%}")
    print(f"{label}: ratio to the better: {medians['train gpt2', 2] / best:.2f}")


main()
