"""Warm workers (docs/warm-workers.md): a restart that goes on in a process which has imported ahead
is, for the program, like any other. All jobs of this file start at once: most of their time is the
wait until a warm worker is ready. Those that no chosen test uses are left out."""
import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import textwrap

import interop
from program import is_alive, parent_of

# Every program here: in attempt 0 it waits for the file `go`, and fails; in attempt 1 it goes on.
FIRST_ATTEMPT = """
import os, sys, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    deadline = time.monotonic() + 150
    while not os.path.exists(os.environ["GO"]) and time.monotonic() < deadline:
        time.sleep(0.01)
    os._exit(1)
"""

# All that a program can see of itself, once before its first import of a warmed package.
PORTRAIT = """
import ctypes, io, json, resource, signal, threading
frame, depth = sys._getframe(), 0
while frame:
    frame, depth = frame.f_back, depth + 1
def status(*names):
    lines = dict(l.split(":", 1) for l in open("/proc/self/status").read().splitlines())
    return {n: lines[n].strip() for n in names}
def caught():  # the C library takes signals 32 and 33 for itself with the first thread
    return int(status("SigCgt")["SigCgt"], 16) & ~(3 << 31)
def streams():
    for s in (sys.stdin, sys.stdout, sys.stderr):
        yield [s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.fileno(),
               s.write_through, s.isatty(), s.seekable(), s.buffer.seekable(), s.buffer.name,
               type(s).__name__, type(s.buffer).__name__, s is getattr(sys, "__%s__" % s.name[1:-1])]
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death), 0, 0, 0)
varied = ("MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "DDPRUN_PROGRESS_CHANNEL",
          "TORCHELASTIC_RUN_ID", "GO", "OUT")
main = sys.modules["__main__"]
seen = {
    "argv": sys.argv, "orig_argv": sys.orig_argv, "flags": str(sys.flags), "path": sys.path,
    "cmdline": open("/proc/self/cmdline").read(), "comm": open("/proc/self/comm").read(),
    "executable": sys.executable, "prefix": sys.prefix, "name": __name__, "depth": depth,
    "file": __file__, "spec": [getattr(__spec__, n, None) for n in ("name", "origin", "cached")], "package": __package__, "doc": __doc__,
    "loader": type(__loader__).__name__, "main": sorted(vars(main)), "is_main": vars(main) is globals(),
    "environment": {n: v for n, v in os.environ.items() if n not in varied},
    "native": {n: ctypes.CDLL(None).getenv(n.encode()) != 0 for n in ("RANK", "PYTHONPATH", "HOME")},
    "order": [n for n in os.environ],
    "fds": sorted(int(f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)),
    "signals": status("SigBlk", "SigIgn"), "caught": caught(),
    "hooks": [repr(sys.excepthook), repr(sys.displayhook)],
    "handlers": [repr(signal.getsignal(n)) for n in (1, 2, 10, 13, 15)], "death": death.value,
    "session": os.getsid(0) == os.getpgid(0) == os.getpid(), "policy": os.sched_getscheduler(0),
    "nice": os.getpriority(os.PRIO_PROCESS, 0), "cpus": sorted(os.sched_getaffinity(0)),
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "cwd": os.getcwd(), "umask": os.umask(18),
    "streams": list(streams()), "numpy_before": "numpy" in sys.modules,
    "site": [n for n in ("sitecustomize", "usercustomize") if n in sys.modules],
}
import importlib.util
seen["found"] = importlib.util.find_spec("numpy").origin
import numpy.linalg
seen["numpy"] = [numpy.__spec__.origin, numpy.__spec__.loader is numpy.__loader__, numpy.linalg.__name__,
                 type(numpy.__loader__).__name__, numpy.linalg is sys.modules["numpy.linalg"]]
seen["threads"] = status("Threads")  # those of its mathematics library wait already before that
seen["modules"] = sorted(n for n in sys.modules if n.partition(".")[0] not in sys.stdlib_module_names)
seen["meta_path"] = [repr(f) for f in sys.meta_path if "Shelf" in repr(f)]
print("out", flush=True)
print("err", file=sys.stderr)
json.dump(seen, open(os.environ["OUT"], "w"))
"""

