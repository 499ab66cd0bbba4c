"""What scripts/bench measures, for any launcher that takes torchrun's options. A launcher is a list:
the first words of its command line. Every wait has a bound; whatever is started is ended."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

DEV_NULL = (os.POSIX_SPAWN_OPEN, os.devnull, os.O_RDWR, 0)
BEGIN = time.monotonic()
NOTE_EVERY_S = 10


def note(text):
    """Progress, on stderr, with the time since the bench began."""
    minutes, seconds = divmod(int(time.monotonic() - BEGIN), 60)
    print(f"bench: [{minutes}:{seconds:02}] {text}", file=sys.stderr, flush=True)


def by_turns(runs, measure_one, into):
    """`runs`: how many values of each name. measure_one(name) gives one; they are added to the lists
    in `into`. The names take turns as evenly as the numbers allow, so that whatever slows the
    machine down slows all of them. What was measured before a failure stays in `into`."""
    rounds, told = min(runs.values()), time.monotonic()
    for name in runs:
        into.setdefault(name, [])
    for turn in range(rounds):
        if time.monotonic() - told > NOTE_EVERY_S:
            told = time.monotonic()
            note(f"  turn {turn + 1} of {rounds}")
        for name, count in runs.items():
            for _ in range((turn + 1) * count // rounds - turn * count // rounds):
                into[name].append(measure_one(name))


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


def launch(launchers, runs, into):
    for command in launchers.values():
        wall_time(command)  # warms the caches
    by_turns(runs, lambda name: wall_time(launchers[name]), into)


class NotBegun(RuntimeError):
    """Not all workers began in time, or before an agent ended."""


def read_stamps(path):
    """(ns, rank, pid) of every worker that began so far."""
    if not path.exists():
        return []
    return [(int(ns), int(rank), int(pid)) for ns, rank, _, pid
            in map(str.split, path.read_text().splitlines())]


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
        return read_stamps(self._stamps)

    def wait_for_workers(self, count, seconds=180):
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
        with contextlib.suppress(OSError):  # it may end while we look
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


def two_nodes(command, *options):
    """The command line of each agent of a job of two nodes on this machine."""
    return [command + ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "bench",
                       "--rdzv-endpoint", f"127.0.0.1:{free_port()}", *options]] * 2


def footprint(launchers, stamp_worker, workers, runs, seconds, into):
    """Memory of an agent with running workers, and its processor time over `seconds` in which
    nothing happens, scaled to a minute: of a job on one node, and of the busier agent of a job on
    two. All jobs of a run wait side by side."""
    each = ["--nproc-per-node", str(workers)]
    for turn in range(runs):
        note(f"  turn {turn + 1} of {runs}")
        with contextlib.ExitStack() as stack:
            agents = {}
            for name, command in launchers.items():
                for nodes, commands in (("one_node", [command + ["--standalone", *each]]),
                                        ("two_nodes", two_nodes(command, *each))):
                    running = stack.enter_context(job(commands, stamp_worker))
                    running.wait_for_workers(workers * len(commands))
                    agents[nodes, name] = [agent_processes(a.pid) for a in running.agents]
            time.sleep(2)  # what follows a start is not idleness
            spent = lambda: {key: [sum(map(cpu_ns, pids)) for pids in found]
                             for key, found in agents.items()}
            before, begin = spent(), time.monotonic()
            time.sleep(seconds)
            after, minutes = spent(), (time.monotonic() - begin) / 60
            for (nodes, name), found in agents.items():
                into.setdefault(nodes, {}).setdefault(name, []).append({
                    "rss_mib": max(sum(memory_kib(p, "Rss") for p in pids) for pids in found) / 1024,
                    "pss_mib": max(sum(memory_kib(p, "Pss") for p in pids) for pids in found) / 1024,
                    "idle_cpu_ms_per_minute": max(
                        b - a for a, b in zip(before[nodes, name], after[nodes, name]))
                    / 1e6 / minutes if seconds else None})


class Recovery:
    """A job of two nodes with a worker each. kill() gives the seconds from SIGKILL of one worker to
    the first instruction of the last new one; the victims alternate."""

    def __init__(self, running):
        self._job, self._kills = running, 0
        self._stamps = running.wait_for_workers(2)

    def kill(self):
        time.sleep(0.2)  # both agents know of this attempt, and wait
        pid = {rank: pid for _, rank, pid in self._stamps}[self._kills % 2]
        self._kills += 1
        begin = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        self._stamps = self._job.wait_for_workers(2 * (self._kills + 1))
        return (max(ns for ns, _, _ in self._stamps[-2:]) - begin) / 1e9


def recovery(launchers, stamp_worker, runs, into):
    with contextlib.ExitStack() as stack:
        jobs = {name: Recovery(stack.enter_context(job(two_nodes(
            command, "--nproc-per-node", "1", "--max-restarts", str(runs[name])), stamp_worker)))
            for name, command in launchers.items()}
        by_turns(runs, lambda name: jobs[name].kill(), into)
