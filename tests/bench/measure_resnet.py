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
            sys.exit(f"{words[0]} failed: {log.read()[-2000:]}")
    return seconds, used.ru_utime + used.ru_stime


def write_images(folder, count):
    """In CIFAR-10's form; one image to test."""
    folder.mkdir()
    source = random.Random(7)
    for name, images in (("data_batch_1.bin", count), ("test_batch.bin", 1)):
        folder.joinpath(name).write_bytes(b"".join(bytes([source.randrange(10)]) + source.randbytes(RECORD_BYTES)
                                                   for _ in range(images)))


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

    def ours(program):
        return lambda steps: [program, "resnet", "--data", f"data{steps}", "--model", asked.model, "--stem", asked.stem,
                              "--batch-size", asked.batch_size, "--epochs", 1, "--log-freq", 10**6]

    def torch(layout):
        return lambda steps: [PYTHON, ROOT / "tests/bench/torch_resnet_train.py", asked.model, asked.stem,
                              asked.batch_size, steps, asked.threads, layout]

    commands = {program: ours(program) for program in programs}
    if PYTHON.exists():
        commands |= {"PyTorch": torch("nchw"), "PyTorch channels_last": torch("nhwc")}
    figures = {name: ([], []) for name in commands}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        for steps in (FEW, FEW + asked.steps):
            write_images(pathlib.Path(folder, f"data{steps}"), steps * asked.batch_size)
        for run in range(asked.runs):
            for name, command in commands.items():
                whole = []
                for steps in (FEW, FEW + asked.steps):
                    whole.append(once(command(steps), folder, asked.threads))
                    subprocess.run(["rm", "-rf", f"{folder}/snapshot.ddp"], check=True)
                for values, few, more in zip(figures[name], *whole):
                    values.append((more - few) / asked.steps * 1000)
                print(f"run {run}: {name}: {figures[name][0][-1]:,.0f} ms, processor "
                      f"{figures[name][1][-1]:,.0f} ms", flush=True)
    medians = {name: [statistics.median(values) for values in kinds] for name, kinds in figures.items()}
    theirs = [values for name, values in medians.items() if name not in programs]
    for name, (clock, processor) in medians.items():
        ratio = ""
        if theirs and name in programs:
            ratio = (f"; {min(t[0] for t in theirs) / clock:.2f}x and {min(t[1] for t in theirs) / processor:.2f}x "
                     "the better of PyTorch's speed")
        print(f"{name}: {clock:,.0f} ms a step, {processor:,.0f} ms of processors{ratio}")


if __name__ == "__main__":
    main()