FORKS = """
import multiprocessing, numpy
class Mine:
    def __init__(self, n): self.n = n
def double(mine):
    return Mine(2 * mine.n), os.getpid(), os.environ["RANK"], int(numpy.sum([1, 2]))
if __name__ == "__main__":
    answers = {}
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            mine, pid, rank, three = pool.map(double, [Mine(21)])[0]
            answers[method] = [mine.n, pid != os.getpid(), rank, three]
    child = os.fork()
    if child == 0:
        import numpy.fft
        os._exit(7)
    answers["os.fork"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    json_out = __import__("json").dump([os.getpid(), answers], open(os.environ["OUT"], "w"))
"""

# The import must see what the program set before it, as in any start.
SETS_BEFORE = """
begun = os.getpid(), "ddp-started-again" in os.environ
os.environ["CUDA_VISIBLE_DEVICES"] = "3"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
{more}
with open(os.environ["OUT"] + ".begins", "a") as file:
    print(os.getpid(), file=file)
import json, numpy
json.dump([os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("OMP_NUM_THREADS")],
          open(os.environ["OUT"], "w"))
"""

AT_IMPORT = """
import json
import mine_at_import
import numpy
json.dump([os.getpid(), mine_at_import.argv, mine_at_import.restart], open(os.environ["OUT"], "w"))
"""

CRASHES = """
import atexit, numpy
def inner():
    raise ValueError("from " + str(os.getpid()))
atexit.register(lambda: print("exit handlers ran", flush=True))
open(os.environ["OUT"], "w").write("%d" % os.getpid())
{ending}
"""

WARM = ["--standalone", "--max-restarts", 1, "--warm-workers"]
COLD = ["--standalone", "--max-restarts", 1]


class Job:
    """One node whose attempt 0 ends when told to."""

    def __init__(self, folder, name, program, options=WARM, before=(), words=(), env=None, **files):
        self.folder = folder / name
        for file, text in {"main.py": FIRST_ATTEMPT + program, "pkg/__init__.py": "",
                           "pkg/mod.py": FIRST_ATTEMPT + program, **files}.items():
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_text(textwrap.dedent(text))
        self.out = self.folder / "out"
        variables = interop.environment(GO=self.folder / "go", OUT=self.out, LOGLEVEL="INFO",
                                        TORCHELASTIC_RUN_ID=None, **(env or {}))
        self.node = interop.Program(self.folder, "node",
                                 [interop.DDPRUN, *options, *(before or ["main.py"]), *words],
                                 env=variables, cwd=self.folder)

    def said(self, pattern):
        return re.findall(pattern, self.node.err)

    def ready(self, count=1):
        found = interop.wait_until(
            lambda: (pids := self.said(r"warm worker is ready \(process (\d+)"))
            and len(pids) >= count and pids, lambda: f"{count} ready; {self.node}")
        return [int(pid) for pid in found]

    def go(self):
        (self.folder / "go").touch()
        return self

    def taken(self):
        return [int(pid) for pid in self.said(r"warm worker \(process (\d+)\) goes on")]

    def answer(self):
        return json.loads(self.out.read_text())


HIDES = {"pickle.py": "from _pickle import *\n"}
MINE = {"mine_at_import.py": "import os, sys\nargv = list(sys.argv)\n"
                             "restart = os.environ['TORCHELASTIC_RESTART_COUNT']\n"}
