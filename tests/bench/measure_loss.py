"""What scripts/bench measures of lost nodes: from the loss to the first instruction of a survivor's
new worker. An agent is killed (kill -9) on this machine; a node's cable is cut, or its power, in
network namespaces: then this file runs as a program in namespaces of its own, and prints JSON.
Every wait has a bound; whatever is started is ended."""
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "chaos")]
import measure  # noqa: E402
import measure_rendezvous  # noqa: E402
import nodes as nodes_module  # noqa: E402

BOUND_S = 60  # how long a launcher has for going on
START_BOUND_S = 180  # and for starting at all: that is not what is measured here
PORT = 29400
SETTLE_S = 0.3  # all agents know of the attempt, and wait


def summary(times):
    return {"median_s": statistics.median(times), "worst_s": max(times), "runs": len(times)}


def elastic(command, nodes, port_at, options=()):
    return command + ["--nnodes", nodes, "--nproc-per-node", "1", "--rdzv-backend", "c10d",
                      "--rdzv-id", "bench", "--rdzv-endpoint", port_at, "--max-restarts", "100",
                      *options]


def new_stamps(read, known, count, seconds):
    """Those after the first `known`, once there are `count` of them; what there is when time is up."""
    deadline = time.monotonic() + seconds
    while len(read()) < known + count and time.monotonic() < deadline:
        time.sleep(0.005)
    return read()[known:]


# ---- kill -9 of an agent -------------------------------------------------------------------------


def kill_ddprun(command, stamp_worker, kills):
    """`--nnodes 1:2`: the agent that does not host the endpoint is killed, and started again."""
    port = measure.free_port()
    agent = elastic(command, "1:2", f"127.0.0.1:{port}")
    times = []
    with measure.job([agent], stamp_worker) as job:
        measure_rendezvous.wait_until_listens(port)
        for _ in range(kills):
            known = len(job.stamps())
            other = job.start(agent)
            if len(new_stamps(job.stamps, known, 2, START_BOUND_S)) < 2:
                raise RuntimeError("a job of two nodes does not start")
            time.sleep(SETTLE_S)
            known = len(job.stamps())
            victim = measure.agent_processes(other.pid)[-1]  # not its guardian
            begin = time.monotonic_ns()
            os.kill(victim, signal.SIGKILL)
            found = new_stamps(job.stamps, known, 1, BOUND_S)
            if not found:
                raise RuntimeError(f"the survivor did not go on within {BOUND_S} s")
            times.append((found[0][0] - begin) / 1e9)
            job.agents.remove(other)
            other.wait(10)
    return summary(times)


def kill_torchrun(command, stamp_worker, worker_fails, bound=BOUND_S):
    """Seconds until the survivor's new worker, or None when it did not go on within the bound.
    `worker_fails`: the survivor's worker is killed too, as a lost communicator ends it."""
    port = measure.free_port()
    agent = elastic(command, "1:2", f"127.0.0.1:{port}", ("--rdzv-conf", "is_host=true"))
    with measure.job([agent], stamp_worker) as job:
        other = job.start(elastic(command, "1:2", f"127.0.0.1:{port}",
                                  ("--rdzv-conf", "is_host=false")))
        stamps = new_stamps(job.stamps, 0, 2, START_BOUND_S)
        if len(stamps) < 2:
            raise RuntimeError("torchrun's job of two nodes does not start")
        time.sleep(2)
        begin = time.monotonic_ns()
        other.kill()
        other.wait(10)
        job.agents.remove(other)
        parents = {pid: int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                   for _, _, pid in stamps if os.path.exists(f"/proc/{pid}/stat")}
        survivors = measure.agent_processes(job.agents[0].pid)
        if worker_fails:
            for pid, parent in parents.items():
                if parent in survivors:
                    os.kill(pid, signal.SIGKILL)
        found = new_stamps(job.stamps, 2, 1, bound)
        return (found[0][0] - begin) / 1e9 if found else None


def kill(launchers, stamp_worker, kills):
    found = {"ddprun": kill_ddprun(launchers["ddprun"], stamp_worker, kills)}
    if "torchrun" in launchers:
        found["torchrun"] = {
            "alone_s": kill_torchrun(launchers["torchrun"], stamp_worker, False),
            "worker_fails_s": kill_torchrun(launchers["torchrun"], stamp_worker, True)}
    return found


# ---- nodes that fall silent ----------------------------------------------------------------------


class Job:
    """One job over Nodes, an agent on each, whose workers are stamp_worker."""

    def __init__(self, nodes, folder, command, stamp_worker, nnodes, options=()):
        self.nodes, self.folder = nodes, pathlib.Path(folder)
        self.stamps_file = self.folder / f"stamps-{time.monotonic_ns()}"
        self.log = open(self.folder / "log", "ab")
        self.command = elastic(command, nnodes, f"{nodes.address(0)}:{PORT}", options)
        self.stamp_worker = stamp_worker
        self.agents = {}

    def start(self, node, options=()):
        argv = self.command + [*options, "--no-python", self.stamp_worker]
        self.agents[node] = self.nodes.start(
            node, argv, {"DDPRUN_BENCH_STAMPS": str(self.stamps_file)}, self.log, self.log)

    def stamps(self):
        if not self.stamps_file.exists():
            return []
        return [(int(ns), int(rank), int(pid)) for ns, rank, _, pid
                in map(str.split, self.stamps_file.read_text().splitlines())]

    def wait(self, known, count):
        found = new_stamps(self.stamps, known, count, START_BOUND_S)
        if len(found) < count:
            raise RuntimeError(f"{len(found)} of {count} workers began; the agents said: "
                               f"{pathlib.Path(self.log.name).read_text()[-2000:]}")
        return found

    def end(self):
        for node in range(self.nodes.count):
            with contextlib.suppress(FileNotFoundError):
                self.nodes.kill_all(node)
        for agent in self.agents.values():
            agent.wait(10)
        self.log.close()


