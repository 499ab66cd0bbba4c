"""What the interop tests share: where ddprun, torchrun and the Python with PyTorch are, and launchers
that end with their test. A test file ends with `interop.main()`."""
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from free_port import free_port  # noqa: E402
from program import PATIENCE, Program, wait_until  # noqa: E402

VENV = pathlib.Path(os.environ.get("DDPRUN_TEST_VENV", ROOT / ".venv"))
PYTHON = VENV / "bin" / "python"
TORCHRUN = VENV / "bin" / "torchrun"
DDPRUN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin")) / "ddprun"
WANTED = "2.13."


def why_no_torch():
    """Empty when PyTorch is there; importing it to find out would take a second per test."""
    versions = list(VENV.glob("lib/python*/site-packages/torch/version.py"))
    if not versions:
        return f"there is none in {VENV}; scripts/setup --with-pytorch makes it"
    text = versions[0].read_text()
    if f"'{WANTED}" not in text:
        return f"the one in {VENV} is no {WANTED}x, which these tests are about"
    return ""


def main():
    """Runs the test file, or those of its tests that are named."""
    if not DDPRUN.exists():
        sys.exit(f"no {DDPRUN}; build first")
    # Under nohup, or in the background of a script, some of these are ignored, and that is inherited.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    skip.main()


def environment(**more):
    """A clean environment in which `python` is the one with PyTorch. None removes a variable."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("PET_", "TORCHELASTIC", "MASTER_", "OMP_"))
            and name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOGLEVEL")}
    kept["PATH"] = f"{VENV / 'bin'}:{kept.get('PATH', os.defpath)}"
    kept["PYTHON_EXEC"] = str(PYTHON)
    kept.update({name: str(value) for name, value in more.items() if value is not None})
    return {name: value for name, value in kept.items() if more.get(name, "") is not None}


def lines_of(nodes):
    """What the workers of all nodes wrote to stdout, sorted."""
    return sorted(line for node in nodes for line in node.out.splitlines() if line)


# PyTorch's own store, of both kinds.
STORES = """
import time, torch.distributed as dist
stores = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=libuv)
          for libuv in (True, False)]
print(*[store.port for store in stores], flush=True)
time.sleep(1000)
"""


class JobTest(unittest.TestCase):
    """A test with a folder of its own and launchers that end with it. It needs PyTorch, unless its
    class says otherwise."""
    needs_torch = True

    @classmethod
    def setUpClass(cls):
        why = cls.needs_torch and why_no_torch()
        skip.need(skip.PYTORCH, not why, why)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-interop-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self._nodes = []

    def start(self, *words, launcher=None, env=None, cwd=None):
        """Starts ddprun (or another launcher) with these words; returns its Program."""
        node = Program(self.folder, f"node{len(self._nodes)}", [launcher or DDPRUN, *words],
                       env=env or environment(), cwd=cwd or self.folder)
        self._nodes.append(node)
        self.addCleanup(node.end)
        return node

    def run_job(self, *words, code=0, seconds=PATIENCE, **how):
        """One node, to its end, which is to be `code`."""
        node = self.start(*words, **how)
        self.assertEqual(node.wait(seconds), code, str(node))
        return node

    def start_nodes(self, options, script_words, nodes=2, each=None, **how):
        """`nodes` agents that meet at a free port of this machine; `each(i)` gives more options
        of node i."""
        meet = ["--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-id", "interop",
                "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
        return [self.start(*meet, *options, *(each(i) if each else []), *script_words, **how)
                for i in range(nodes if isinstance(nodes, int) else int(nodes.split(":")[1]))]

    def run_nodes(self, *how, code=0, **more):
        """The same, to their end."""
        nodes = self.start_nodes(*how, **more)
        for node in nodes:
            self.assertEnded(node, code)
        return nodes

    def host_stores(self):
        """The ports of a PyTorch store that libuv serves and of one that poll() serves."""
        host = self.start("-c", STORES, launcher=PYTHON)
        return wait_until(lambda: host.out.endswith("\n") and host.out, "two stores").split()

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def assertEnded(self, node, code=0):
        self.assertEqual(node.wait(), code, str(node))