BESIDE = {"lib/beside/__init__.py": "import os\nahead = not os.path.exists(os.environ['GO'])\n"}
NAMED = """
import json, beside
json.dump([os.getpid(), beside.ahead], open(os.environ["OUT"], "w"))
"""
JOBS = {
    "file": (PORTRAIT, dict(words=["a", "", "--b=${local_rank}"], env=dict(PYTHONPATH="x"))),
    "module": (PORTRAIT, dict(before=["-m", "pkg.mod"], words=["c"])),
    "logged": (PORTRAIT, dict(options=[*WARM, "--redirects", 3, "--log-dir", "logs"])),
    "forks": (FORKS, {}),
    "visible": (SETS_BEFORE.replace("{more}", ""), {}),
    "threads": (SETS_BEFORE.replace("{more}", 'os.environ["OMP_NUM_THREADS"] = "2"'), {}),
    "imports": (AT_IMPORT, dict(words=["w"], **MINE)),
    "named": (NAMED, dict(options=[*WARM, "--warm-imports", "beside"], env=dict(PYTHONPATH="lib"),
                          **BESIDE)),
    "raises": (CRASHES.replace("{ending}", "inner()"), {}),
    "exits": (CRASHES.replace("{ending}", "sys.exit('bye')"), {}),
    "interrupted": (CRASHES.replace("{ending}", "raise KeyboardInterrupt"), {}),
    "killed": (CRASHES.replace("{ending}", "pass"), {}),
    "orphaned": (CRASHES.replace("{ending}", "pass"), {}),
    "hidden": ("import numpy\n", HIDES),
    "wrapped": ("import numpy\n", {}),
}
BESIDE_A_COLD_ONE = ("file", "module", "logged", "raises", "exits", "interrupted")


def uses(*jobs):
    """Those of JOBS that the test needs."""
    def mark(test):
        test.uses = jobs
        return test
    return mark


