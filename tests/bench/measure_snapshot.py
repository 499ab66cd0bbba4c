#!/usr/bin/env python3
"""measure_snapshot.py [--build-dir DIR] [--rounds N] [--megabytes N] [--dir DIR]: a snapshot in the
background, on the disk of DIR, beside dd with conv=fsync and, where .venv has PyTorch, torch.save and
torch.distributed.checkpoint's async_save, in turns. Each trains on one thread: steps of matrix
products. Prints medians: how long the training stands still for a save, how much slower the steps
are while it is written, by the clock and in their thread's processor time, how much of that other
threads take for a save, and how fast it is written, as a share of what dd reaches."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAVES = 2  # a round's
TORCH = """
import json, os, sys, time
import torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
how, folder, megabytes, saves = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
a = torch.full((1024, 1024), 0.5)
def step():
    begin, worked = time.perf_counter(), time.thread_time()
    for _ in range(12):
        a @ a
    return time.perf_counter() - begin, time.thread_time() - worked
def others():
    return time.process_time() - time.thread_time()
state = {f"t{i}": torch.full((megabytes * 1_000_000 // 600,), float(i)) for i in range(150)}
if how == "dcp":
    store = dist.FileStore(os.path.join(folder, "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
found = {name: [] for name in ("before", "after", "worked_before", "worked_after", "others", "call", "save")}
step()
for i in range(saves + 1):
    before = [step() for _ in range(8)]
    path = os.path.join(folder, str(i))
    others_before, begin = others(), time.perf_counter()
    if how == "dcp":
        future = dcp.async_save(state, checkpoint_id=path)
        call = time.perf_counter() - begin
        after = [step()]
        while not future.done():
            after.append(step())
        future.result()
        other = others() - others_before
        begin = time.perf_counter()
        dcp.save(state, checkpoint_id=path + ".waited")
        save = time.perf_counter() - begin
    else:
        with open(path, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        call = save = time.perf_counter() - begin
        other = others() - others_before
        after = [step()]
    if i > 0:
        for name, steps in (("before", before), ("after", after)):
            found[name] += [seconds for seconds, _ in steps]
            found["worked_" + name] += [worked for _, worked in steps]
        found["others"].append(other)
        found["call"].append(call)
        found["save"].append(save)
print(json.dumps(found))
"""


def dd(folder, megabytes):
    """Bytes per second to the disk."""
    begin = time.perf_counter()
    subprocess.run(["dd", "if=/dev/zero", f"of={folder}/dd", "bs=1MB", f"count={megabytes}",
                    "conv=fsync"], check=True, stderr=subprocess.DEVNULL, timeout=300)
    seconds = time.perf_counter() - begin
    os.unlink(f"{folder}/dd")
    return megabytes * 1e6 / seconds


def one_round(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    return json.loads(done.stdout.strip().split("\n")[-1])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build")
    asked = parser.parse_args()
    bench = str(asked.build_dir.resolve() / "tests" / "snapshot_bench")
    python = ROOT / ".venv" / "bin" / "python"
    programs = {"ddprun": lambda folder: [bench, folder + "/s", str(asked.megabytes), str(SAVES)]}
    if python.exists():
        for name, how in (("torch.save", "save"), ("DCP async", "dcp")):
            programs[name] = lambda folder, how=how: [str(python), "-c", TORCH, how, folder,
                                                      str(asked.megabytes), str(SAVES)]
    rates, found = [], {name: {} for name in programs}
    slower, harder = {name: [] for name in programs}, {name: [] for name in programs}
    for _ in range(asked.rounds):
        for name, command in programs.items():
            folder = tempfile.mkdtemp(prefix="ddprun-bench-", dir=asked.dir)
            try:
                rates.append(dd(folder, asked.megabytes))
                values = one_round(command(folder))
            finally:
                shutil.rmtree(folder)
            slower[name].append(statistics.median(values["after"])
                                / statistics.median(values["before"]))
            harder[name].append(statistics.median(values["worked_after"])
                                / statistics.median(values["worked_before"]))
            for key in ("before", "others", "call", "save"):
                found[name].setdefault(key, []).extend(values[key])
    rate = statistics.median(rates)
    print(f"{asked.megabytes} MB, {asked.rounds} rounds of {SAVES} saves; dd with fsync: "
          f"{rate / 1e6:,.0f} MB/s (n={len(rates)}, {min(rates) / 1e6:,.0f}-{max(rates) / 1e6:,.0f})")
    for name in programs:
        median = {key: statistics.median(values) for key, values in found[name].items()}
        written = asked.megabytes * 1e6 / median["save"]
        print(f"{name}: stands still {median['call'] * 1e3:,.0f} ms; steps while it is written "
              f"{statistics.median(slower[name]):.3f}x of those before ({median['before'] * 1e3:,.0f} "
              f"ms), {statistics.median(harder[name]):.3f}x in processor time; other threads take "
              f"{median['others'] * 1e3:,.0f} ms of it a save; written at {written / 1e6:,.0f} MB/s, {written / rate:.2f} of dd")


if __name__ == "__main__":
    main()
