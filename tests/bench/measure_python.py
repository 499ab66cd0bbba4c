"""What scripts/bench measures of Python workers: how soon the first line of a program runs, and how
soon PyTorch trains again after a worker's death. The interpreter is the one of .venv, whoever
launches. Every wait has a bound; whatever is started is ended."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import measure  # also puts tests/support on the path
from program import Program

FIRST_LINE = "import os, time; os.write(1, b'%d' % time.monotonic_ns())\n"

# DistributedDataParallel over gloo; each rank notes the end of the first step of every attempt:
#   <CLOCK_MONOTONIC in ns> <rank> <pid>
TRAIN = """
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10**6):
    optimizer.zero_grad()
    model(torch.randn(8, 64)).pow(2).mean().backward()
    optimizer.step()
    if step == 0:
        line = b"%d %d %d\\n" % (time.monotonic_ns(), dist.get_rank(), os.getpid())
        with open(os.environ["DDPRUN_BENCH_STAMPS"], "ab", buffering=0) as file:
            file.write(line)
    time.sleep(0.02)
"""
# What the program above imports, directly and by its first DistributedDataParallel.
IMPORTS = "import time, torch, torch._dynamo; print(time.monotonic_ns())"
WORKERS = 2
SPARE = "ddp-warm-worker"  # what a warm worker that waits is called
# Torchrun's workers share one store in all attempts unless told otherwise. Without this one of its
# restarts was seen to make no step in two minutes, which would have been its figure.
FRESH_STORE = ["/usr/bin/env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"]


def environment(python, **more):
    return dict(os.environ, PYTHON_EXEC=str(python), LOGLEVEL="INFO", **more)


def seconds_to_output(command, env):
    """From the start of `command` to the moment its worker wrote down first of all."""
    begin = time.monotonic_ns()
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True, timeout=180)
    return (int(done.stdout) - begin) / 1e9


def first_line(launchers, python, runs, into):
    """Of each launcher, and of the interpreter without any ("python"; as often as ddprun)."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        script = pathlib.Path(folder, "first.py")
        script.write_text(FIRST_LINE)
        commands = {"python": [str(python), "-u", str(script)]}
        for name, command in launchers.items():
            commands[name] = command + ["--standalone", "--nproc-per-node", "1", str(script)]
        once = lambda name: seconds_to_output(commands[name], environment(python))
        for name in commands:
            once(name)  # warms the caches
        measure.by_turns({"python": runs["ddprun"], **runs}, once, into)


class Training:
    """A job of WORKERS ranks of TRAIN on one node."""

    def __init__(self, command, python):
        self._folder = tempfile.TemporaryDirectory(prefix="ddprun-bench-")
        folder = pathlib.Path(self._folder.name)
        script = folder / "train.py"
        script.write_text(TRAIN)
        self._stamps = folder / "stamps"
        self._stamps.touch()
        self._program = Program(folder, "job", [*command, script],
                                env=environment(python, DDPRUN_BENCH_STAMPS=str(self._stamps)))

    def wait(self, condition, what, seconds=120):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline or self._program.process.poll() is not None:
                raise RuntimeError(f"no {what}; the launcher said: {str(self._program)[-2000:]}")
            time.sleep(0.005)
        return value

    def stamps(self, count):
        """The lines of the last attempt, once `count` have been written since the job began."""
        def written():
            lines = self._stamps.read_text().splitlines()
            return len(lines) >= count and lines[-WORKERS:]
        return [tuple(map(int, line.split())) for line in self.wait(written, f"{count} first steps")]

    def warm(self, count):
        """Until so many warm workers became ready, since the job began."""
        self.wait(lambda: len(re.findall("warm worker is ready", self._program.err)) >= count,
                  f"{count} warm workers", 240)  # they import when nothing else wants a processor

    def spares(self):
        """Memory of each warm worker that waits: resident, and not shared with another process."""
        found = []
        for pid in measure.agent_processes(self._program.pid):
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == SPARE:
                found.append({"rss_mib": measure.memory_kib(pid, "Rss") / 1024,
                              "private_mib": (measure.memory_kib(pid, "Private_Clean")
                                              + measure.memory_kib(pid, "Private_Dirty")) / 1024})
        return found

    def close(self):
        self._program.end(40)
        self._folder.cleanup()


def restart(command, python, kills, warm, times, spares):
    """Adds for each kill to `times` the seconds from SIGKILL of a rank (they take turns) to the moment
    when every rank has completed the first step of the next attempt; with warm workers, to `spares`
    what each of these holds."""
    options = ["--standalone", "--nproc-per-node", str(WORKERS), "--max-restarts", str(kills)]
    job = Training(command + options + (["--warm-workers"] if warm else []), python)
    with contextlib.closing(job):
        stamps = job.stamps(WORKERS)
        for kill in range(kills):
            if warm:
                job.warm(WORKERS * (kill + 1))
                spares += job.spares()
            time.sleep(0.3)  # it trains, and nothing else goes on
            begin = time.monotonic_ns()
            os.kill({rank: pid for _, rank, pid in stamps}[kill % WORKERS], signal.SIGKILL)
            stamps = job.stamps(WORKERS * (kill + 2))
            times.append((max(ns for ns, _, _ in stamps) - begin) / 1e9)


def imports(python):
    """Seconds for what TRAIN imports, in WORKERS processes side by side."""
    begin = time.monotonic_ns()
    processes = [subprocess.Popen([str(python), "-c", IMPORTS], stdout=subprocess.PIPE,
                                  env=dict(os.environ, OMP_NUM_THREADS="1"))
                 for _ in range(WORKERS)]
    return (max(int(process.communicate(timeout=120)[0]) for process in processes) - begin) / 1e9


def restarts(jobs, python, rounds, kills, into):
    """Of `jobs`, by turns: {name: (command, warm)}. Between them the imports alone ("imports")."""
    for turn in range(rounds):
        for name, (command, warm) in jobs.items():
            measure.note(f"  turn {turn + 1} of {rounds}: {name}")
            restart(command, python, kills, warm, into.setdefault(name, []),
                    into.setdefault("spares", []))
            into.setdefault("imports", []).append(imports(python))


def jobs(launchers, cold=True):
    """For restarts(): each launcher in the plain way, and ddprun with warm workers ("warm")."""
    found = {name: (FRESH_STORE + command if name == "torchrun" else command, False)
             for name, command in launchers.items() if cold or name != "ddprun"}
    return found | {"warm": (launchers["ddprun"], True)}
