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
# As the raw values name them.
OURS, TORCH_SAVE, DCP = "ddprun", "torch.save", "DCP async"
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


def programs(build_dir, python, megabytes):
    """{name: the words of a training whose snapshots go to a folder}; `python` None: without PyTorch's."""
    bench = str(pathlib.Path(build_dir) / "tests" / "snapshot_bench")
    found = {OURS: lambda folder: [bench, folder + "/s", str(megabytes), str(SAVES)]}
    for name, how in ((TORCH_SAVE, "save"), (DCP, "dcp")) if python else ():
        found[name] = lambda folder, how=how: [str(python), "-c", TORCH, how, folder, str(megabytes), str(SAVES)]
    return found


def by_turns(programs_, directory, megabytes, rounds, into):
    """Adds to into["dd"] the bytes per second of each run of dd, and to into[name] of each round: medians of
    seconds that the training stands still ("call") and of a whole save ("save"), of a step before it ("before")
    and of the processor time of other threads ("others"); and how many times as long a step takes while it is
    written, by the clock ("slower") and in processor time ("harder")."""
    for _ in range(rounds):
        for name, command in programs_.items():
            folder = tempfile.mkdtemp(prefix="ddprun-bench-", dir=directory)
            try:
                into.setdefault("dd", []).append(dd(folder, megabytes))
                values = one_round(command(folder))
            finally:
                shutil.rmtree(folder)
            median = {key: statistics.median(of_key) for key, of_key in values.items()}
            found = {key: median[key] for key in ("call", "save", "before", "others")}
            found["slower"] = median["after"] / median["before"]
            found["harder"] = median["worked_after"] / median["worked_before"]
            into.setdefault(name, []).append(found)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build")
    asked = parser.parse_args()
    python = ROOT / ".venv" / "bin" / "python"
    found = {}
    by_turns(programs(asked.build_dir.resolve(), python if python.exists() else None, asked.megabytes), asked.dir,
             asked.megabytes, asked.rounds, found)
    rates = found.pop("dd")
    rate = statistics.median(rates)
    print(f"{asked.megabytes} MB, {asked.rounds} rounds of {SAVES} saves; dd with fsync: "
          f"{rate / 1e6:,.0f} MB/s (n={len(rates)}, {min(rates) / 1e6:,.0f}-{max(rates) / 1e6:,.0f})")
    for name, values in found.items():
        median = {key: statistics.median(run[key] for run in values) for key in values[0]}
        written = asked.megabytes * 1e6 / median["save"]
        print(f"{name}: stands still {median['call'] * 1e3:,.0f} ms; steps while it is written "
              f"{median['slower']:.3f}x of those before ({median['before'] * 1e3:,.0f} "
              f"ms), {median['harder']:.3f}x in processor time; other threads take "
              f"{median['others'] * 1e3:,.0f} ms of it a save; written at {written / 1e6:,.0f} MB/s, {written / rate:.2f} of dd")


if __name__ == "__main__":
    main()
