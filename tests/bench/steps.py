"""The steps of scripts/bench: what each measures, and how often."""
import json
import pathlib
import subprocess

import measure
import measure_loss
import measure_python
import measure_rendezvous
import measure_slurm
import measure_store
import trainer_steps

WORKERS = 8
RESTARTED_AGENTS = 1_000
# Of the step scale. With the default of 3 s the heartbeats of so many would be 200,000 a second.
SCALE_AGENTS = (10_000, 100_000)
SCALE_HEARTBEAT_TIMEOUT_S = 60
# The names on the command line, and their steps; of trainers: trainer_steps.
NAMES = {
    "launch": ["launch"], "footprint": ["footprint"], "recovery": ["recovery"],
    "python": ["first_line", "pytorch_restart"],
    "store": ["one_client", "store_load", "pytorch_store", "meeting"],
    "rendezvous": ["rendezvous"], "scale": ["scale"], "restart": ["restart"], "starts": ["starts"],
    "slurm": ["slurm"], "kill": ["kill"], "cut": ["cut"], "host": ["host"],
}
NEED_PYTORCH = ("first_line", "pytorch_restart", "pytorch_store", "meeting")
# Runs of a step: of ddprun and of torchrun, or of both.
RUNS = {
    "full": {"launch": (45, 9), "footprint": 5, "recovery": (41, 9), "first_line": (60, 10),
             "pytorch_restart": (3, 3), "one_client": 5, "store_load": 5, "pytorch_store": 5, "meeting": 7,
             "rendezvous": 5, "scale": 3, "restart": 21, "starts": (9, 5), "slurm": (15, 5), "kill": (21, 5), "cut": (7, 5),
             "host": (7, 5)},
    "quick": {"launch": (3, 1), "footprint": 1, "recovery": (3, 1), "first_line": (4, 1),
              "pytorch_restart": (1, 1), "one_client": 1, "store_load": 1, "pytorch_store": 1, "meeting": 1,
              "rendezvous": 1, "scale": 1, "restart": 3, "starts": (1, 1), "slurm": (1, 1), "kill": (2, 1), "cut": (1, 1),
              "host": (1, 1)},
    "check": {"launch": (15, 2), "footprint": 1, "recovery": (9, 2), "first_line": (9, 2),
              "pytorch_restart": (1, 2), "restart": 5, "kill": (5, 0)},
}

for how, runs_ in trainer_steps.RUNS.items():
    RUNS[how].update(runs_)


