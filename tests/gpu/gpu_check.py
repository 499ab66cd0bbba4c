"""What scripts/gpu-check runs: see there.

usage: gpu_check.py --root DIR [--built DIR] [--quick] [--standin]
  --standin  takes the stand-ins of tests/standin for GPU, NCCL and NVML: shows, where there is no GPU,
             that this file works, and nothing else"""
import argparse
import ctypes
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import gpt2_on_gpu
import nvml
import resnet_on_gpu

SKIPPED = 77
LIMIT_S = 540  # of all checks together
STEPS = 60
OLDEST_TO_SHARE = 23000  # NCCL 2.30: several ranks on one GPU
ABORT_S = 1.0
# A context's last pages go a little after its process.
FREED_S = 10.0
SLACK_BYTES = 16 << 20
# Of 1024 tokens each; the largest that PyTorch has room for.
SPEED_BATCHES = {70 << 30: 64, 0: 16}
SPEED_STEPS, SPEED_ROUNDS = 40, 3
# Of 32 x 32 pixels. PyTorch compiles for a minute and more before it is measured.
RESNET_BATCH, RESNET_ROUNDS = 512, 2


class Failed(Exception):
    pass


class Skipped(Exception):
    """What this machine lacks."""


def compared(text, rate, peers, more=lambda peer: ""):
    """With PyTorch's rates beside ours, or the reason why there are none."""
    if reasons := [peer for peer in peers if isinstance(peer, str)]:
        return f"{text}; not compared: {reasons[0]}"
    peer = statistics.median(peers)
    return f"{text}; PyTorch {peer:,.0f}{more(peer)}: {rate / peer:.2f} of it"


def nccl_version(environment):
    """As NCCL counts: 2.30.1 is 23001. 0 without an NCCL."""
    try:
        library = ctypes.CDLL(environment.get("DDPRUN_NCCL_LIBRARY") or "libnccl.so.2")
    except OSError:
        return 0
    version = ctypes.c_int()
    return 0 if library.ncclGetVersion(ctypes.byref(version)) else version.value


class StandinNvml:
    """For --standin: the memory of a GPU that nobody has."""

    def name(self):
        return "a stand-in: nothing here is proved of a GPU"

    def used_bytes(self):
        return [0]

    def total_bytes(self):
        return 0

    def processes(self):
        return set()


