"""What gpu_check.py asks of `train gpt2`: that a killed rank changes no bit of what two ranks on one GPU
learn; and, of 124M parameters in bf16, tokens per second and the share of the GPU's arithmetic that the
model itself needs, beside PyTorch's."""
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys

# OpenAI's sizes; the vocabulary is GPT-2's, so that the head costs what it costs.
SIZES = dict(layers=12, heads=12, channels=768, context=1024, vocabulary=50257)
# Multiply-adds of bf16 with sums in f32 of the whole card, dense, as NVIDIA's data sheets have them.
PEAKS = {"H100 PCIe": 756e12, "H100": 989.4e12, "H200": 989.4e12, "GH200": 989.4e12, "A100": 312e12}


def flops_per_token(sizes, parameters):
    """6 for each parameter, and 6 L C T for attention, half of whose scores are looked at: llm.c's
    count."""
    return 6 * parameters + 6 * sizes["layers"] * sizes["channels"] * sizes["context"]


def share_of_peak(tokens_per_s, flops, name):
    """As "31.2 %"; "unknown" on a card that PEAKS does not have."""
    peak = next((peak for card, peak in PEAKS.items() if card in name), None)
    return f"{100 * tokens_per_s * flops / peak:.1f} %" if peak else "unknown"


def write_tokenizer(folder, vocabulary):
    """A byte-level tokenizer of that size, of pairs of bytes. What its words are is of no matter:
    the data are tokens already."""
    # GPT-2's alphabet: a printable character for each byte.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in printable] + \
        [chr(256 + i) for i, _ in enumerate(b for b in range(256) if b not in printable)]
    pairs = [(a, b) for a in letters for b in letters][:vocabulary - 257]
    words = letters + [a + b for a, b in pairs] + ["<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs))


def write_tokens(path, count, vocabulary):
    """As docs/text.md has it; the same in every run."""
    tokens, state = [], 1
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        tokens.append((state >> 8) % vocabulary)
    header = struct.pack("<3i", 20240520, 1, count)
    path.write_bytes(header.ljust(1024, b"\0") + struct.pack(f"<{count}H", *tokens))


def two_ranks(bin_folder, folder, environment, steps, kill_at, timeout):
    """The weights that two ranks of the tiny model end with, as 16 digits. One of them is killed as soon
    as step `kill_at` is told; None: nobody is."""
    text = folder / "text.txt"
    text.write_text("".join(f"line {i * i % 97} of a text that repeats itself\n" for i in range(400)))
    command = [bin_folder / "ddprun", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
               bin_folder / "train", "gpt2", "--data", text, "--seq-length", "16", "--batch-size", "1",
               "--max-steps", str(steps), "--ckpt-freq", "1", "--log-freq", "1", "--validation-share", "0",
               "--save-dir", folder / ("calm" if kill_at is None else "killed")]
    return weights_of_job(command, environment, folder, f"step {kill_at}/", kill_at is not None, timeout)


def weights_of_job(command, environment, folder, kill_line, kills, timeout):
    """The weights that a job of two ranks on GPUs ends with. With `kills` rank 1 is killed as soon as the job says
    a line that begins so; then it must have gone on from a snapshot."""
    with subprocess.Popen([str(word) for word in command], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        said, waits = "", kills
        try:
            for line in job.stdout:
                said += line
                if waits and line.startswith(kill_line):
                    os.kill(worker_of(folder), signal.SIGKILL)
                    waits = False
            job.wait(timeout=timeout)
        finally:
            job.kill()
    found = re.search(r"^Training finished: .*weights (\w{16})$", said, re.M)
    if job.returncode or not found or " | on GPUs in bf16" not in said:
        raise RuntimeError(f"the training failed ({job.returncode}):\n{said[-3000:]}")
    if kills and "Resuming training from snapshot" not in said:
        raise RuntimeError(f"the training did not go on from its snapshot:\n{said[-3000:]}")
    return found[1]


def worker_of(folder):
    """The process of rank 1 of the job that saves below this folder."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
            variables = (process / "environ").read_text(errors="replace").split("\0")
        except OSError:  # it has ended, or is not ours
            continue
        if pathlib.Path(words[0]).name == "train" and str(folder / "killed") in words and \
                "RANK=1" in variables:
            return int(process.name)
    raise RuntimeError("rank 1 of train gpt2 was not found")


def ours(bin_folder, folder, save_dir, environment, model, batch, steps, timeout):
    """Tokens per second over the second half of the steps, and the number of parameters."""
    done = subprocess.run(
        [bin_folder / "ddprun", "--standalone", "--nproc-per-node", "1", bin_folder / "train", "gpt2",
         "--data", folder / "tokens.bin", "--tokenizer", folder, "--model", model, "--batch-size",
         str(batch), "--max-steps", str(steps), "--log-freq", str(steps // 2), "--ckpt-freq",
         str(10**9), "--validation-share", "0", "--save-dir", folder / save_dir],
        env=environment, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"train gpt2 failed: {done.stderr[-2000:]}")
    if " | on GPUs in bf16" not in done.stdout:
        raise RuntimeError(f"train gpt2 did not use the GPU:\n{done.stdout}{done.stderr[-2000:]}")
    rates = re.findall(r"tokens_per_s (\d+)", done.stdout)
    return float(rates[1]), int(re.search(r"parameters (\d+)", done.stdout)[1])


def torchs(batch, steps, timeout):
    """PyTorch's tokens per second, compiled; the reason as a text where there is no PyTorch for GPUs."""
    script = pathlib.Path(__file__).with_name("torch_gpt2_speed.py")
    done = subprocess.run([sys.executable, script, json.dumps(SIZES), str(batch), str(steps)],
                          capture_output=True, text=True, timeout=timeout)
    found = re.search(r"^tokens_per_s ([\d.]+)$", done.stdout, re.M)
    words = (done.stdout + done.stderr).strip().split("\n")
    return float(found[1]) if found and not done.returncode else words[-1]
