"""A program as a child process of a test, and waiting for what it does."""
import contextlib
import pathlib
import signal
import subprocess
import time

PATIENCE = 150  # seconds; a bound for what takes a few on an idle machine


def wait_until(condition, what, seconds=PATIENCE, every=0.01):
    """The first true value of condition(), asked `every` so many seconds; fails with `what` after the
    bound."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(every)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid):
    """Those of its first thread, the eldest first."""
    return [int(one) for one in
            pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def family_of(pid):
    """The process and all below it."""
    family = [pid]
    for one in family:
        try:
            family += children_of(one)
        except OSError:
            continue  # it has ended
    return family


class Program:
    """Runs `command`; its output goes to files of `folder`, so nothing blocks on a pipe."""

    def __init__(self, folder, name, command, env=None, cwd=None):
        self.command = [str(word) for word in command]
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(self.command, env=env, cwd=cwd, stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL)
        self.pid = self.process.pid

    @property
    def out(self):
        return self._out.read_text(errors="replace")

    @property
    def err(self):
        return self._err.read_text(errors="replace")

    def wait(self, seconds=PATIENCE):
        """Its exit code; minus the signal that ended it."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self}") from None

    def end(self, seconds=5):
        """SIGTERM, and SIGKILL after so long: a launcher that is killed cannot clean up."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __str__(self):
        return f"{' '.join(self.command)}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"