class Job:
    """Two workers of one agent on one GPU; the output is read from files, so nobody waits for us."""

    def __init__(self, check, folder, restarts=1):
        self.out, self.err = folder / "out", folder / "err"
        command = [check.bin / "ddprun", "--standalone", "--nproc-per-node", "2", "--max-restarts",
                   str(restarts), check.tests / "nccl_worker", str(STEPS), folder / "snapshot"]
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err,
                                            env=check.environment, start_new_session=True)

    def text(self):
        return self.out.read_text() + self.err.read_text()

    def wait_for(self, pattern, limit_s):
        """The match, and when it was seen."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if match := re.search(pattern, self.text(), re.M):
                return match, time.monotonic()
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        if match := re.search(pattern, self.text(), re.M):
            return match, time.monotonic()
        raise Failed(f"the job did not write {pattern!r} within {limit_s} s:\n{self.text()[-3000:]}")

    def workers(self):
        """{rank: pid}, by their own variables."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = dict(line.split("=", 1) for line in
                                 (folder / "environ").read_text(errors="replace").split("\0")
                                 if "=" in line)
                program = os.readlink(folder / "exe")
            except OSError:  # it has ended, or is not ours
                continue
            if program.endswith("nccl_worker") and str(self.out.parent) in \
                    (folder / "cmdline").read_text().replace("\0", " "):
                found[int(variables["RANK"])] = int(folder.name)
        return found

    def bits(self, limit_s=120):
        """What both ranks end with."""
        bits = [self.wait_for(rf"^done {rank} (\w+)$", limit_s)[0][1] for rank in (0, 1)]
        if self.process.wait(timeout=60):
            raise Failed(f"the job ended with {self.process.returncode}:\n{self.text()[-3000:]}")
        if bits[0] != bits[1]:
            raise Failed(f"the ranks differ: {bits}")
        return bits[0]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Check:
    def __init__(self, options, gpu):
        self.gpu = gpu
        self.bin = options.built / "bin"
        self.tests = options.built / "tests"
        self.deadline = time.monotonic() + LIMIT_S
        self.environment = {**os.environ, "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        if options.standin:
            self.environment |= {"DDPRUN_GPU_LIBRARY": str(self.tests / "libstandin_gpu.so"),
                                 "DDPRUN_NCCL_LIBRARY": str(self.tests / "libstandin_nccl.so"),
                                 "DDPRUN_CUBLASLT_LIBRARY": str(self.tests / "libstandin_cublaslt.so"),
                                 "DDPRUN_CUDNN_LIBRARY": str(self.tests / "libstandin_cudnn.so")}
        else:
            # So that both ranks are on the first one, however many there are.
            self.environment["CUDA_VISIBLE_DEVICES"] = \
                os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        self.undisturbed = ""
        self.is_standin = options.standin

    def unit_tests(self):
        """the tests that ctest -L gpu runs"""
        # The programs themselves: ctest would look for them where they were built.
        programs = [file for file in sorted(self.tests.glob("unit_*gpu*")) if os.access(file, os.X_OK)]
        if not programs:
            raise Failed(f"{self.tests} has no unit_gpu; build the release preset")
        for program in programs:
            done = subprocess.run([program], capture_output=True, text=True,
                                  timeout=self.left())
            if re.search(r"^skipped:", done.stdout, re.M):
                raise Failed(f"tests were skipped, though there is a GPU:\n{done.stdout}")
            if done.returncode:
                raise Failed(f"{program.name}: {done.stdout[-3000:]}{done.stderr[-1000:]}")
        return ", ".join(program.name for program in programs)

    def need_sharing(self):
        version = nccl_version(self.environment)
        if version < OLDEST_TO_SHARE:
            raise Skipped(f"two ranks on one GPU need NCCL {OLDEST_TO_SHARE}, here is {version or 'none'}"
                          "; pip's nvidia-nccl-cu13 has one, DDPRUN_NCCL_LIBRARY names it")

    def two_ranks(self):
        """two ranks on one GPU reduce to the same bits"""
        self.need_sharing()
        with tempfile.TemporaryDirectory() as name:
            job = Job(self, pathlib.Path(name))
            try:
                self.undisturbed = job.bits()
            finally:
                job.end()
        return self.undisturbed

    def killed_rank(self):
        """SIGKILL of one rank: the other aborts within 1 s, the resumed result is bit-equal"""
        self.need_sharing()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            took = self.abort_time(folder)
            job = Job(self, folder)  # goes on from the snapshot
            try:
                bits = job.bits()
            finally:
                job.end()
            if re.search(r"^stepped 0 1$", job.text(), re.M):
                raise Failed("the job began anew instead of going on from the snapshot")
        if took > ABORT_S:
            raise Failed(f"rank 0 aborted after {took:.2f} s; {ABORT_S} s were allowed")
        if bits != self.undisturbed:
            raise Failed(f"the resumed job has {bits}, the undisturbed one {self.undisturbed}")
        return f"aborted after {took:.2f} s, bits {bits}"

    def abort_time(self, folder):
        """Two ranks without an agent, which would stop the survivor at once."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        errors = [folder / f"err{rank}" for rank in (0, 1)]
        ranks = []
        try:
            for rank in (0, 1):
                variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2,
                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                with errors[rank].open("w") as err:
                    ranks.append(subprocess.Popen(
                        [self.tests / "nccl_worker", str(STEPS), str(folder / "snapshot")],
                        stdout=subprocess.PIPE, stderr=err, text=True,
                        env=self.environment | {key: str(value) for key, value in variables.items()}))
            for line in ranks[1].stdout:
                if line == "stepped 1 20\n":
                    break
            begin = time.monotonic()
            ranks[1].kill()
            ranks[0].communicate(timeout=30)
            took = time.monotonic() - begin
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        if not re.search(r"#\d+ .*failed: rank 1 is gone", errors[0].read_text()):
            raise Failed(f"rank 0 does not name rank 1:\n{errors[0].read_text()[-2000:]}")
        return took

    def killed_agent(self):
        """kill -9 of the agent: nothing is left in GPU memory, by NVML"""
        self.need_sharing()
        before, strangers = self.gpu.used_bytes(), self.gpu.processes()
        with tempfile.TemporaryDirectory() as name:
            job = Job(self, pathlib.Path(name))
            try:
                job.wait_for(r"^stepped 1 10$", 120)
                during = self.gpu.used_bytes()
                job.process.kill()
                job.process.wait()
                begin = time.monotonic()
                while True:
                    left = [now - then for now, then in zip(self.gpu.used_bytes(), before)]
                    if not job.workers() and max(left) <= SLACK_BYTES and \
                            not self.gpu.processes() - strangers:
                        break
                    if time.monotonic() - begin > FREED_S:
                        raise Failed(f"{FREED_S} s after it workers {job.workers()} run, "
                                     f"{max(left) >> 20} MiB of GPU memory are in use, by "
                                     f"{self.gpu.processes() - strangers}")
                    time.sleep(0.02)
            finally:
                job.end()
        held = max(now - then for now, then in zip(during, before))
        return f"{held >> 20} MiB were in use, all free {time.monotonic() - begin:.2f} s later"

    def need_cublaslt(self):
        names = [self.environment["DDPRUN_CUBLASLT_LIBRARY"]] if \
            self.environment.get("DDPRUN_CUBLASLT_LIBRARY") else ["libcublasLt.so.13", "libcublasLt.so.12"]
        for name in names:
            try:
                return ctypes.CDLL(name)
            except OSError:
                pass
        raise Skipped(f"no cuBLASLt ({', '.join(names)}); pip's nvidia-cublas has one, "
                      "DDPRUN_CUBLASLT_LIBRARY names it")

    def gpt2_killed(self):
        """train gpt2 on two ranks of one GPU: a killed rank changes no bit of the weights"""
        self.need_sharing()
        self.need_cublaslt()
        steps = 6 if self.is_standin else 400  # a GPU takes milliseconds for one
        with tempfile.TemporaryDirectory() as name:
            calm, killed = (gpt2_on_gpu.two_ranks(self.bin, pathlib.Path(name), self.environment, steps,
                                                  kill_at, self.left())
                            for kill_at in (None, steps // 2))
        if calm != killed:
            raise Failed(f"the resumed job has weights {killed}, the undisturbed one {calm}")
        return f"weights {calm}"

    def gpt2_speed(self):
        """GPT-2 of 124M parameters in bf16, beside PyTorch's"""
        self.need_cublaslt()
        model, batch, steps = ("tiny", 1, 4) if self.is_standin else ("124m", self.speed_batch(),
                                                                      SPEED_STEPS)
        ours, peers = [], []
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            vocabulary = 300 if self.is_standin else gpt2_on_gpu.SIZES["vocabulary"]
            gpt2_on_gpu.write_tokenizer(folder, vocabulary)
            context = 64 if self.is_standin else gpt2_on_gpu.SIZES["context"]
            gpt2_on_gpu.write_tokens(folder / "tokens.bin", batch * steps * context + 1, vocabulary)
            # In turns: a card that grows warm is slower for both.
            for turn in range(1 if self.is_standin else SPEED_ROUNDS):
                rate, parameters = gpt2_on_gpu.ours(self.bin, folder, f"out{turn}", self.environment,
                                                    model, batch, steps, self.left())
                ours.append(rate)
                if not self.is_standin:
                    peers.append(gpt2_on_gpu.torchs(batch, steps, self.left()))
        if self.is_standin:
            return "ran on the stand-ins, whose speed says nothing"
        flops = gpt2_on_gpu.flops_per_token(gpt2_on_gpu.SIZES, parameters)
        share = lambda rate: gpt2_on_gpu.share_of_peak(rate, flops, self.gpu.name())
        rate = statistics.median(ours)
        return compared(f"batch {batch}: {rate:,.0f} tokens/s, model FLOPs use {share(rate)}", rate, peers,
                        lambda peer: f", {share(peer)}")

    def need_cudnn(self):
        self.need_cublaslt()
        name = self.environment.get("DDPRUN_CUDNN_LIBRARY") or "libcudnn.so.9"
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            raise Skipped(f"no cuDNN ({error}); pip's nvidia-cudnn-cu13 has one, DDPRUN_CUDNN_LIBRARY names it")

    def resnet_killed(self):
        """train resnet on two ranks of one GPU: a killed rank changes no bit of the weights"""
        self.need_sharing()
        self.need_cudnn()
        images, batch, steps = (18, 3, 3) if self.is_standin else (4096, 64, 32)
        options = ["--batch-size", str(batch), "--epochs", "1", *(["--stem", "large"] if self.is_standin else [])]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            resnet_on_gpu.write_images(folder / "data", images, 4)
            calm, killed = (resnet_on_gpu.two_ranks(self.bin, folder, self.environment, options, steps, kill_at,
                                                    self.left())
                            for kill_at in (None, steps // 2 + 1))
        if calm != killed:
            raise Failed(f"the resumed job has weights {killed}, the undisturbed one {calm}")
        return f"weights {calm}"

    def resnet_speed(self):
        """ResNet-50 on images of 32 x 32 in bf16, beside PyTorch's"""
        self.need_cudnn()
        depth, batch, steps = (18, 2, 4) if self.is_standin else (50, RESNET_BATCH, SPEED_STEPS)
        options = ["--model", str(depth), *(["--stem", "large"] if self.is_standin else [])]
        ours, peers = [], []
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            resnet_on_gpu.write_images(folder / "data", batch * steps, 4)
            for turn in range(1 if self.is_standin else RESNET_ROUNDS):
                ours.append(resnet_on_gpu.ours(self.bin, folder, f"out{turn}", self.environment, options, batch,
                                               self.left()))
                if not self.is_standin:
                    peers.append(resnet_on_gpu.torchs(depth, batch, steps, self.left()))
        if self.is_standin:
            return "ran on the stand-ins, whose speed says nothing"
        rate = statistics.median(ours)
        return compared(f"batch {batch}: {rate:,.0f} images/s", rate, peers)

    def speed_batch(self):
        total = self.gpu.total_bytes()
        return next(batch for least, batch in SPEED_BATCHES.items() if total >= least)

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def run(self, checks):
        rows = []
        for check in checks:
            name = check.__doc__
            begin = time.monotonic()
            try:
                if begin > self.deadline:
                    raise Failed(f"not run: the {LIMIT_S} s are over")
                row = ("passed", name, check())
            except Skipped as lack:
                row = ("skipped", name, str(lack))
            except (Failed, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
                row = ("FAILED", name, str(error))
            rows.append(row)
            print(f"{row[0]}  {name} ({time.monotonic() - begin:.1f} s): {row[2]}", flush=True)
        count = {word: sum(row[0] == word for row in rows) for word in ("passed", "skipped", "FAILED")}
        print(f"gpu-check: {count['passed']} of {len(rows)} checks passed, {count['skipped']} were "
              f"skipped, on {self.gpu.name()}")
        return 1 if count["FAILED"] else SKIPPED if count["skipped"] else 0


def has_programs(built):
    for program in ("bin/ddprun", "bin/train", "tests/nccl_worker"):
        if not shutil.which(built / program):
            print(f"gpu-check: {built / program} is missing; build the release preset, or name by "
                  "--built where it is", file=sys.stderr)
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--built", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--standin", action="store_true")
    options = parser.parse_args()
    # Before the GPU is looked for: a name that is wrong is no reason to skip.
    if options.built is not None and not has_programs(options.built.resolve()):
        return 1
    try:
        gpu = StandinNvml() if options.standin else nvml.Nvml()
    except nvml.Missing as missing:
        print(f"skipped: needs gpu: {missing}; what only a GPU can show stays unproved here")
        return SKIPPED
    if options.built is None:
        subprocess.run([options.root / "scripts" / "build", "release", "ddprun", "ddprun_cuda",
                        "nccl_worker", "unit_gpu", "unit_gpu_layers", "train"], check=True)
        options.built = options.root / "build"
        if not has_programs(options.built):
            return 1
    options.built = options.built.resolve()
    check = Check(options, gpu)
    units = [] if options.quick or options.standin else [check.unit_tests]
    speed = [] if options.quick else [check.gpt2_speed, check.resnet_speed]
    return check.run([*units, check.two_ranks, check.killed_rank, check.killed_agent, check.gpt2_killed,
                      check.resnet_killed, *speed])


if __name__ == "__main__":
    sys.exit(main())