class Bench(trainer_steps.TrainerSteps):
    """One method for each step."""

    def __init__(self, launchers, python, build_dir, runs):
        self.launchers, self.python, self.build_dir = launchers, python, build_dir
        self.ddprun = launchers["ddprun"][0]
        self.stamp_worker = self.program("stamp_worker")
        self.how, self.runs = runs, RUNS[runs]
        # The default; and however late a machine is that does other things besides.
        self.heartbeat_timeout = 120 if runs == "quick" else 3

    def program(self, name):
        return str(self.build_dir / "tests" / name)

    def measure(self, step, report):
        """Into report["found"][step]. A step that fails keeps what it has, and its reason is in
        report["failed"]; why one cannot be done on this machine is in report["left_out"]."""
        missing = self.missing(step)
        if missing:
            report["left_out"][step] = missing
            measure.note(f"{step} is left out: {missing}")
            return
        try:
            getattr(self, step)(report["found"].setdefault(step, {}))
        except Exception as why:
            report["failed"][step] = " ".join(str(why).split())[:1000] or type(why).__name__
            measure.note(f"{step} failed: {report['failed'][step]}")

    def missing(self, step):
        if step in NEED_PYTORCH and not self.python:
            return "needs PyTorch; scripts/setup --with-pytorch brings it"
        if step == "scale" and self.how != "quick":
            return measure_rendezvous.allow_descriptors(max(SCALE_AGENTS) + 1_000)
        if step == "gpt2_10m_bf16" and " avx512_bf16 " not in pathlib.Path("/proc/cpuinfo").read_text():
            return "this processor has no instructions for bf16 (avx512_bf16)"
        if step == "slurm":
            return ": ".join(measure_slurm.missing() or ())
        return ": ".join(measure_loss.missing() or ()) if step in measure_loss.SILENT else ""

    def of_each(self, step):
        ours, theirs = self.runs[step]
        counts = {name: ours if name == "ddprun" else theirs for name in self.launchers}
        return {name: count for name, count in counts.items() if count}

    def launch(self, into):
        measure.launch(self.launchers, self.of_each("launch"), into)

    def footprint(self, into):
        seconds = {"full": 20, "quick": 2, "check": 0}[self.how]
        measure.footprint(self.launchers, self.stamp_worker, WORKERS, self.runs["footprint"], seconds,
                          into)

    def recovery(self, into):
        measure.recovery(self.launchers, self.stamp_worker, self.of_each("recovery"), into)

    def first_line(self, into):
        measure_python.first_line(self.launchers, self.python, self.of_each("first_line"), into)

    def pytorch_restart(self, into):
        rounds, kills = self.runs["pytorch_restart"]
        jobs = measure_python.jobs(self.launchers, self.how != "check")
        measure_python.restarts(jobs, self.python, rounds, kills, into)

    def one_client(self, into):
        """store_bench's reports: our store beside a bare echo server over the same socket code."""
        for _ in range(self.runs["one_client"]):
            few = ["3", "50"] if self.how == "quick" else []
            done = subprocess.run([self.program("store_bench"), *few], check=True, capture_output=True,
                                  text=True, timeout=120)
            into.setdefault("ddprun", []).append(json.loads(done.stdout.strip().split("\n")[-1]))

    def store_load(self, into):
        for clients in (8, 256):
            into[str(clients)] = measure_store.load(
                self.ddprun, self.python, self.program("store_load"), clients,
                5 if self.how == "quick" else 100, self.runs["store_load"])

    def pytorch_store(self, into):
        into.update(measure_store.pytorch_load(self.ddprun, self.python, 256,
                                               5 if self.how == "quick" else 100,
                                               self.runs["pytorch_store"]))

    def meeting(self, into):
        into.update(measure_store.meeting(self.launchers, self.python, WORKERS,
                                          self.runs["meeting"]))

    def rendezvous(self, into):
        measure_rendezvous.meetings(self.ddprun, self.program("agents_load"), (100, 1_000, 10_000),
                                    self.runs["rendezvous"], self.heartbeat_timeout, into)

    def scale(self, into):
        agents = SCALE_AGENTS[:1] if self.how == "quick" else SCALE_AGENTS
        measure_rendezvous.meetings(self.ddprun, self.program("agents_load"), agents,
                                    self.runs["scale"], SCALE_HEARTBEAT_TIMEOUT_S, into)

    def restart(self, into):
        measure_rendezvous.restarts(self.ddprun, self.program("agents_load"), RESTARTED_AGENTS,
                                    self.runs["restart"], self.heartbeat_timeout, into)

    def starts(self, into):
        counts = (4,) if self.how == "quick" else (4, 16)
        measure_rendezvous.starts(self.launchers, self.python, self.stamp_worker, counts,
                                  self.of_each("starts"), into)

    def slurm(self, into):
        runs = self.of_each("slurm")
        measure_slurm.starts(self.launchers, self.stamp_worker, {"srun": runs["ddprun"], **runs}, into)

    def kill(self, into):
        measure_loss.kill(self.launchers, self.stamp_worker, self.of_each("kill"), into)

    def cut(self, into):
        measure_loss.silent("cut", self.launchers, self.stamp_worker, self.of_each("cut"), into)

    def host(self, into):
        measure_loss.silent("host", self.launchers, self.stamp_worker, self.of_each("host"), into)
