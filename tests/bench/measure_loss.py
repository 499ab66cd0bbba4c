"""What scripts/bench measures of lost nodes: from the loss to the first instruction of the survivors'
new workers. An agent is killed (kill -9) on this machine; a node's cable is cut, or its power, in
network namespaces: then this file runs as a program in namespaces of its own, and prints JSON.
Both launchers get the same options. Every wait has a bound; whatever is started is ended."""
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import measure  # noqa: E402
from namespaces import Nodes, inside, missing  # noqa: E402, F401

BOUND_S = 20  # how long a launcher has for going on
START_BOUND_S = 120  # and for starting at all: that is not what is measured here
PORT = 29400
SETTLE_S = 1.0  # all agents know of the attempt, and wait
# The shortest keep-alive of each: a node is lost after one silent interval of a second, for torchrun
# after two. With one, each beat of torchrun's comes when the one before it has just expired, and live
# nodes are dropped. Its defaults are 5 s x 3, 30 s for the last call, and 60 s for a read of its store.
CONF = ("keep_alive_interval=1,keep_alive_max_attempt={attempts},last_call_timeout=1,"
        "read_timeout=5,is_host={is_host}")
ATTEMPTS = {"ddprun": 1, "torchrun": 2}
# (nodes, the node that is lost, new workers that the survivors begin)
SILENT = {"cut": ("1:2", 1, 1), "host": ("1:5", 0, 4)}


def elastic(command, nodes, endpoint, host, options=()):
    attempts = ATTEMPTS[pathlib.Path(command[0]).name]
    conf = CONF.format(attempts=attempts, is_host=str(host).lower())
    return command + ["--nnodes", nodes, "--nproc-per-node", "1", "--rdzv-backend", "c10d",
                      "--rdzv-id", "bench", "--rdzv-endpoint", endpoint, "--rdzv-conf", conf,
                      "--max-restarts", "100", *options]


def new_stamps(read, known, count, seconds, ended=lambda: False):
    """Those after the first `known`, once there are `count` of them; what there is when time is up
    or everything has ended."""
    deadline = time.monotonic() + seconds
    while len(read()) < known + count and time.monotonic() < deadline and not ended():
        time.sleep(0.005)
    return read()[known:]


def outcome(begin, found, count, agents):
    """went_on_s: until the last of `count` new workers began; None when they did not."""
    return {"went_on_s": (max(ns for ns, _, _ in found) - begin) / 1e9
            if len(found) >= count else None,
            "ended": sum(agent.poll() is not None for agent in agents), "of": len(agents),
            "waited_s": (time.monotonic_ns() - begin) / 1e9, "bound_s": BOUND_S}


def end_workers(stamps, those):
    """The survivors' workers, as a communicator that finds out about the loss would end them."""
    for _, _, pid in stamps:
        with contextlib.suppress(OSError):
            if pid in those and measure.is_worker(pid):
                os.kill(pid, signal.SIGKILL)


# ---- kill -9 of an agent -------------------------------------------------------------------------


def kill_once(command, stamp_worker, worker_fails):
    """`--nnodes 1:2`: kill -9 of the launcher that does not host the endpoint. `worker_fails`: the
    survivor's worker is killed, too."""
    endpoint = f"127.0.0.1:{measure.free_port()}"
    with measure.job([elastic(command, "1:2", endpoint, True)], stamp_worker) as job:
        other = job.start(elastic(command, "1:2", endpoint, False))
        stamps = job.wait_for_workers(2, START_BOUND_S)
        time.sleep(SETTLE_S)
        of_survivor = children(measure.agent_processes(job.agents[0].pid))
        known = len(job.stamps())
        begin = time.monotonic_ns()
        other.kill()
        if worker_fails:
            end_workers(stamps, of_survivor)
        found = new_stamps(job.stamps, known, 1, BOUND_S, lambda: job.agents[0].poll() is not None)
        result = outcome(begin, found, 1, job.agents[:1])
        job.agents.remove(other)
        other.wait(10)
    return result


def children(pids):
    return {int(child) for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()}


