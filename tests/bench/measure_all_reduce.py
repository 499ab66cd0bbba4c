#!/usr/bin/env python3
"""measure_all_reduce.py [--build-dir DIR] [--rounds N] [--ranks N]: the all-reduce of the worker
runtime between processes of this machine, beside that of torch.distributed over Gloo (.venv), in
turns. Prints for each size the median time of both, the bandwidth and the ratio."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from free_port import free_port  # noqa: E402

SIZES = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20]
TIMES_MAX = 1000
TORCH = """
import json, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
found = {}
for size in map(int, sys.argv[2:]):
    tensor = torch.zeros(size // 4)
    times = max(5, min((1 << 30) // size, int(sys.argv[1])))
    found[size] = []
    for i in range(times + 3):
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        if i >= 3:
            found[size].append(time.perf_counter() - begin)
if dist.get_rank() == 0:
    print(json.dumps(found))
dist.destroy_process_group()
"""


def one_round(command, ranks):
    """Seconds of each call, per size."""
    port = str(free_port())
    workers = []
    for rank in range(ranks):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
        environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS="1",
                           **{name: str(value) for name, value in place.items()})
        workers.append(subprocess.Popen(command + [str(TIMES_MAX), *map(str, SIZES)],
                                        env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [worker.communicate(timeout=300)[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        raise RuntimeError(f"{command[0]} ended with {[worker.returncode for worker in workers]}")
    return {int(size): times for size, times in json.loads(outputs[0]).items()}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    asked = parser.parse_args()
    commands = {"ddprun": [str(asked.build_dir.resolve() / "tests" / "all_reduce_bench")]}
    python = ROOT / ".venv" / "bin" / "python"
    if python.exists():
        commands["torch"] = [str(python), "-c", TORCH]
    medians = {name: {size: [] for size in SIZES} for name in commands}
    for _ in range(asked.rounds):
        for name, command in commands.items():
            for size, times in one_round(command, asked.ranks).items():
                medians[name][size].append(statistics.median(times))
    print(f"all-reduce of f32, {asked.ranks} ranks, median of {asked.rounds} rounds' medians")
    for size in SIZES:
        seconds = {name: statistics.median(medians[name][size]) for name in commands}
        text = ", ".join(f"{name} {value * 1e6:,.0f} us ({size / value / 2**30:.2f} GiB/s)"
                         for name, value in seconds.items())
        ratio = f"; ddprun is {seconds['torch'] / seconds['ddprun']:.2f}x as fast" \
            if "torch" in seconds else ""
        print(f"{size >> 10:>6} KiB: {text}{ratio}")


if __name__ == "__main__":
    main()
