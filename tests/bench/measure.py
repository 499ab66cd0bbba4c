"""What scripts/bench measures, for any launcher that takes torchrun's options. A launcher is a list:
the first words of its command line. Every wait has a bound; whatever is started is ended."""
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

DEV_NULL = (os.POSIX_SPAWN_OPEN, os.devnull, os.O_RDWR, 0)


def wall_time(launcher):
    """Seconds from the start to the end of a job of two /bin/true on one node."""
    command = launcher + ["--standalone", "--nproc-per-node", "2", "--no-python", "/bin/true"]
    quiet = [(DEV_NULL[0], fd) + DEV_NULL[1:] for fd in (0, 1, 2)]
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status = os.waitpid(pid, 0)
    seconds = time.perf_counter() - begin
    if status != 0:
        raise RuntimeError(f"{' '.join(command)} ended with wait status {status}")
    return seconds


def launch(launchers, runs):
    """The median wall time of each launcher (a dict by name) over its number of runs; they take
    turns, so that whatever slows the machine down slows all of them."""
    times = {name: [] for name in launchers}
    rounds = min(runs[name] for name in launchers)
    for command in launchers.values():
        wall_time(command)  # warms the caches
    for _ in range(rounds):
        for name, command in launchers.items():
            times[name] += [wall_time(command) for _ in range(runs[name] // rounds)]
    return {name: statistics.median(found) for name, found in times.items()}


class NotBegun(RuntimeError):
    """Not all workers began in time, or before an agent ended."""


class Job:
    """Agents whose workers are stamp_worker, and what these wrote."""

    def __init__(self, commands, stamp_worker, stdin=subprocess.DEVNULL):
        self._folder = tempfile.TemporaryDirectory(prefix="ddprun-bench-")
        self._stamps = pathlib.Path(self._folder.name, "stamps")
        self._log = open(pathlib.Path(self._folder.name, "log"), "wb")
        environment = dict(os.environ, DDPRUN_BENCH_STAMPS=str(self._stamps))
        self._start = lambda command: subprocess.Popen(
            command + ["--no-python", stamp_worker], env=environment, stdin=stdin,
            stdout=self._log, stderr=self._log)
        self.agents = [self._start(command) for command in commands]

    def start(self, command):
        """One agent more."""
        self.agents.append(self._start(command))
        return self.agents[-1]

    def stamps(self):
        """(ns, rank, pid) of every worker that began so far."""
        if not self._stamps.exists():
            return []
        return [(int(ns), int(rank), int(pid)) for ns, rank, _, pid
                in map(str.split, self._stamps.read_text().splitlines())]

    def wait_for_workers(self, count, seconds=60):
        """Until `count` workers have begun, since the job did."""
        deadline = time.monotonic() + seconds
        while len(self.stamps()) < count:
            if time.monotonic() > deadline or any(a.poll() is not None for a in self.agents):
                ended = sum(agent.poll() is not None for agent in self.agents)
                raise NotBegun(f"{len(self.stamps())} of {count} workers began in {seconds} s, {ended} "
                               f"of {len(self.agents)} agents ended; they said: "
                               f"{pathlib.Path(self._log.name).read_text()[-2000:]}")
            time.sleep(0.01)
        return self.stamps()

    def end(self):
        for agent in self.agents:
            agent.send_signal(signal.SIGTERM)
        for agent in self.agents:
            try:
                agent.wait(40)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        for _, _, pid in self.stamps():  # those that a killed agent left
            with contextlib.suppress(OSError):
                if is_worker(pid):
                    os.kill(pid, signal.SIGKILL)
        self._log.close()
        self._folder.cleanup()


@contextlib.contextmanager
def job(commands, stamp_worker, stdin=subprocess.DEVNULL):
    running = Job(commands, stamp_worker, stdin)
    try:
        yield running
    finally:
        running.end()


def is_worker(pid):
    """By what it executes: the agent's command line names the worker too."""
    return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "stamp_worker"


def agent_processes(root):
    """`root` and its descendants without the workers: what the launcher itself runs."""
    found = [root]
    for pid in found:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                if not is_worker(child):
                    found.append(child)
    return found


def memory_kib(pid, field):
    """A field of smaps_rollup: Rss counts every page that is there, Pss shares the shared ones."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"no {field} in smaps_rollup")


def cpu_ns(pid):
    """Time on a processor so far, of all its threads, in nanoseconds (utime is too coarse)."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def footprint(launchers, stamp_worker, workers, seconds):
    """Memory of an agent with running workers, and its processor time over `seconds` in which
    nothing happens, scaled to a minute. All launchers wait side by side."""
    with contextlib.ExitStack() as stack:
        pids = {}
        for name, command in launchers.items():
            running = stack.enter_context(job(
                [command + ["--standalone", "--nproc-per-node", str(workers)]], stamp_worker))
            running.wait_for_workers(workers)
            pids[name] = agent_processes(running.agents[0].pid)
        time.sleep(2)  # what follows a start is not idleness
        before = {name: sum(map(cpu_ns, found)) for name, found in pids.items()}
        begin = time.monotonic()
        time.sleep(seconds)
        minutes = (time.monotonic() - begin) / 60
        return {name: {
            "processes": len(found),
            "rss_mib": sum(memory_kib(pid, "Rss") for pid in found) / 1024,
            "pss_mib": sum(memory_kib(pid, "Pss") for pid in found) / 1024,
            "idle_cpu_ms_per_minute": (sum(map(cpu_ns, found)) - before[name]) / 1e6 / minutes,
        } for name, found in pids.items()}


def recovery(command, stamp_worker, kills):
    """Median and worst seconds from SIGKILL of one worker to the first instruction of the last new
    one, two nodes with a worker each; the victims alternate."""
    node = command + ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d",
                      "--rdzv-id", "bench", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
                      "--max-restarts", str(kills)]
    times = []
    with job([node, node], stamp_worker) as running:
        stamps = running.wait_for_workers(2)
        for kill in range(kills):
            time.sleep(0.2)  # both agents know of this attempt, and wait
            pid = {rank: pid for _, rank, pid in stamps}[kill % 2]
            begin = time.monotonic_ns()
            os.kill(pid, signal.SIGKILL)
            stamps = running.wait_for_workers(2 * (kill + 2))
            times.append((max(ns for ns, _, _ in stamps[-2:]) - begin) / 1e9)
    return {"median_s": statistics.median(times), "worst_s": max(times), "kills": kills}
