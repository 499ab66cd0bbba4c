"""What scripts/bench measures of the rendezvous: a real agent hosts it, and agents_load brings many
light ones to it over TCP; or real agents start, whose worker is stamp_worker. Every wait has a
bound; whatever is started is ended."""
import contextlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import measure

START_BOUND_S = 120  # how long agents that are ready have for starting their workers
IMPORT_BOUND_S = 180
IDLE_MIN_S = 1.5  # what follows a meeting is not idleness
# Imports all that torchrun imports, says so, waits for the end of its input, and becomes torchrun:
# what follows is the rendezvous and the start of the worker, without the import of PyTorch.
GATED_TORCHRUN = """
import os, sys
import torch.distributed.run
import torch.distributed.elastic.agent.server.local_elastic_agent
import torch.distributed.elastic.rendezvous.c10d_rendezvous_backend
ready = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND)
os.write(ready, b".")
sys.stdin.read()
torch.distributed.run.main(sys.argv[1:])
"""


def child_of(pid, seconds=10):
    """The agent: the guardian, which was started, makes it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = [p for p in measure.agent_processes(pid) if p != pid]
        if found:
            return found[0]
        time.sleep(0.005)
    raise RuntimeError("the launcher made no agent")


def wait_until_listens(port, seconds=10):
    """Without a connection: the coordinator would have to deal with it."""
    deadline = time.monotonic() + seconds
    wanted = f"0100007F:{port:04X} 00000000:0000 0A"
    while time.monotonic() < deadline:
        if wanted in pathlib.Path("/proc/net/tcp").read_text():
            return
        time.sleep(0.005)
    raise RuntimeError(f"nobody listens at port {port}")


@contextlib.contextmanager
def host(ddprun, nodes, port, max_restarts, heartbeat_timeout):
    """A real agent, the first of so many, that hosts the endpoint; its pid."""
    with tempfile.TemporaryFile() as log:
        guardian = subprocess.Popen(
            [ddprun, "--nnodes", str(nodes), "--nproc-per-node", "1", "--rdzv-id", "bench",
             "--rdzv-endpoint", f"127.0.0.1:{port}", "--max-restarts", str(max_restarts),
             "--heartbeat-timeout", str(heartbeat_timeout), "--no-python", "sleep", "1000"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until_listens(port)
            yield child_of(guardian.pid)
        except Exception:
            log.seek(0)
            sys.stderr.write(log.read()[-2000:].decode(errors="replace"))
            raise
        finally:
            guardian.kill()  # its agent and worker die with it
            guardian.wait()


def load(ddprun, agents_load, agents, restarts, heartbeat_timeout, idle_s=None):
    """agents_load's report of a job of one real agent and so many simulated ones, and from it:
    bytes of the coordinator's memory for each of them. Before the restarts it is idle twice for
    `idle_s`; by default long enough for each agent to beat, which it does six times in a timeout."""
    idle_s = idle_s or max(IDLE_MIN_S, heartbeat_timeout / 6)
    nodes, port = agents + 1, measure.free_port()
    with host(ddprun, nodes, port, restarts, heartbeat_timeout) as pid:
        done = subprocess.run(
            [agents_load, "127.0.0.1", str(port), "bench", str(nodes), str(nodes), str(agents),
             str(restarts), str(1000 * heartbeat_timeout), str(pid), str(int(1000 * idle_s))],
            capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{agents} agents: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    report["bytes_per_agent"] = (report["rss_end"] - report["rss_before"]) / agents
    return report


def allow_descriptors(wanted):
    """So many for this process and those that it starts; the reason if that cannot be had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))
        except (OSError, ValueError):
            return f"needs {wanted:,} descriptors for a process; its limit here is {hard:,}"
    return ""


def meetings(ddprun, agents_load, counts, runs, heartbeat_timeout, into):
    """agents_load's reports by the number of agents, which take turns."""
    measure.by_turns({str(count): runs for count in counts},
                     lambda count: load(ddprun, agents_load, int(count), 0, heartbeat_timeout), into)


def restarts(ddprun, agents_load, agents, count, heartbeat_timeout, into):
    """So many restarts of an unchanged world: from one agent's report of a failed worker to the last
    of the assignments."""
    into["agents"] = agents
    into["runs"] = load(ddprun, agents_load, agents, count, heartbeat_timeout)["restarts"]


# ---- real agents -------------------------------------------------------------------------------


def _agent(command, agents, port):
    return command + ["--nnodes", str(agents), "--nproc-per-node", "1", "--rdzv-backend", "c10d",
                      "--rdzv-id", "bench", "--rdzv-endpoint", f"127.0.0.1:{port}"]


def start(command, agents, stamp_worker):
    """Seconds from before the first agent's start to the first instruction of the last worker."""
    begin = time.monotonic_ns()
    with measure.job([_agent(command, agents, measure.free_port())] * agents, stamp_worker) as job:
        return (max(ns for ns, _, _ in job.wait_for_workers(agents, START_BOUND_S)) - begin) / 1e9


def start_torchrun(python, agents, stamp_worker):
    """The same, and seconds from the moment at which all agents had imported PyTorch."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        ready = pathlib.Path(folder, "ready")
        ready.touch()
        gate, opener = os.pipe()
        try:
            command = _agent([str(python), "-c", GATED_TORCHRUN, str(ready)], agents,
                             measure.free_port())
            begin = time.monotonic_ns()
            with measure.job([command] * agents, stamp_worker, stdin=gate) as job:
                deadline = time.monotonic() + IMPORT_BOUND_S
                while ready.stat().st_size < agents:  # a matter of the machine, not of torchrun
                    if time.monotonic() > deadline:
                        raise RuntimeError(f"{agents} torchruns do not import PyTorch "
                                           f"in {IMPORT_BOUND_S} s")
                    time.sleep(0.01)
                opened = time.monotonic_ns()
                os.close(opener)
                opener = -1
                last = max(ns for ns, _, _ in job.wait_for_workers(agents, START_BOUND_S))
                return {"total_s": (last - begin) / 1e9, "ready_s": (last - opened) / 1e9}
        finally:
            os.close(gate)
            if opener >= 0:
                os.close(opener)


def starts(launchers, python, stamp_worker, counts, runs, into):
    """{agents: {launcher: [{"total_s", "ready_s"}]}}. ddprun has nothing to import: both are its
    total. A start that does not end within the bound is a dash."""
    def one(count, name):
        try:
            if name == "torchrun":
                return start_torchrun(python, count, stamp_worker)
            seconds = start(launchers[name], count, stamp_worker)
            return {"total_s": seconds, "ready_s": seconds}
        except measure.NotBegun as why:
            measure.note(str(why))
            return {"total_s": None, "ready_s": None}
    for count in counts:
        measure.by_turns({name: runs[name] for name in launchers},
                         lambda name: one(count, name), into.setdefault(str(count), {}))
