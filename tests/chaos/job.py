"""One job of ddprun on Nodes, as a scheduler keeps it: an agent that ends is started again, until
the job is over. Reads what the workers record, and holds two things up at all times: no two attempts
run at once, and no agent ends that has no reason to."""
import os
import pathlib
import subprocess
import time

import faults
import namespaces
import verdict

POLL_S = 0.01
STEP_MS = 20
MANY_RESTARTS = 100_000
PORT = 29400


class Broken(Exception):
    """The job did what it must not; one sentence."""


class Job:
    def __init__(self, setup, nodes, programs, folder, options=(), program=(), environment=None):
        """`programs`: paths of ddprun, chaos_worker and wall_clock. `options`, `program` and
        `environment` (a function of the node) add to, or replace, what is usual. start_all()
        starts it."""
        self.setup, self.nodes, self.programs = setup, nodes, programs
        self.folder = pathlib.Path(folder)
        self.options, self.program = list(options), list(program) or [programs["chaos_worker"]]
        self.more_environment = environment or (lambda node: {})
        self.state = [verdict.Node() for _ in range(nodes.count)]
        self.agents = [None] * nodes.count
        self.restart_at = [None] * nodes.count  # when its next agent starts; None: not now
        self.restart_pause_s = faults.RESTART_PAUSE_S
        self.may_end = set()  # nodes whose agents may end by the fault at hand
        self.codes = []  # (node, exit code) of agents, in the order in which they ended
        self.over = False
        self.stopped = None  # a node whose agent is stopped, and cannot stop its workers
        self.dead = -1  # no attempt up to this one can go on, whatever its records say
        self._read = [0] * nodes.count
        self._said = [0] * nodes.count  # characters, when the last wait was over
        self.hold = self.folder / "hold"
        self.hold.touch()
        for node in range(nodes.count):
            (self.folder / f"node{node}").mkdir(exist_ok=True)

    def start_all(self):
        for node in range(self.nodes.count):
            self.start(node)

    # ---- agents --------------------------------------------------------------------------------

    def path(self, node, name):
        return self.folder / f"node{node}" / name

    def hosts(self):
        """The nodes whose addresses are endpoints."""
        return list(range(min(self.setup.endpoints, self.nodes.count)))

    def endpoint(self):
        return ",".join(f"{self.nodes.address(host)}:{PORT}" for host in self.hosts())

    def door(self):
        """The node that a stranger comes to: the coordinator's where it has an endpoint."""
        host = self.coordinator()
        return host if host in self.hosts() else self.hosts()[0]

    def command(self):
        setup = self.setup
        size = f"{setup.nodes_min}:{setup.nodes}" if setup.elastic else str(setup.nodes)
        command = [self.programs["ddprun"], "--nnodes", size, "--nproc-per-node", "1",
                   "--rdzv-endpoint", self.endpoint(), "--rdzv-id", "chaos",
                   "--max-restarts", str(MANY_RESTARTS), "--join-timeout", "120",
                   "--heartbeat-timeout", str(setup.heartbeat_s),
                   "--hang-timeout", str(setup.hang_s),
                   "--shutdown-timeout", str(setup.shutdown_s),
                   "--rdzv-conf", "last_call_timeout=2"]
        return command + self.options + self.program

    def environment(self, node):
        return {"CHAOS_RECORDS": str(self.path(node, "records")), "CHAOS_HOLD": str(self.hold),
                "CHAOS_STEP_MS": str(STEP_MS), "CHAOS_CLOCK": str(self.path(node, "clock")),
                "LD_PRELOAD": self.programs["wall_clock"], "OMP_NUM_THREADS": "1",
                "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", ""),
                **self.more_environment(node)}

    def start(self, node):
        self.restart_at[node] = None
        with open(self.path(node, "stdout"), "ab") as out, \
                open(self.path(node, "stderr"), "ab") as err:
            self.agents[node] = self.nodes.start(node, self.command(), self.environment(node),
                                                 out, err)

    def guardian(self, node):
        return self.agents[node].pid if self.agents[node] else None

    def agent(self, node):
        """Its pid: the child of what a shell sees."""
        children = namespaces.children_of(self.guardian(node)) if self.agents[node] else []
        if not children:
            raise Broken(f"node{node} has no agent to hurt")
        return children[0]

    def has_agent(self, node):
        return bool(self.agents[node] and namespaces.children_of(self.guardian(node)))

    def worker(self, node):
        return self.state[node].begun.pid

    def doom(self, node):
        """What is about to be done to the node ends the attempt that it is in."""
        self.dead = max(self.dead, self.state[node].begun.attempt)

    def power_off(self, node):
        self.nodes.power_off(node)
        if self.agents[node]:
            self.agents[node].wait(10)
        self.agents[node], self.restart_at[node] = None, None

    def power_on(self, node):
        self.nodes.power_on(node)
        self.restart_at[node] = time.monotonic() + faults.RESTART_PAUSE_S

    def coordinator(self):
        """The node that the newest attempt's workers have as MASTER_ADDR."""
        begun = max((s.begun for s in self.state if s.begun), key=lambda b: b.attempt)
        for node in range(self.nodes.count):
            if self.nodes.address(node) == begun.master:
                return node
        raise Broken(f"no node has the master address {begun.master!r}")

    # ---- the loop ------------------------------------------------------------------------------

    def pump(self):
        """One turn: what the workers said, which agents ended, which are due."""
        self._read_records()
        now = time.monotonic()
        for node, agent in enumerate(self.agents):
            if agent is not None and agent.poll() is not None:
                self.agents[node] = None
                self._ended(node, agent.returncode, now)
            due = self.restart_at[node]
            if due is not None and now >= due and not self.over:
                self.start(node)
        self._look_for_overlap()

    def _ended(self, node, code, now):
        self.codes.append((node, code))
        if code == 0:
            if self.hold.exists():
                raise Broken(f"node{node} says that the job is done, but it is not")
            self.over = True
        elif self.over:
            raise Broken(f"node{node} ended with {code} though the job is done; {self.last(node)}")
        elif node not in self.may_end:
            raise Broken(f"the agent of node{node} ended with {code}, and no fault made it; "
                         f"{self.last(node)}")
        elif code not in (1, 137):
            raise Broken(f"the agent of node{node} ended with {code}; {self.last(node)}")
        else:
            self.restart_at[node] = now + self.restart_pause_s

    def last(self, node):
        lines = self.said(node).strip().splitlines()
        return "its last words: " + (lines[-1] if lines else "(none)")

    def was_reset(self, node):
        """Whether its agent has said since the last wait was over that its connection was reset."""
        return "broke: Connection reset" in self.said(node)[self._said[node]:]

    def said(self, node):
        path = self.path(node, "stderr")
        return path.read_text(errors="replace") if path.exists() else ""

    def _read_records(self):
        for node, state in enumerate(self.state):
            path = self.path(node, "records")
            if not path.exists() or path.stat().st_size == self._read[node]:
                continue
            with open(path, "rb") as records:
                records.seek(self._read[node])
                fresh = records.read()
            # A reader may see a write up to the end of a page: what has no newline yet comes again.
            fresh = fresh[:fresh.rfind(b"\n") + 1]
            self._read[node] += len(fresh)
            for line in fresh.decode().splitlines():
                state.read(line)

    def began(self):
        """Every begin of a worker so far, in order of time."""
        self._read_records()
        return sorted(begun for state in self.state for begun in state.history)

    def _look_for_overlap(self):
        newest = max((s.begun.attempt for s in self.state if s.begun), default=0)
        alive = []
        for node, state in enumerate(self.state):
            for pid, attempt in list(state.pids.items()):
                if namespaces.runs(pid):
                    alive.append((node, pid, attempt))
                elif attempt < newest:
                    del state.pids[pid]
        if found := verdict.overlap(alive, self.stopped):
            raise Broken(found)

    def until(self, condition, seconds, what):
        """Keeps the job going until the condition holds; returns how long that took. While this very
        process waits for a processor the machine is busy with others, and the bound stands still. A node
        whose connection was reset by this fault has no proof of a death, and waits for the heartbeat
        timeout (docs/failover.md): the bound then grants it, once."""
        begin, waited = time.monotonic(), namespaces.waited_s()
        reset_s = self.setup.heartbeat_s
        while True:
            self.pump()
            if condition():
                self._said = [len(self.said(node)) for node in range(self.nodes.count)]
                return time.monotonic() - begin
            if time.monotonic() - begin - (namespaces.waited_s() - waited) > seconds:
                if reset_s > 0 and any(map(self.was_reset, range(self.nodes.count))):
                    seconds, reset_s = seconds + reset_s, 0
                    continue
                raise Broken(f"not within {seconds:.1f} s: {what}; {self.where()}")
            time.sleep(POLL_S)

    def pause(self, seconds):
        """Lets time pass, the job going on."""
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            self.pump()
            time.sleep(POLL_S)

    def attempt(self, nodes=None):
        """The attempt in which these nodes (all) train and have saved; None while they do not."""
        chosen = [self.state[n] for n in (nodes or range(self.nodes.count))]
        return verdict.attempt_of(chosen, len(chosen))

    def where(self):
        """What each node's newest worker did, whether it still runs, and what the agent said last."""
        return "; ".join(f"node{n}: {self._worker_text(s)}, {self.last(n)}"
                         for n, s in enumerate(self.state))

    @staticmethod
    def _worker_text(state):
        if not state.begun:
            return "no worker yet"
        gone = not namespaces.runs(state.begun.pid)
        return (f"attempt {state.begun.attempt}, rank {state.begun.rank} of {state.begun.world}, "
                f"{'' if state.stepped else 'not '}stepped, {state.saves} saves"
                f"{', its worker is gone' if gone else ''}")

    def close(self):
        """Ends the agents that still run."""
        for agent in filter(None, self.agents):
            agent.kill()
            agent.wait(10)

    # ---- the end -------------------------------------------------------------------------------

    def finish(self, seconds):
        """Lets it end, and looks that it ended well and left nothing."""
        self.hold.unlink()
        self.until(lambda: self.over and not any(self.agents), seconds, "the end of the job")
        self._read_records()
        deadline = time.monotonic() + 2
        while left := self.nodes.processes():
            if time.monotonic() > deadline:
                raise Broken(f"left over (pid: node): {left}")
            time.sleep(POLL_S)
        return verdict.wrong_end(self.state) or verdict.wrong_samples(self.state)


def calm_weights(programs, setup, epochs, folder):
    """epoch -> weights of an undisturbed run of as many workers."""
    folder = pathlib.Path(folder)
    records = folder / "records"
    environment = dict(os.environ, CHAOS_RECORDS=str(records), CHAOS_EPOCHS=str(epochs),
                       CHAOS_HOLD=str(folder), CHAOS_SNAPSHOT=str(folder / "snapshot"),
                       OMP_NUM_THREADS="1")
    command = [programs["ddprun"], "--standalone", "--nproc-per-node", str(setup.nodes),
               programs["chaos_worker"]]
    with open(folder / "output", "wb") as output:
        subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL,
                       stdout=output, stderr=output, timeout=600)
    node = verdict.Node()
    for line in records.read_text().splitlines():
        node.read(line)
    if len(set(node.epochs)) != epochs:
        raise Broken(f"the ranks of the undisturbed run disagree; see {records}")
    return {epoch: weights for epoch, _, weights in node.epochs}
