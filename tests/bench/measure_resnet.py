#!/usr/bin/env python3
"""measure_resnet.py [--model 18|50] [--stem small|large] [--batch-size N] [--threads N] [--steps N] [--runs N]
[--train PROGRAM]...: a step of `train resnet` on the CPU beside PyTorch's (its own layout and channels_last), one
process each, by turns. Each run is made twice, with a few steps and with more; the difference is the steps' alone.
Prints medians of time and of processor time per step, and the ratios to the better of PyTorch's. More than one
--train compares builds."""
import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
FEW = 2
RECORD_BYTES = 3 * 32 * 32


def once(words, folder, threads):
    """Seconds of a whole run: of the clock, and of processors."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    with open(f"{folder}/log", "w+") as log:
        begin = time.monotonic()
        process = subprocess.Popen([*map(str, words)], env=environment, stdout=log, stderr=log, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            raise RuntimeError(f"{words[0]} failed: {log.read()[-2000:]}")
    return seconds, used.ru_utime + used.ru_stime


def write_images(folder, count):
    """In CIFAR-10's form; one image to test."""
    folder.mkdir()
    source = random.Random(7)
    for name, images in (("data_batch_1.bin", count), ("test_batch.bin", 1)):
        folder.joinpath(name).write_bytes(b"".join(bytes([source.randrange(10)]) + source.randbytes(RECORD_BYTES)
                                                   for _ in range(images)))


def commands(programs, python, model, stem, batch_size, threads):
    """{name: the words of a training of so many steps}; `python` None: without PyTorch's."""
    def ours(program):
        return lambda steps: [program, "resnet", "--data", f"data{steps}", "--model", model, "--stem", stem,
                              "--batch-size", batch_size, "--epochs", 1, "--log-freq", 10**6]

    def torch(layout):
        return lambda steps: [python, ROOT / "tests/bench/torch_resnet_train.py", model, stem, batch_size, steps,
                              threads, layout]
    found = {name: ours(program) for name, program in programs.items()}
    return found | ({"PyTorch": torch("nchw"), "PyTorch channels_last": torch("nhwc")} if python else {})


def by_turns(commands_, batch_size, threads, steps, runs, into, say=lambda text: None):
    """Adds [seconds of a step, of the clock; of processors] to into[name], a list."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        for count in (FEW, FEW + steps):
            write_images(pathlib.Path(folder, f"data{count}"), count * batch_size)
        for run in range(runs):
            for name, command in commands_.items():
                whole = []
                for count in (FEW, FEW + steps):
                    whole.append(once(command(count), folder, threads))
                    shutil.rmtree(f"{folder}/snapshot.ddp", ignore_errors=True)
                seconds = [(more - few) / steps for few, more in zip(*whole)]
                into.setdefault(name, []).append(seconds)
                say(f"run {run}: {name}: {seconds[0] * 1e3:,.0f} ms, processor {seconds[1] * 1e3:,.0f} ms")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--model", choices=["18", "50"], default="18")
    parser.add_argument("--stem", choices=["small", "large"], default="small")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--train", action="append", type=pathlib.Path)
    asked = parser.parse_args()
    programs = [str(path.resolve()) for path in asked.train or [ROOT / "build" / "bin" / "train"]]
    found = {}
    try:
        by_turns(commands({name: name for name in programs}, PYTHON if PYTHON.exists() else None, asked.model,
                          asked.stem, asked.batch_size, asked.threads),
                 asked.batch_size, asked.threads, asked.steps, asked.runs, found, lambda text: print(text, flush=True))
    except RuntimeError as why:
        sys.exit(str(why))
    medians = {name: [statistics.median(kind) * 1e3 for kind in zip(*values)] for name, values in found.items()}
    theirs = [values for name, values in medians.items() if name not in programs]
    for name, (clock, processor) in medians.items():
        ratio = ""
        if theirs and name in programs:
            ratio = (f"; {min(t[0] for t in theirs) / clock:.2f}x and {min(t[1] for t in theirs) / processor:.2f}x "
                     "the better of PyTorch's speed")
        print(f"{name}: {clock:,.0f} ms a step, {processor:,.0f} ms of processors{ratio}")


if __name__ == "__main__":
    main()
