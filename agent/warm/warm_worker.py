"""What makes a Python process wait just before it would begin its program (docs/warm-workers.md).

The interpreter imports this as `sitecustomize`, the last step of its own start: from a sealed
memory file that only the agent has written (warm_worker.cc). The command line is the program's
own, so all that follows once this module returns is exactly what follows in any other start.

Descriptors, by number (warm_worker.cc): 3 a socket to the agent, 4 this module.
To the agent, one message each: b"hooked", b"ready", b"no <why>", b"took". From it: one message
with three descriptors: the environment (a file of NAME=value, NUL after each), stdout, stderr.
"""
import os
import sys

CONTROL, MODULE = 3, 4
HOOK = "/proc/self/fd/4"
FILES_MAX, FILE_BYTES_MAX = 1000, 4 << 20  # of the program's own sources, in search of imports
# Read by native code when a library is loaded, so no one sees it. What Python code reads is seen.
NATIVE = (b"OMP_", b"GOMP_", b"KMP_", b"MKL_", b"OPENBLAS_", b"GOTO_", b"BLIS_", b"TORCH_",
          b"PYTORCH_", b"ATEN_", b"C10_", b"DNNL_", b"ONEDNN_", b"GLIBC_", b"MALLOC_", b"LD_",
          b"CUDA_MODULE_LOADING", b"CUBLAS_", b"KINETO_", b"PYTHON", b"LC_", b"LANG", b"TZ")
# What the first DistributedDataParallel or optimizer of a process imports by itself.
TORCH_LATER = ("torch._dynamo",)


class Unfit(Exception):
    """This process cannot become a worker; the text says why."""


def asked_by_tqdm():
    """tqdm, which torch imports where it is installed, goes through all names, but takes only those
    that begin with TQDM_."""
    frame = sys._getframe(2)
    for _ in range(6):  # os.environ and its view of items are between
        if frame is None:
            return False
        if frame.f_globals.get("__name__", "").partition(".")[0] == "tqdm":
            return True
        frame = frame.f_back
    return False


class Watched(dict):
    """The data of os.environ: remembers which names were asked for."""

    def __init__(self, data):
        super().__init__(data)
        self.asked, self.whole = set(), False

    def __getitem__(self, name):
        if os.fsencode(name).startswith(b"TQDM_") or not asked_by_tqdm():
            self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self.asked.add(name)
        return super().__contains__(name)

    def __iter__(self):
        self.whole = self.whole or not asked_by_tqdm()
        return super().__iter__()


def program():
    """(the word after -m or None, the script or None) of our own command line."""
    with open("/proc/self/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")]
    at = words.index("-u") + 1
    return (words[at + 1], None) if words[at] == "-m" else (None, words[at])


class Sources:
    """Which of the `wanted` packages the program imports, by its own sources; none is executed."""

    def __init__(self, folder, wanted):
        self.wanted = wanted
        self.folders = [(folder, "")]  # each with the one package to look for, or ""
        self.found, self.seen = {}, set()

    def file_of(self, module):
        for folder, package in self.folders:
            if package in ("", module.partition(".")[0]):
                path = os.path.join(folder, *module.split("."))
                for file in (path + ".py", os.path.join(path, "__init__.py")):
                    if os.path.isfile(file):
                        return file
        return None

    def visit_module(self, module):
        for end in [i for i, c in enumerate(module) if c == "."] + [len(module)]:
            file = self.file_of(module[:end])
            if file:
                is_package = os.path.basename(file) == "__init__.py"
                self.visit(file, module[:end] if is_package else module[:end].rpartition(".")[0])

    def visit(self, file, package):
        import ast
        if file in self.seen or len(self.seen) >= FILES_MAX:
            return
        self.seen.add(file)
        try:
            with open(file, "rb") as source:
                tree = ast.parse(source.read(FILE_BYTES_MAX))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return  # the worker itself will say it
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.name(alias.name)
            elif isinstance(node, ast.ImportFrom):
                parts = package.split(".")[:len(package.split(".")) - node.level + 1]
                base = ".".join(([] if node.level == 0 else parts)
                                + ([node.module] if node.module else []))
                self.name(base)
                for alias in node.names:
                    self.name(base + "." + alias.name if base else alias.name, True)

    def name(self, module, maybe=False):
        """`maybe`: the last part may be an attribute and no module."""
        if module.partition(".")[0] in self.wanted:
            if not module.endswith("*"):
                self.found.setdefault(module, maybe)
        else:
            self.visit_module(module)


