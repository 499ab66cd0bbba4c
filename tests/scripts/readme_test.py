"""What README.md shows is true: its C++ compiles against the worker runtime's headers, its shell
commands parse, and every long option in them is one that a --help of ddprun or of train names.
Usage: readme_test.py DDPRUN"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHERS = {"--at", "--ntasks-per-node", "--install", "--prefix", "--preset", "--help", "--with-pytorch",
          "--with-slurm", "--with-ssh", "--with-etcd", "--with-kubernetes", "--with-cuda-headers", "--with-zig",
          "--trainers",
          "--readme", "--check", "--quick", "--all", "--full", "--seeds", "--new-seeds"}


def main():
    text = (ROOT / "README.md").read_text()
    blocks = lambda language: re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    bad = []
    for block in blocks("cpp"):
        done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-I",
                               ROOT / "worker_runtime", "-x", "c++", "-"], input=block, text=True,
                              capture_output=True)
        if done.returncode:
            bad.append(f"the C++ does not compile:\n{done.stderr}")
    for block in blocks("sh"):
        done = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True)
        if done.returncode:
            bad.append(f"bash cannot read:\n{block}{done.stderr}")
    for path in re.findall(r"(?<![\w/])(?:\./)?((?:scripts|\.ci)/[\w-]*\w)", text):
        if not (ROOT / path).exists():
            bad.append(f"there is no {path}")
    ddprun, train = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1]).parent / "train"
    shown = "".join(subprocess.run([*words, "--help"], capture_output=True, text=True).stdout
                    for words in ([ddprun], [train, "gpt2"], [train, "resnet"]))
    for option in sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - OTHERS):
        if not re.search(rf"{option}(?![\w-])", shown):
            bad.append(f"neither ddprun --help nor one of train's names {option}")
    print("\n".join(bad) or "README.md is as the programs are")
    return 1 if bad else 0


sys.exit(main())
