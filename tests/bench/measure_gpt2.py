#!/usr/bin/env python3
"""measure_gpt2.py [--model NAME] [--precision f32|bf16] [--runs N] [--steps N] [--no-compile]: tokens
per second of GPT-2 on the CPU, 2 ranks of 1 thread: `train gpt2` beside PyTorch's DDP over Gloo (eager
and compiled; bf16 is its autocast), both under ddprun, by turns. Prints medians and the ratio to the
better of PyTorch's. Each run's figure is that of the second half of its steps."""
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


def launch(words):
    """The standard output of a job of 2 ranks."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHON_EXEC=str(PYTHON))
    done = subprocess.run([BIN / "ddprun", "--standalone", "--nproc-per-node", "2", *map(str, words)],
                          env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"{words[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def ours(model, precision, steps, text, folder):
    out = launch([BIN / "train", "gpt2", "--data", text, "--model", model, "--batch-size",
                  SIZES[model]["batch"], "--max-steps", steps, "--log-freq", steps // 2,
                  "--save-dir", folder, "--experiment-name", "run", "--ckpt-freq", 10**9,
                  "--validation-share", 0, "--precision", precision])
    return float(re.findall(r"tokens_per_s (\d+)", out)[1])


def torch(model, steps, text, *more):
    out = launch([ROOT / "tests/bench/torch_gpt2_train.py", text, steps, json.dumps(SIZES[model]),
                  *more])
    return float(re.findall(r"tokens_per_s ([\d.]+)", out)[0])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--model", choices=SIZES, default="tiny")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    figures = {"train gpt2": [], "PyTorch": []}
    if not options.no_compile:
        figures["PyTorch compiled"] = []
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        text = pathlib.Path(folder, "text")
        text.write_bytes(b"".join(path.read_bytes() for path in sorted(ROOT.glob("docs/*.md"))))
        for run in range(options.runs):
            for name in figures:
                if name == "train gpt2":
                    value = ours(options.model, options.precision, options.steps, text, f"{folder}/{run}")
                else:
                    more = ["--compile"] if "compiled" in name else []
                    more += ["--bf16"] if options.precision == "bf16" else []
                    value = torch(options.model, options.steps, text, *more)
                figures[name].append(value)
                print(f"run {run}: {name} {value:,.0f} tokens/s", flush=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    best = max(value for name, value in medians.items() if name != "train gpt2")
    label = options.model + ("" if options.precision == "f32" else " bf16")
    for name, value in medians.items():
        print(f"{label}: {name}: {value:,.0f} tokens/s (median of {options.runs})")
    print(f"{label}: ratio to the better: {medians['train gpt2'] / best:.2f}")


main()
