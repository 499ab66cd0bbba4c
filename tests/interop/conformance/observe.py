"""What can be seen of one scenario under one launcher, with everything taken out that differs from run
to run (ports, pids, times, random names)."""
import functools
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import interop  # noqa: E402

# Of the shell that the worker is.
SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}
PATIENCE = 120
OMP_BANNER = re.compile("Setting OMP_NUM_THREADS environment variable|OMP_NUM_THREADS is not set")
LABELS = "time|host|rank|exitcode|blame|error_file|traceback"
LONG = 20  # seconds that no stop takes unless a grace is waited for


class Zygote:
    """torchrun, imported once (zygote.py)."""

    def __init__(self):
        self.lock = threading.Lock()
        self.process = subprocess.Popen([interop.PYTHON, HERE / "zygote.py"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=interop.environment())

    def ask(self, **request):
        with self.lock:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE)


class Torchrun:
    """A child of the zygote; as a Program is to the tests."""

    def __init__(self, zygote, folder, name, words, env):
        self.zygote, self.files = zygote, [folder / f"{name}.out", folder / f"{name}.err"]
        for file in self.files:
            file.touch()
        out, err = map(str, self.files)
        self.pid = zygote.ask(argv=words, env=env, cwd=str(folder), out=out, err=err)["pid"]

    def wait(self):
        pidfd = os.pidfd_open(self.pid)  # the zygote alone may reap it, and is not to wait
        try:
            if not select.select([pidfd], [], [], PATIENCE)[0]:
                os.kill(self.pid, signal.SIGKILL)
        finally:
            os.close(pidfd)
        return self.zygote.ask(wait=self.pid)["code"]

    out = property(lambda self: self.files[0].read_text(errors="replace"))
    err = property(lambda self: self.files[1].read_text(errors="replace"))


class Program(interop.Program):
    """A launcher as it is."""

    def __init__(self, command, folder, name, words, env):
        super().__init__(folder, name, [*command, *words], env, folder)


def words_of(scenario, node, places, launcher):
    words = list(scenario["words"]) + scenario.get(launcher, "").split() + node.split()
    program = scenario.get("program")
    if program is None:
        words += ["--no-python", "sh", "WORKER", *scenario["does"]]
    else:
        words += program
    return [placed(word, places) for word in words]


def placed(word, places):
    for name, value in places.items():
        word = word.replace(name, value)
    return word


def run(launcher, start, scenario, folder):
    """Starts the nodes, each by start(folder, name, words, env); sends the signal if there is one, and
    waits; returns what was seen."""
    folder.mkdir()
    dump = folder / "dump"
    dump.mkdir()
    port = str(interop.free_port())
    begun = time.monotonic()
    nodes, asked = [], []
    for i, node in enumerate(scenario.get("nodes", [""])):
        places = {"WORKER": str(HERE / "worker.sh"), "RECORD": str(HERE / "record.py"),
                  "STORE_KEY": str(HERE / "store_key.py"), "TIMER": str(HERE / "timer.py"),
                  "RUN_PATH": str(HERE / "run_path.script"),
                  "LOGS": str(folder / f"logs{i}"), "PORT": port,
                  "ERROR": str(folder / f"error{i}.json")}
        env = {"DUMP": dump, "OMP_NUM_THREADS": "2", "TMPDIR": folder}
        for given in (scenario.get("env", {}), scenario.get("node_env", {}).get(i, {})):
            env.update({name: places.get(value, value) for name, value in given.items()})
        words = words_of(scenario, node, places, launcher)
        nodes.append(start(folder, f"node{i}", words, interop.environment(**env)))
        asked += words
    if "signal" in scenario:
        interop.wait_until(lambda: len(list(dump.glob("*.ready"))) == 2, "both workers hold", PATIENCE)
        for node in nodes:
            os.kill(node.pid, getattr(signal, scenario["signal"]))
    codes = [node.wait() for node in nodes]
    took = time.monotonic() - begun
    (dump / "over").touch()
    if not any(port in word for word in asked):
        port = "no port was asked for"  # one that was drawn since may be the same
    found = seen(nodes, folder, lambda text: normal(text, folder, port))
    return {"exit": codes, "takes": "long" if took > LONG else "not long", **found}