class Warm(interop.JobTest):
    wanted = set()  # of the tests that were chosen

    def __init__(self, test):
        super().__init__(test)
        self.wanted.update(getattr(self, test).uses)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-warm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.jobs = {}
        for name in sorted(cls.wanted):
            program, how = JOBS[name]
            if name == "wrapped":
                wrapper = cls.folder / "python-without-path"
                wrapper.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH "{interop.PYTHON}" "$@"\n')
                wrapper.chmod(0o755)
                how = dict(env=dict(PYTHON_EXEC=wrapper))
            cls.add(name, program, **how)
            if name in BESIDE_A_COLD_ONE:
                plain = dict(how, options=[*COLD, *how.get("options", WARM)[len(WARM):]])
                cls.add(name + " cold", program, **plain).go()

    def setUp(self):
        pass  # the folder is the class's

    @classmethod
    def add(cls, name, program, **how):
        cls.jobs[name] = job = Job(cls.folder, name, program, **how)
        cls.addClassCleanup(job.node.end)
        return job

    def finish(self, name, code=0, warm=True):
        """Attempt 0 fails once the warm worker waits; the job's end; the pid that took over."""
        job = self.jobs[name]
        pids = job.ready()
        self.assertTrue(all(map(is_alive, pids)), str(job.node))
        job.go()
        self.assertEqual(job.node.wait(), code, str(job.node))
        self.assertEqual(job.taken(), pids if warm else [], str(job.node))
        self.assertFalse(any(map(is_alive, pids)), str(job.node))
        return job, pids[0]

    def assertSameAsCold(self, name):
        job, _ = self.finish(name)
        cold = self.jobs[name + " cold"]
        self.assertEqual(cold.node.wait(), 0, str(cold.node))
        self.assertNotIn("warm worker", cold.node.err)  # there are none unless one asks for them
        swap = lambda text: json.loads(text.replace(str(cold.folder), str(job.folder)))
        expected, seen = swap(cold.out.read_text()), job.answer()
        self.assertEqual(seen.keys(), expected.keys())
        for key in expected:
            self.assertEqual(seen[key], expected[key], key)
        return job

    @uses("file")
    def test_a_script_sees_what_it_would_see_in_a_plain_start(self):
        job = self.assertSameAsCold("file")
        self.assertEqual(job.answer()["argv"], ["main.py", "a", "", "--b=0"])
        self.assertEqual(job.node.out, "out\n")
        self.assertEqual(job.node.err.count("err\n"), 1, str(job.node))

    @uses("module")
    def test_a_module_sees_what_it_would_see_in_a_plain_start(self):
        self.assertSameAsCold("module")

    @uses("logged")
    def test_output_goes_to_the_files_of_the_attempt_that_it_became_part_of(self):
        job = self.assertSameAsCold("logged")
        for stream in ("out", "err"):
            files = list(job.folder.glob(f"logs/*/attempt_1/0/std{stream}.log"))
            self.assertEqual([f.read_text() for f in files], [stream + "\n"])

    @uses("forks")
    def test_children_by_fork_spawn_and_forkserver_know_the_programs_classes(self):
        job, pid = self.finish("forks")
        children = [42, True, "0", 3]
        self.assertEqual(job.answer(), [pid, {"fork": children, "spawn": children,
                                              "forkserver": children, "os.fork": 7}])

    @uses("visible")
    def test_variables_that_no_import_reads_may_be_set_before_it(self):
        job, pid = self.finish("visible")
        self.assertEqual(job.answer()[:2], [pid, "3"])
        begins = pathlib.Path(f"{job.out}.begins").read_text().split()
        self.assertEqual(begins, [str(pid)])

    @uses("threads")
    def test_a_program_that_sets_what_the_import_reads_starts_again_in_the_plain_way(self):
        job, pid = self.finish("threads")
        self.assertEqual(job.answer(), [pid, "3", "2"])
        begins = pathlib.Path(f"{job.out}.begins").read_text().split()
        self.assertEqual(begins, [str(pid)] * 2)

    @uses("imports")
    def test_modules_of_the_program_itself_are_imported_with_the_final_environment(self):
        job, pid = self.finish("imports")
        self.assertEqual(job.answer(), [pid, ["main.py", "w"], "1"])

    @uses("named")
    def test_a_package_that_warm_imports_names_is_imported_ahead(self):
        job, pid = self.finish("named")
        self.assertEqual(job.answer(), [pid, True])

    @uses("raises", "exits", "interrupted")
    def test_an_end_in_an_exception_looks_as_always(self):
        for name in ("raises", "exits", "interrupted"):
            job, pid = self.finish(name, code=1)
            cold = self.jobs[name + " cold"]
            self.assertEqual(cold.node.wait(), 1)
            told = []
            for one in (job, cold):
                self.assertEqual(one.node.out, "exit handlers ran\n")
                text = one.node.err.replace(str(one.folder), "").replace(one.out.read_text(), "PID")
                text = re.sub(r"(?m)^(\[ddprun\]|  (time|resumed|attempt|restarts|effective)|[=-]{5}).*\n", "",
                              text)
                told.append(re.sub(r"(downtime|\(pid:) .*", "", text))
            self.assertEqual(*told)
            self.assertIn({"raises": "ValueError: from", "exits": "bye",
                           "interrupted": "KeyboardInterrupt"}[name], told[0])

    @uses("killed")
    def test_a_warm_worker_that_was_killed_is_not_missed(self):
        job = self.jobs["killed"]
        [pid] = job.ready()
        os.kill(pid, signal.SIGKILL)
        interop.wait_until(lambda: job.said("the warm worker is lost: it was ended by signal 9"),
                           lambda: f"the loss is told; {job.node}")
        self.assertEqual(job.go().node.wait(), 0, str(job.node))
        self.assertNotEqual(job.out.read_text(), str(pid))

    @uses("orphaned")
    def test_a_warm_worker_dies_with_its_agent(self):
        job = self.jobs["orphaned"]
        [pid] = job.ready()
        agent = parent_of(pid)
        os.kill(agent, signal.SIGKILL)
        interop.wait_until(lambda: not is_alive(pid), "the warm worker is gone", 5)
        job.node.wait()

    @uses("hidden")
    def test_a_file_of_the_program_that_hides_a_module_means_a_plain_start(self):
        job = self.jobs["hidden"]
        interop.wait_until(lambda: job.said(r"no warm workers: \S*/pickle.py hides a module"),
                           lambda: f"it is told; {job.node}")
        job.go().node.wait()
        self.assertEqual(job.taken(), [])

    @uses("wrapped")
    def test_an_interpreter_that_cannot_be_made_to_wait_means_a_plain_start(self):
        job = self.jobs["wrapped"]
        interop.wait_until(lambda: job.said("did not look at PYTHONPATH"),
                           lambda: f"it is told; {job.node}")
        self.assertEqual(job.go().node.wait(), 0, str(job.node))
        self.assertEqual(job.taken(), [])


if __name__ == "__main__":
    interop.main()
