"""What gpu_check.py asks of `train resnet`: that a killed rank changes no bit of what two ranks on one GPU learn; and
images per second of a ResNet-50 in bf16, beside PyTorch's."""
import json
import pathlib
import random
import re
import subprocess
import sys

import gpt2_on_gpu

RECORDS = 10000  # of a file, as CIFAR-10 has them


def write_images(folder, count, tests):
    """CIFAR-10's binary form, of random pixels; the same in every run."""
    folder.mkdir(exist_ok=True)
    draw = random.Random(1)
    record = lambda: bytes([draw.randrange(10)]) + draw.randbytes(3072)
    for number in range((count + RECORDS - 1) // RECORDS):
        with (folder / f"data_batch_{number + 1}.bin").open("wb") as file:
            for _ in range(min(RECORDS, count - number * RECORDS)):
                file.write(record())
    (folder / "test_batch.bin").write_bytes(b"".join(record() for _ in range(tests)))


def two_ranks(bin_folder, folder, environment, options, steps, kill_at, timeout):
    """The weights that two ranks end with, as 16 digits. One of them is killed as soon as step `kill_at` is told; None:
    nobody is."""
    snapshots = folder / ("calm" if kill_at is None else "killed")
    command = [bin_folder / "ddprun", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
               bin_folder / "train", "resnet", "--data", folder / "data", "--ckpt-freq", "1", "--log-freq", "1",
               "--snapshot-path", snapshots, *options]
    return gpt2_on_gpu.weights_of_job(command, environment, folder, f"step {kill_at}/{steps} ", kill_at is not None,
                                      timeout)


def ours(bin_folder, folder, name, environment, options, batch, timeout):
    """Images per second over the second half of the steps, by the clock."""
    done = subprocess.run(
        [bin_folder / "ddprun", "--standalone", "--nproc-per-node", "1", bin_folder / "train", "resnet", "--data",
         folder / "data", "--epochs", "1", "--batch-size", str(batch), "--ckpt-freq", str(10**9), "--snapshot-path",
         folder / name, "--metrics", folder / f"{name}.metrics", *options],
        env=environment, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"train resnet failed: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    if " | on GPUs in bf16" not in done.stdout:
        raise RuntimeError(f"train resnet did not use the GPU:\n{done.stdout}{done.stderr[-2000:]}")
    lines = (folder / f"{name}.metrics" / "rank-0.jsonl").read_text().splitlines()
    times = [line["time"] for line in map(json.loads, lines) if line["event"] == "step"]
    middle = len(times) // 2
    return batch * (len(times) - 1 - middle) / (times[-1] - times[middle])


def torchs(depth, batch, steps, timeout):
    """PyTorch's images per second, compiled; the reason as a text where there is no PyTorch for GPUs."""
    script = pathlib.Path(__file__).with_name("torch_resnet_speed.py")
    done = subprocess.run([sys.executable, script, str(depth), str(batch), str(steps)],
                          capture_output=True, text=True, timeout=timeout)
    found = re.search(r"^images_per_s ([\d.]+)$", done.stdout, re.M)
    words = (done.stdout + done.stderr).strip().split("\n")
    return float(found[1]) if found and not done.returncode else words[-1]