def kill(launchers, stamp_worker, runs, into):
    """By launcher; torchrun also where its survivor's worker fails ("worker_fails")."""
    runs = dict(runs)
    if "torchrun" in runs:
        runs["worker_fails"] = runs["torchrun"]
    measure.by_turns(runs, lambda name: kill_once(
        launchers["torchrun" if name == "worker_fails" else name], stamp_worker,
        name == "worker_fails"), into)


# ---- nodes that fall silent ----------------------------------------------------------------------


class Job:
    """One job over Nodes, an agent on each, whose workers are stamp_worker."""

    def __init__(self, nodes, folder, command, stamp_worker, nnodes):
        self.nodes = nodes
        self._stamps = pathlib.Path(folder, f"stamps-{time.monotonic_ns()}")
        self._log = open(self._stamps.with_suffix(".log"), "wb")
        self.agents = {}
        for node in range(nodes.count):
            argv = elastic(command, nnodes, f"{nodes.address(0)}:{PORT}", node == 0,
                           ("--local-addr", nodes.address(node), "--no-python", stamp_worker))
            self.agents[node] = nodes.start(node, argv, {"DDPRUN_BENCH_STAMPS": str(self._stamps)},
                                            self._log, self._log)
        if len(new_stamps(self.stamps, 0, nodes.count, START_BOUND_S)) < nodes.count:
            said = pathlib.Path(self._log.name).read_text()[-2000:]
            self.close()
            raise RuntimeError(f"not all workers of {nodes.count} nodes began: {said}")

    def stamps(self):
        return measure.read_stamps(self._stamps)

    def close(self):
        for node in range(self.nodes.count):
            with contextlib.suppress(FileNotFoundError):
                self.nodes.kill_all(node)
        for agent in self.agents.values():
            agent.wait(10)
        self._log.close()


def lose_once(nodes, folder, command, stamp_worker, what, worker_fails):
    """The cable of the node that does not host the endpoint is cut, or the host's node loses its
    power; until the last of the survivors' new workers began. `worker_fails`: the survivors' workers
    are killed at that moment."""
    nnodes, victim, count = SILENT[what]
    with contextlib.closing(Job(nodes, folder, command, stamp_worker, nnodes)) as job:
        time.sleep(SETTLE_S + random.random())  # at any time of a heartbeat
        stamps, survivors = job.stamps(), set(nodes.processes()) - set(nodes.processes(victim))
        begin = time.monotonic_ns()
        if what == "cut":
            nodes.cut(victim)
        else:
            nodes.power_off(victim)
        if worker_fails:
            end_workers(stamps, survivors)
        agents = [agent for node, agent in job.agents.items() if node != victim]
        found = new_stamps(job.stamps, len(stamps), count, BOUND_S,
                           lambda: all(agent.poll() is not None for agent in agents))
        result = outcome(begin, found, count, agents)
    if what == "cut":
        nodes.heal(victim)
    else:
        nodes.power_on(victim)
    return result


def in_namespaces(asked, into):
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        nodes = Nodes(2 if asked["what"] == "cut" else 5, pathlib.Path(folder, "nodes"))
        with contextlib.closing(nodes):
            measure.by_turns(asked["runs"], lambda name: lose_once(
                nodes, folder, asked["launchers"][name], asked["stamp_worker"], asked["what"],
                name == "torchrun"), into)


def silent(what, launchers, stamp_worker, runs, into):
    asked = {"what": what, "launchers": launchers, "stamp_worker": stamp_worker, "runs": runs,
             "begin": measure.BEGIN}
    done = subprocess.run([sys.executable, "-B", str(HERE / "measure_loss.py"), json.dumps(asked)],
                          stdout=subprocess.PIPE, text=True, timeout=900)
    with contextlib.suppress(ValueError):  # of nothing, when it was killed
        into.update(json.loads(done.stdout))
    if done.returncode:
        raise RuntimeError("it failed in its namespaces; the reason is above")


if __name__ == "__main__":
    inside()
    measured, asked_for = {}, json.loads(sys.argv[1])
    measure.BEGIN = asked_for["begin"]
    try:
        in_namespaces(asked_for, measured)
    finally:
        print(json.dumps(measured))
