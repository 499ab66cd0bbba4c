"""What can be seen of one scenario under one launcher, with everything taken out that differs from run
to run (ports, pids, times, random names)."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import interop  # noqa: E402

# Of the shell that the worker is.
SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}
PATIENCE = 40


class Zygote:
    """torchrun, imported once (zygote.py)."""

    def __init__(self):
        self.process = subprocess.Popen([interop.PYTHON, HERE / "zygote.py"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=interop.environment())

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


class Torchrun:
    name = "torchrun"

    def __init__(self, zygote):
        self.zygote = zygote

    def start(self, argv, env, cwd, out, err):
        return self.zygote.ask(argv=argv, env=env, cwd=str(cwd), out=str(out), err=str(err))["pid"]

    def wait(self, pid):
        return self.zygote.ask(wait=pid)["code"]


class Program:
    """A launcher as it is."""

    def __init__(self, name, path):
        self.name, self.path, self.running = name, str(path), {}

    def start(self, argv, env, cwd, out, err):
        with open(out, "wb") as o, open(err, "wb") as e:
            process = subprocess.Popen([self.path, *argv], env=env, cwd=cwd, stdout=o, stderr=e,
                                       stdin=subprocess.DEVNULL)
        self.running[process.pid] = process
        return process.pid

    def wait(self, pid):
        return self.running.pop(pid).wait(PATIENCE)


def words_of(scenario, node, places):
    words = list(scenario["words"]) + node.split()
    program = scenario.get("program")
    if program is None:
        words += ["--no-python", "sh", "WORKER", *scenario["does"]]
    else:
        words += program
    def placed(word):
        for name, value in places.items():
            word = word.replace(name, value)
        return word
    return [placed(word) for word in words]


def run(launcher, scenario, folder):
    """Starts the nodes, sends the signal if there is one, waits; returns what was seen."""
    folder.mkdir()
    dump = folder / "dump"
    dump.mkdir()
    places = {"WORKER": str(HERE / "worker.sh"), "RECORD": str(HERE / "record.py"),
              "LOGS": str(folder / "logs"), "PORT": str(interop.free_port()),
              "ERROR": str(folder / "error.json")}
    more = {"DUMP": dump, "OMP_NUM_THREADS": "2", "TMPDIR": folder}
    for name, value in scenario.get("env", {}).items():
        if value is not None:
            for mark in ("LOGS", "ERROR"):
                value = value.replace(mark, places[mark]) if value == mark else value
        more[name] = value
    env = interop.environment(**more)
    pids = []
    asked = []
    for i, node in enumerate(scenario.get("nodes", [""])):
        out, err = folder / f"out{i}", folder / f"err{i}"
        out.touch()
        err.touch()
        asked.append(words_of(scenario, node, places))
        pids.append(launcher.start(asked[-1], env, folder, out, err))
    if "signal" in scenario:
        import signal
        interop.wait_until(lambda: len(list(dump.glob("*.ready"))) == 2, "both workers hold")
        os.kill(pids[0], getattr(signal, scenario["signal"]))
    codes = [launcher.wait(pid) for pid in pids]
    if not any(places["PORT"] in word for words in asked for word in words):
        places["PORT"] = "no port was asked for"  # one that was drawn since may be the same
    return seen(codes, folder, dump, places)


def seen(codes, folder, dump, places):
    texts = {kind: [path.read_text(errors="replace") for path in sorted(folder.glob(f"{kind}?"))]
             for kind in ("out", "err")}
    tidy = lambda text: normal(text, folder, places)
    return {
        "exit": codes,
        "argv": {p.name: tidy(p.read_text()) for p in sorted(dump.glob("*.argv"))},
        "env": {p.name: environment(p.read_text(), tidy) for p in sorted(dump.glob("*.env"))},
        "state": {p.name: tidy(p.read_text()) for p in sorted(dump.glob("*.state"))},
        "out": sorted(line for text in texts["out"] for line in text.splitlines()
                      if re.search(r"\bout \d", line)),
        "err": sorted(line for text in texts["err"] for line in text.splitlines()
                      if re.search(r"\berr \d", line)),
        **log_files(folder, tidy),
        "error_file": error_file(folder / "error.json"),
        "summary": summary("".join(texts["err"])),
    }


def normal(text, folder, places):
    text = text.replace(places["PORT"], "PORT").replace(str(folder), "FOLDER")
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
    names, logs = [], {}
    for path in sorted(folder.rglob("*")):
        relative = str(path.relative_to(folder))
        if path.is_file() and "attempt_" in relative:
            name = tidy("/" + relative)
            names.append(name)
            if path.suffix == ".log":
                logs[name] = path.read_text(errors="replace")
    return {"tree": names, "logs": logs}


def error_file(path):
    if not path.exists():
        return None
    message = json.loads(path.read_text())["message"]
    stack = message["extraInfo"]["py_callstack"]
    return {"message": message["message"], "errorCode": message.get("errorCode"),
            "stack ends with": stack.strip().split("\n")[-1]}


def summary(text):
    """Title, and of the root cause what does not change from run to run."""
    title = re.search(r"^=+\n(.*) FAILED$", text, re.M)
    block = text.split("Root Cause (first observed failure):")[-1]
    fields = dict(re.findall(r"^  (rank|exitcode|host) *: (.*)$", block, re.M))
    if not title or not fields:
        return None
    return {"title": pathlib.Path(title.group(1)).name, "rank": fields.get("rank"),
            "exitcode": re.sub(r"\(pid.*", "", fields.get("exitcode", "")).strip(),
            "host is named": bool(fields.get("host"))}


def host_names():
    return {socket.gethostname(), socket.getfqdn(), "localhost"}
