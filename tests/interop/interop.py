"""What the interop tests share: where ddprun, torchrun and the Python with PyTorch are, and nodes of
a job as child processes. A test file ends with `interop.main()`."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from free_port import free_port  # noqa: E402

VENV = pathlib.Path(os.environ.get("DDPRUN_TEST_VENV", ROOT / ".venv"))
PYTHON = VENV / "bin" / "python"
TORCHRUN = VENV / "bin" / "torchrun"
DDPRUN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin")) / "ddprun"
WANTED = "2.13."
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
PATIENCE = 60  # seconds; a bound for what takes one on an idle machine


def why_no_torch():
    """Empty when PyTorch is there; importing it to find out would take a second per test."""
    versions = list(VENV.glob("lib/python*/site-packages/torch/version.py"))
    if not versions:
        return f"no PyTorch in {VENV}; scripts/setup --with-pytorch makes it"
    text = versions[0].read_text()
    if f"'{WANTED}" not in text:
        return f"the PyTorch in {VENV} is no {WANTED}x, which these tests are about"
    return ""


def main(needs_torch=True):
    """Runs the test file, or skips all of it with one line."""
    missing = why_no_torch() if needs_torch else ""
    if missing:
        print(f"skipped: {missing}")
        sys.exit(SKIPPED)
    if not DDPRUN.exists():
        sys.exit(f"no {DDPRUN}; build first")
    # Under nohup, or in the background of a script, some of these are ignored, and that is inherited.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()


def environment(**more):
    """A clean environment in which `python` is the one with PyTorch. None removes a variable."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("PET_", "TORCHELASTIC", "MASTER_", "OMP_"))
            and name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOGLEVEL")}
    kept["PATH"] = f"{VENV / 'bin'}:{kept.get('PATH', os.defpath)}"
    kept["PYTHON_EXEC"] = str(PYTHON)
    kept.update({name: str(value) for name, value in more.items() if value is not None})
    return {name: value for name, value in kept.items() if more.get(name, "") is not None}


def wait_until(condition, what, seconds=PATIENCE):
    """The first true value of condition(); fails with `what` after the bound."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def ranks_in(text):
    """The ranks of a folded line's label: "0,2-4" has four."""
    ranks = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1) if first.isdigit() else [part]
    return ranks


class Node:
    """One launcher as a child process; its output goes to files, so nothing blocks on a pipe."""

    def __init__(self, folder, name, command, env=None, cwd=None):
        self.command = [str(word) for word in command]
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(self.command, env=env or environment(), cwd=cwd,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.pid = self.process.pid

    @property
    def out(self):
        return self._out.read_text(errors="replace")

    @property
    def err(self):
        return self._err.read_text(errors="replace")

    def wait(self, seconds=PATIENCE):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self}") from None

    def end(self):
        """SIGTERM first: a launcher that is killed cannot clean up."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __str__(self):
        return f"{' '.join(self.command)}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class JobTest(unittest.TestCase):
    """A test with a folder of its own and nodes that end with it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-interop-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self._nodes = []

    def start(self, *words, launcher=None, env=None, cwd=None):
        """Starts ddprun (or another launcher) with these words; returns its Node."""
        node = Node(self.folder, f"node{len(self._nodes)}", [launcher or DDPRUN, *words],
                    env=env, cwd=cwd or self.folder)
        self._nodes.append(node)
        self.addCleanup(node.end)
        return node

    def run_job(self, *words, **how):
        """One node, to its end."""
        seconds = how.pop("seconds", PATIENCE)
        node = self.start(*words, **how)
        node.wait(seconds)
        return node

    def start_nodes(self, options, script_words, nodes=2, each=None, **how):
        """`nodes` agents that meet at a free port of this machine; `each(i)` gives more options
        of node i."""
        meet = ["--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-id", "interop",
                "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
        return [self.start(*meet, *options, *(each(i) if each else []), *script_words, **how)
                for i in range(nodes)]

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def assertEnded(self, node, code=0):
        self.assertEqual(node.wait(), code, str(node))