def folder_and_imports(extra):
    """sys.path[0] as it will be, or None; and the modules to import ahead, torch first."""
    module, script = program()
    path = os.path.realpath(script) if script else None
    if path and os.path.isdir(path):
        folder, path = path, os.path.join(path, "__main__.py")
    else:
        folder = os.path.dirname(path) if path else os.getcwd()
    sources = Sources(folder, {"torch", "numpy", *extra})
    if path:
        sources.visit(path, "")
    else:
        from importlib.machinery import PathFinder
        package = module.partition(".")[0]
        for place in getattr(PathFinder.find_spec(package), "submodule_search_locations", 0) or ():
            sources.folders.append((os.path.dirname(place), package))
        sources.visit_module(module)
        sources.visit_module(module + ".__main__")
    found = sources.found
    found.update(dict.fromkeys(extra, False))
    names = sorted(found, key=lambda name: (name.partition(".")[0] != "torch", name))
    if any(name.partition(".")[0] == "torch" for name in names):
        names = ["torch"] + [n for n in names if n != "torch"] + list(TORCH_LATER)
        found.setdefault("torch", False)
    safe = getattr(sys.flags, "safe_path", False)
    return None if safe else folder, [(n, found.get(n, False)) for n in names]


def warm_up(names):
    """Imports the modules of `names`; an absent submodule is the worker's own affair."""
    import importlib
    for name, maybe in names:
        parent, _, last = name.rpartition(".")
        try:
            if not (maybe and hasattr(sys.modules.get(parent), last)):
                importlib.import_module(name)
        except Exception as why:
            if not parent:
                raise Unfit("importing %s failed: %s: %s" % (name, type(why).__name__, why))


def hidden_by(folder, before):
    """What the program's own folder has under a name that is loaded now: the worker would have
    imported that one."""
    loaded = {name.partition(".")[0] for name in sys.modules if name not in before}
    for entry in sorted(os.listdir(folder)):
        file = os.path.join(folder, entry)
        if os.path.isdir(file):
            file = os.path.join(file, "__init__.py")
        origin = getattr(getattr(sys.modules.get(entry.partition(".")[0]), "__spec__", None),
                         "origin", None)
        if (entry.partition(".")[0] in loaded and file.endswith((".py", ".so"))
                and os.path.isfile(file) and origin not in (None, file, "built-in", "frozen")):
            return file
    return None


class Shelf:
    """Imported modules that wait outside of sys.modules until the program imports one of them. Its
    environment may be another by then: if so, what the import did no longer holds, and the process
    starts again in the plain way."""

    def __init__(self, roots, changed, left_behind, start_again):
        self.changed, self.start_again, self.pid = changed, start_again, os.getpid()
        self.left_behind = left_behind  # variables that the imports set
        self.modules = {name: module for name, module in sys.modules.items()
                        if name.partition(".")[0] in roots}
        self.specs = {}
        for name in self.modules:
            del sys.modules[name]

    def find_spec(self, name, path=None, target=None):
        own = getattr(self.modules.get(name), "__spec__", None)
        if own is None:
            return None
        import copy
        spec = copy.copy(own)
        spec.loader, self.specs[name] = self, own
        return spec

    def create_module(self, spec):
        if os.getpid() == self.pid and self.changed(os.environb):
            self.start_again()
        module, root = self.modules[spec.name], spec.name.partition(".")[0]
        if root != "numpy":
            os.environb.update(self.left_behind)
        for name in list(self.modules):
            if root != "numpy" or name.partition(".")[0] == "numpy":
                sys.modules.setdefault(name, self.modules.pop(name))
        if not self.modules:
            sys.meta_path.remove(self)
        return module

    def exec_module(self, module):
        module.__spec__ = self.specs.pop(module.__name__)


class Priority:
    """Out of the way of the workers while importing. A process that may not come back from the
    idle class (another user than root) must not go there."""

    def __init__(self):
        import threading
        self.policy = os.SCHED_BATCH
        trial = threading.Thread(target=self.try_idle)
        trial.start()
        trial.join()
        os.sched_setscheduler(0, self.policy, os.sched_param(0))

    def try_idle(self):
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            self.policy = os.SCHED_IDLE
        except OSError:
            pass

    @staticmethod
    def restore():
        for thread in os.listdir("/proc/self/task"):
            try:
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))
            except ProcessLookupError:
                pass  # that thread has just ended, as the trial's has where the import is short


def difference(watched, before):
    """A function of an environment: the first variable that the imports looked at, or may have,
    and that differs from what it was then; None if all is as it was."""
    def first(now):
        names = set(watched.asked) | {n for n in [*before, *now] if n.startswith(NATIVE)}
        names.discard(b"PYTHONPATH")  # read once, long before
        return next((n for n in sorted(names) if now.get(n) != before.get(n)), None)
    return first