@contextlib.contextmanager
def job(*arguments):
    running = Job(*arguments)
    try:
        yield running
    finally:
        running.end()


def start_all(running, options=lambda node: ()):
    for node in range(running.nodes.count):
        running.start(node, options(node))
        if node == 0:
            time.sleep(0.1)  # so that it hosts the endpoint at the first try of the others
    return running.wait(0, running.nodes.count)


def cut_ddprun(nodes, folder, command, stamp_worker, timeout, runs):
    """`--nnodes 1:2`, and the cable of the node that does not host the endpoint; it comes back."""
    times = []
    options = ("--heartbeat-timeout", str(timeout))
    with job(nodes, folder, command, stamp_worker, "1:2", options) as running:
        start_all(running)
        for run in range(runs):
            time.sleep(SETTLE_S + 0.37 * timeout * run / runs)  # at different times of a beat
            known = len(running.stamps())
            begin = time.monotonic_ns()
            nodes.cut(1)
            times.append((running.wait(known, 1)[0][0] - begin) / 1e9)
            known = len(running.stamps())
            nodes.heal(1)
            running.wait(known, 2)
    return summary(times)


def host_ddprun(nodes, folder, command, stamp_worker, timeout, runs):
    """Five nodes, and the power of the one that hosts the endpoint: until the last worker of the
    other four's new attempt."""
    times = []
    options = ("--heartbeat-timeout", str(timeout))
    for run in range(runs):
        with job(nodes, folder, command, stamp_worker, "1:5", options) as running:
            start_all(running)
            time.sleep(SETTLE_S + 0.37 * timeout * run / runs)
            known = len(running.stamps())
            begin = time.monotonic_ns()
            nodes.power_off(0)
            times.append((max(ns for ns, _, _ in running.wait(known, 4)) - begin) / 1e9)
        nodes.power_on(0)
    return summary(times)


def torchrun_options(nodes):
    return lambda node: ("--local-addr", nodes.address(node), "--rdzv-conf",
                         f"is_host={str(node == 0).lower()}")


def lose_with_torchrun(nodes, folder, command, stamp_worker, victim, nnodes):
    """Seconds until the first new worker of a survivor (None: not within the bound), and how many of
    the survivors' agents had ended by then. The survivors' workers fail at once, as a communicator
    that knows of the loss would end them."""
    with job(nodes, folder, command, stamp_worker, nnodes) as running:
        count = len(start_all(running, torchrun_options(nodes)))
        time.sleep(2)
        begin = time.monotonic_ns()
        if victim == 0:
            nodes.power_off(0)
        else:
            nodes.cut(victim)
        of_victim = set(nodes.processes(victim)) if victim else set()
        for _, _, pid in running.stamps():
            with contextlib.suppress(OSError):
                if pid not in of_victim and measure.is_worker(pid):
                    os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + BOUND_S
        survivors = [agent for node, agent in running.agents.items() if node != victim]
        while (len(running.stamps()) == count and time.monotonic() < deadline
               and any(agent.poll() is None for agent in survivors)):
            time.sleep(0.01)
        ended = sum(agent.poll() is not None for agent in survivors)
        new = running.stamps()[count:]
        found = {"went_on_s": (new[0][0] - begin) / 1e9 if new else None, "agents_ended": ended,
                 "of": len(survivors), "waited_s": (time.monotonic_ns() - begin) / 1e9}
    if victim == 0:
        nodes.power_on(0)
    else:
        nodes.heal(victim)
    return found


def in_namespaces(asked):
    launchers, stamp_worker, runs = asked["launchers"], asked["stamp_worker"], asked["runs"]
    found = {}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        for what, count in (("cut", 2), ("host", 5)):
            if what not in asked["what"]:
                continue
            nodes = nodes_module.Nodes(count, pathlib.Path(folder) / what)
            try:
                measure_one = cut_ddprun if what == "cut" else host_ddprun
                found[what] = {"ddprun": {
                    str(timeout): measure_one(nodes, folder, launchers["ddprun"], stamp_worker,
                                              timeout, runs) for timeout in asked["timeouts"]}}
                if "torchrun" in launchers:
                    found[what]["torchrun"] = lose_with_torchrun(
                        nodes, folder, launchers["torchrun"], stamp_worker,
                        1 if what == "cut" else 0, "1:2" if what == "cut" else "1:5")
            finally:
                nodes.close()
    return found


def silent(what, launchers, stamp_worker, timeouts, runs):
    """{"cut": ..., "host": ...} of what is asked for; a sentence where there are no namespaces."""
    missing = nodes_module.unavailable()
    if missing:
        return missing
    asked = {"what": what, "launchers": launchers, "stamp_worker": stamp_worker,
             "timeouts": timeouts, "runs": runs}
    done = subprocess.run([sys.executable, "-B", str(HERE / "measure_loss.py"), json.dumps(asked)],
                          stdout=subprocess.PIPE, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError("the benches in namespaces failed; see above")
    return json.loads(done.stdout)


if __name__ == "__main__":
    nodes_module.inside()
    print(json.dumps(in_namespaces(json.loads(sys.argv[1]))))