def seen(nodes, folder, tidy):
    """By aspect: what was seen."""
    dump = folder / "dump"
    written = lambda kind: {p.name: p.read_text() for p in sorted(dump.glob(f"*.{kind}"))}
    found = {
        "argv": {name: tidy(text) for name, text in written("argv").items()},
        "env": {name: environment(text, tidy) for name, text in written("env").items()},
        "state": {name: tidy(text) for name, text in written("state").items()},
        "out": by_rank("out", "".join(node.out for node in nodes)),
        "err": by_rank("err", "".join(node.err for node in nodes)),
        "OMP banner": [bool(OMP_BANNER.search(node.err)) for node in nodes],
        **log_files(folder, tidy)}
    for i, node in enumerate(nodes):
        found[f"error_file {i}"] = error_file(folder / f"error{i}.json", tidy)
        found[f"summary {i}"] = summary(node.err, tidy)
    return found


def by_rank(stream, text):
    """The lines of each rank, in their order; not what ddprun quotes of them."""
    found = {}
    for line in text.splitlines():
        match = re.search(rf"\b{stream} (\d)", line)
        if match and not line.startswith("[ddprun] "):
            found.setdefault(match[1], []).append(line)
    return found


def normal(text, folder, port):
    # Not within longer digits: masks of signals have some ports in them.
    text = re.sub(rf"(?<![0-9a-fA-F]){port}(?![0-9a-fA-F])", "PORT", text)
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"torchelastic_\w+", "torchelastic_RANDOM", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID", text)
    # The directory of a run: job id, underscore, eight random letters.
    return re.sub(r"/([^/\s]+)_\w{8}(?=/attempt_|/|$)", r"/\1_RANDOM", text)


def environment(text, tidy):
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if pairs.get("MASTER_PORT", "").isdigit() and tidy(pairs["MASTER_PORT"]) != "PORT":
        pairs["MASTER_PORT"] = "ANY" if int(pairs["MASTER_PORT"]) > 1024 else pairs["MASTER_PORT"]
    return {name: tidy(value) for name, value in sorted(pairs.items()) if name not in SHELL}


def log_files(folder, tidy):
    """Names of all files below the log directories; of logs and error files what they say."""
    names, logs, errors = [], {}, {}
    for path in sorted(folder.rglob("*")):
        relative = str(path.relative_to(folder))
        if path.is_file() and "attempt_" in relative:
            name = tidy("/" + relative)
            names.append(name)
            if path.suffix == ".log":
                logs[name] = path.read_text(errors="replace")
            if path.name == "error.json":
                errors[name] = error_file(path, tidy)
    return {"tree": names, "logs": logs, "errors": errors}


def error_file(path, tidy):
    """All of it, but for times, and of stacks the last line alone."""
    def without_what_varies(value, key=""):
        if isinstance(value, dict):
            return {name: without_what_varies(one, name) for name, one in value.items()}
        if key == "timestamp":
            return type(value).__name__ if str(value).isdigit() else value
        if key == "py_callstack":
            return value.strip().split("\n")[-1]
        return tidy(value) if isinstance(value, str) else value
    return without_what_varies(json.loads(path.read_text())) if path.exists() else None


def summary(text, tidy):
    """Title and root cause, and the failures besides; without what changes from run to run."""
    title = re.search(r"^=+\n(.*) FAILED$", text, re.M)
    others, _, cause = text.rpartition("Root Cause (first observed failure):")
    if not title or not failure(cause, tidy):
        return None
    others = re.split(r"(?m)^\[\d+\]:$", others.rpartition("\nFailures:\n")[2])[1:]
    return {"title": pathlib.Path(title.group(1)).name, **failure(cause, tidy),
            "others": [failure(block, tidy) for block in others]}


def failure(block, tidy):
    """The fields of one failure that torchrun has too; empty when there are none."""
    block = re.split(r"(?m)^(?:=+|-+|  last lines of stderr:)$", block)[0]
    fields = {name: value for name, value in
              re.findall(rf"(?m)^  ({LABELS}) *: (.*(?:\n(?!  (?:{LABELS}) *: ).+)*)", block)}
    if not fields:
        return {}
    when = fields.get("time", "")
    return {"rank": fields.get("rank"), "host is named": bool(fields.get("host")),
            "exitcode": re.sub(r"\(pid.*", "", fields.get("exitcode", "")).strip(),
            "time": re.sub(r"^\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d$", "TIME", when),
            "error_file": tidy(fields.get("error_file", "")),
            "traceback": [line for line in re.sub(r"PID \d+", "PID", tidy(
                fields.get("traceback", ""))).splitlines() if line.strip()]}


@functools.cache  # a name service that is not there takes seconds to say so
def host_names():
    return {socket.gethostname(), socket.getfqdn(), "localhost"}


def is_own_address(text):
    """Numeric, and of this machine."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in text else socket.AF_INET) as one:
            if re.fullmatch(r"[0-9a-f.:]+", text):
                one.bind((text, 0))
                return True
    except OSError:
        pass
    return False