def start_again(environment):
    """This process from its beginning, with nothing imported ahead."""
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[:-1]
    os.execve(words[0], words, environment)


def attach(number, descriptor, collected, stream, *how):
    """`descriptor` becomes the standard stream `number`, what the imports wrote goes first, and
    the stream object is made anew in place: it had cached what the descriptor can do."""
    import io
    os.dup2(descriptor, number)
    os.close(descriptor)
    if stream is not None:
        raw = io.FileIO(number, "w", closefd=False)
        raw.name = stream.name
        stream.__init__(raw, stream.encoding, stream.errors, "\n", stream.line_buffering, True)
    while collected:
        collected = collected[os.write(number, collected):]


def collected_by(number):
    with open("/proc/self/fd/%d" % number, "rb") as file:
        return file.read()


def name_process(name):
    with open("/proc/self/comm", "wb") as file:
        file.write(name)


def receive(control):
    """(environment, stdout, stderr) as the agent sends them; ends with the agent."""
    import array
    import socket
    descriptors = array.array("i")
    data, ancillary, _, _ = control.recvmsg(64, socket.CMSG_SPACE(3 * descriptors.itemsize))
    if not data:
        os._exit(0)  # the agent is gone, or needs no worker any more
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    with open(descriptors[0], "rb") as file:
        entries = file.read().split(b"\0")[:-1]
    return dict(entry.split(b"=", 1) for entry in entries), descriptors[1], descriptors[2]


def wait(control):
    """Imports, waits, and becomes the worker. The process is then what it would have been, had it
    been started just now; or it has ended."""
    wanted = [name for name in os.environ.pop("DDPRUN_WARM_IMPORTS", "").split(",") if name]
    folder, names = folder_and_imports(wanted)
    if not names:
        raise Unfit("the program imports neither torch nor numpy nor what --warm-imports names")
    priority = Priority()
    loaded, plain, before = set(sys.modules), os.environ._data, dict(os.environb)
    watched = os.environ._data = os.environb._data = Watched(plain)
    warm_up(names)
    os.environ._data = os.environb._data = plain
    left_behind = {n: v for n, v in watched.items() if before.get(n) != v}
    if watched.whole:
        raise Unfit("an import read the whole environment, ranks and all")
    if folder and hidden_by(folder, loaded):
        raise Unfit("%s hides a module of that name that is imported ahead"
                    % hidden_by(folder, loaded))
    if any(os.path.realpath("/proc/self/fd/" + fd).startswith("/dev/nvidia")
           for fd in os.listdir("/proc/self/fd")):
        raise Unfit("an import opened a GPU")
    roots = {"torch", "functorch", "torchgen", "numpy", *wanted} - {n for n in loaded}
    changed = difference(watched, before)
    priority.restore()
    comm = open("/proc/self/comm", "rb").read().rstrip(b"\n")
    name_process(b"ddp-warm-worker")
    printed = {number: collected_by(number) for number in (1, 2)}
    control.send(b"ready")

    environment, out, err = receive(control)
    unlike = changed(environment)
    if unlike:
        control.send(b"no %s is another now, and an import reads it" % unlike)
        os._exit(0)
    control.send(b"took")
    control.close()
    name_process(comm)
    os.environ.clear()
    os.environb.update(environment)
    attach(1, out, printed[1], sys.stdout)
    attach(2, err, printed[2], sys.stderr)
    os.close(MODULE)
    sys.meta_path.insert(0, Shelf(roots, changed, left_behind, lambda: start_again(environment)))


def main():
    import socket
    control = socket.socket(fileno=CONTROL)
    try:
        import zipimport
        if HOOK in sys.path:
            sys.path.remove(HOOK)
        sys.path_importer_cache.pop(HOOK, None)
        users = os.environ["PYTHONPATH"].partition(HOOK + ":")[2]
        os.environ.pop("PYTHONPATH")
        if users:
            os.environ["PYTHONPATH"] = users
        getattr(zipimport, "_zip_directory_cache", {}).pop(HOOK, None)
        with open("/proc/self/cmdline", "rb") as file:
            if b"-c" in file.read().split(b"\0")[1:3]:  # the agent asks whether we are found at all
                control.send(b"hooked")
                os._exit(0)
        wait(control)
    except Unfit as why:
        control.send(b"no " + str(why).encode("utf-8", "replace")[:500])
        os._exit(0)
    except BaseException as why:  # never on into the program
        try:
            os.write(2, ("ddprun: warm worker: %r\n" % (why,)).encode("utf-8", "replace"))
            control.send(b"no " + repr(why).encode("utf-8", "replace")[:500])
        finally:
            os._exit(1)


main()
# The one that the user may have, as if we had never been here.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402,F401
