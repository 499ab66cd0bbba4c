"""Workers that write at the same time as their agent sees it: it is stopped until all have written. How
far apart processes run on this machine plays no part then."""
import os
import signal

import interop

# In each worker: before() stands before what it writes, after() behind it.
WORKER = """
import os
def note(name):
    path = name + os.environ["RANK"]
    with open(path + ".part", "w") as file:
        file.write(str(os.getppid()))
    os.rename(path + ".part", path)
def before():
    note("ready")
    open("gate").close()
def after():
    note("done")
    open("end").close()
"""


class InStep:
    """Made before a job of so many workers starts in the test's folder."""

    def __init__(self, test, workers):
        self._test, self._workers = test, workers
        for gate in ("gate", "end"):
            os.mkfifo(test.folder / gate)

    def _open(self, name):
        self._test.addCleanup(os.close, os.open(self._test.folder / name, os.O_RDWR))

    def _notes(self, name):
        paths = [self._test.folder / f"{name}{rank}" for rank in range(self._workers)]
        interop.wait_until(lambda: all(path.exists() for path in paths),
                           f"{self._workers} workers {name}")
        return [int(path.read_text()) for path in paths]

    def let_write(self):
        """Once all have come to before(): they write, the agent sees it, and they go on."""
        agent = self._notes("ready")[0]
        os.kill(agent, signal.SIGSTOP)
        try:
            self._open("gate")
            self._notes("done")
        finally:
            os.kill(agent, signal.SIGCONT)
        self._open("end")
