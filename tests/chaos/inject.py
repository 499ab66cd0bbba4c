"""How each fault of faults.py is done to a job, and made good. One function per kind; each ends when
the fault is made good, and leaves the waiting for the recovery to run(). One that goes on for longer
returns when it was made good."""
import contextlib
import os
import random
import signal
import sys
import time

import faults
import job as job_module
from job import Broken

SILENT = 1000
# Opens that many connections, says so, and holds them until it is killed.
HOLD_CONNECTIONS = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = [socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) for _ in range(int(sys.argv[3]))]
print("held", flush=True)
time.sleep(600)
"""


def run(job, fault):
    """Does it, and sees the job through it. Returns what it measured: {what: (seconds, usual)}."""
    setup, kind = job.setup, fault.kind
    before = job.attempt()
    if before is None:
        raise Broken(f"the job does not train; {job.where()}")
    ends = faults.flaps(fault, setup)[1] if kind.ends == "dice" else kind.ends
    job.may_end = set(fault.victims) if kind.loses == "victims" or ends == "maybe" else set()
    if kind.loses == "coordinator":
        job.may_end = {job.coordinator()}
    elif kind.loses == "endpoint":
        job.may_end = {job.hosts()[0]}
    job.stopped = fault.victims[0] if kind.name == "agent_stop" else None
    job.dead = before if ends == "yes" else -1
    measured = {}
    began = time.monotonic()
    healed = DO[kind.name](job, fault, before, measured) or time.monotonic()
    if kind.name == "node_flap" and ends == "no" and \
            healed - began > faults.flap_bearable_s(setup):
        ends = "maybe"  # this driver was late
    saves = [node.saves for node in job.state]

    def well():
        now = job.attempt()
        if now == before and ends != "yes":  # it goes on, which old records do not tell
            return now > job.dead and all(
                node.saves >= had + 2 for node, had in zip(job.state, saves))
        return now is not None and now > max(before, job.dead) and ends != "no"

    def disturbed():
        return ends == "no" and any(n.begun.attempt != before for n in job.state)

    job.until(lambda: well() or disturbed(), setup.bound_s(kind.usual),
              f"all nodes train after {fault.text()} is made good")
    if disturbed():
        raise Broken(f"attempt {before} ended, though it had no reason to; {job.where()}")
    measured["recovered"] = (time.monotonic() - healed, kind.usual)
    job.may_end, job.stopped, job.restart_pause_s = set(), None, faults.RESTART_PAUSE_S
    return measured


def survivors_go_on(job, fault, before, measured, lost):
    """For as long as the fault lasts; elastic: until the others train without the lost node."""
    begin = time.monotonic()
    if job.setup.elastic and len(lost) == 1:
        others = [n for n in range(job.nodes.count) if n not in lost]
        usual = fault.kind.went_on
        took = job.until(lambda: (job.attempt(others) or 0) > before, job.setup.bound_s(usual),
                         f"the others train without node{lost[0]}")
        measured["went on"] = (took, usual)
    job.pause(max(0.0, fault.lasts_s - (time.monotonic() - begin)))


def signal_worker(number):
    def do(job, fault, _before, _measured):
        os.kill(job.worker(fault.victims[0]), number)
    return do


def worker_pause(job, fault, _before, _measured):
    worker = job.worker(fault.victims[0])
    os.kill(worker, signal.SIGSTOP)
    job.pause(fault.lasts_s)
    os.kill(worker, signal.SIGCONT)


def agent_kill(job, fault, _before, _measured):
    os.kill(job.agent(fault.victims[0]), signal.SIGKILL)


def agent_stop(job, fault, before, measured):
    agent = job.agent(fault.victims[0])
    os.kill(agent, signal.SIGSTOP)
    survivors_go_on(job, fault, before, measured, fault.victims)
    os.kill(agent, signal.SIGCONT)


def node_kill(job, fault, before, measured):
    job.power_off(fault.victims[0])
    survivors_go_on(job, fault, before, measured, fault.victims)
    job.power_on(fault.victims[0])


def node_replace(job, fault, before, measured):
    job.power_off(fault.victims[0])
    job.nodes.replace_disk(fault.victims[0])
    survivors_go_on(job, fault, before, measured, fault.victims)
    job.power_on(fault.victims[0])


def spare_coordinator(job, fault):
    """The victims, another in its place: a successor needs more than half of four, and is not promised
    without."""
    host = job.coordinator()
    spared = [node for node in range(job.nodes.count) if node not in (host, *fault.victims)]
    return [spared[0] if node == host else node for node in fault.victims]


def two_nodes(job, fault, before, measured):
    first, second = spare_coordinator(job, fault)
    job.may_end = {first, second}
    os.kill(job.agent(first), signal.SIGKILL)
    job.pause(fault.dice * 0.3)
    job.doom(second)
    job.power_off(second)
    survivors_go_on(job, fault, before, measured, (first, second))
    job.power_on(second)


def kill_agent(job, node, gone_s):
    """It is started again after so many seconds."""
    job.doom(node)
    job.restart_pause_s = gone_s
    os.kill(job.agent(node), signal.SIGKILL)


def endpoint_restart(job, fault, _before, _measured):
    node = job.hosts()[0]
    for life in faults.lives(fault, 4):
        former = job.guardian(node)
        kill_agent(job, node, life.gone_s)
        job.until(lambda: job.guardian(node) not in (None, former) and job.has_agent(node),
                  job.setup.bound_s(faults.AT_ONCE), f"node{node} has another agent")
        job.pause(life.lives_s)


def coordinator_restart(job, fault, _before, _measured):
    lives = faults.lives(fault, 3)
    for life in lives:
        node = job.coordinator()
        job.may_end = {node}
        kill_agent(job, node, life.gone_s)
        if life is not lives[-1]:  # a second one that is lost before may be one too many
            job.until(lambda: (job.attempt() or 0) > job.dead, job.setup.bound_s(fault.kind.usual),
                      f"all nodes train after the agent of node{node} is started again")


def two_agents(job, fault, _before, _measured):
    # The half that is left goes on with an agent that starts where the coordinator's was, at the first
    # endpoint; elsewhere the coordinator stays.
    at_endpoint = job.coordinator() == job.hosts()[0]
    victims = fault.victims if at_endpoint else spare_coordinator(job, fault)
    job.may_end = set(victims)
    gone_s = faults.lives(fault, 1)[0].gone_s
    for node in victims:
        kill_agent(job, node, gone_s)


def storm(job, fault, _before, _measured):
    blows = faults.storm(fault, job.coordinator(), job.setup)
    job.may_end = {blow.node for blow in blows if blow.what != "worker"}
    off, cut = set(), set()
    for blow in blows:
        with contextlib.suppress(ProcessLookupError, Broken):  # its process may be gone already
            strike(job, blow, off, cut)
        job.pause(blow.pause_s)
    for node in off:
        job.power_on(node)
    for node in cut:
        job.nodes.heal(node)
    healed = time.monotonic()
    job.pause(faults.NOTICE_BEATS * job.setup.heartbeat_s)
    return healed


def strike(job, blow, off, cut):
    """`off` and `cut`: the nodes to make good at the end."""
    what, node = blow.what, blow.node
    if what in ("worker", "agent", "off"):
        job.doom(node)
    if what == "worker":
        os.kill(job.worker(node), signal.SIGKILL)
    elif what == "agent":
        os.kill(job.agent(node), signal.SIGKILL)
    elif what == "off":
        job.power_off(node)
        off.add(node)
    elif what == "on":
        job.power_on(node)
        off.discard(node)
    elif what == "cut":
        job.nodes.cut(node)
        cut.add(node)
    else:
        job.nodes.heal(node)
        cut.discard(node)


def lose_link(cut, heal):
    def do(job, fault, before, measured):
        node = fault.victims[0]
        getattr(job.nodes, cut)(node)
        survivors_go_on(job, fault, before, measured, fault.victims)
        getattr(job.nodes, heal)(node)
    return do


def node_flap(job, fault, _before, _measured):
    node = fault.victims[0]
    down, ends = faults.flaps(fault, job.setup)
    job.may_end = set() if ends == "no" else {node}
    for seconds in down:
        job.nodes.cut(node)
        job.pause(seconds)
        job.nodes.heal(node)
        job.pause(faults.FLAP_PAUSE_S)
    healed = time.monotonic()
    job.pause(faults.NOTICE_BEATS * job.setup.heartbeat_s)
    return healed


def coordinator_kill(job, fault, before, measured):
    node = job.coordinator()
    job.power_off(node)
    survivors_go_on(job, fault, before, measured, (node,))
    job.power_on(node)


def coordinator_cut(job, fault, before, measured):
    node = job.coordinator()
    job.nodes.cut(node)
    survivors_go_on(job, fault, before, measured, (node,))
    job.nodes.heal(node)


def fill_until_said(job, node):
    def complaints():
        return job.said(node).count("No space left on device")

    had, failed = complaints(), job.state[node].failed_saves
    job.nodes.fill_disk(node)
    job.until(lambda: job.state[node].failed_saves > failed and complaints() > had,
              job.setup.bound_s(faults.AT_ONCE), f"a snapshot of node{node} fails for the full disk, and it is said")


def disk_full(job, fault, _before, _measured):
    fill_until_said(job, fault.victims[0])
    job.nodes.free_disk(fault.victims[0])


def disk_full_kill(job, fault, before, measured):
    node = fault.victims[0]
    fill_until_said(job, node)
    os.kill(job.worker(int(fault.dice * job.nodes.count)), signal.SIGKILL)
    usual = fault.kind.went_on
    took = job.until(
        lambda: all(s.begun.attempt > before and s.stepped for s in job.state),
        job.setup.bound_s(usual), "all nodes train while the disk is full")
    measured["went on"] = (took, usual)
    job.nodes.free_disk(node)


def truncate_newest(nodes, node, seconds=5):
    """Cuts the tensors of the node's newest snapshot in half; its folder."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # the next snapshot may just have taken its place
            newest = nodes.newest_snapshot(node)
            path = newest / "tensors.safetensors"
            os.truncate(path, path.stat().st_size // 2)
            return newest
    raise Broken(f"node{node} has no snapshot to cut short")


def snapshot_truncated(job, fault, _before, _measured):
    node = fault.victims[0]
    worker = job.worker(node)
    os.kill(worker, signal.SIGSTOP)  # so that it writes no newer one
    truncate_newest(job.nodes, node)
    os.kill(worker, signal.SIGKILL)


def clock_back(job, fault, _before, _measured):
    back = 1 + int(fault.dice * 86400)
    job.path(fault.victims[0], "clock").write_text(str(-back), encoding="ascii")


def silent_connections(job, fault, before, _measured):
    node = fault.victims[0]
    path = job.path(node, "silent")
    with open(path, "wb") as out:
        silent = job.nodes.start(
            node, [sys.executable, "-c", HOLD_CONNECTIONS,
                   job.nodes.address(job.door()), str(job_module.PORT), str(SILENT)], {}, out, out)
    try:
        job.until(lambda: b"held" in path.read_bytes() or silent.poll() is not None, 30,
                  "all connections are made")
        if silent.poll() is not None:
            raise Broken(f"the endpoint does not take {SILENT} connections; see {path}")
        saves = [s.saves for s in job.state]
        job.until(lambda: job.attempt() == before and
                  all(s.saves >= had + 2 for s, had in zip(job.state, saves)),
                  job.setup.bound_s(faults.AT_ONCE), "the job goes on under silent connections")
    finally:
        silent.kill()
        silent.wait(10)


def stranger(job, fault, _before, _measured):
    node = fault.victims[0]
    path = job.path(node, "stranger")
    command = job.command()[:-len(job.program)]
    command[command.index("--rdzv-id") + 1] = "somebody-else"
    command[command.index("--rdzv-endpoint") + 1] = \
        f"{job.nodes.address(job.door())}:{job_module.PORT}"
    with open(path, "wb") as out:
        agent = job.nodes.start(node, command + ["true"], {}, out, out)
    try:
        job.until(lambda: agent.poll() is not None, job.setup.bound_s(faults.AT_ONCE),
                  "the stranger ends")
        if agent.returncode != 1 or b"somebody-else" not in path.read_bytes():
            raise Broken(f"the stranger ended with {agent.returncode}; see {path}")
    finally:
        agent.kill()
        agent.wait(10)


DO = {
    "worker_kill": signal_worker(signal.SIGKILL),
    "worker_segv": signal_worker(signal.SIGSEGV),
    "worker_exit": signal_worker(signal.SIGUSR1),
    "worker_hang": signal_worker(signal.SIGUSR2),
    "worker_stop": signal_worker(signal.SIGSTOP),
    "worker_pause": worker_pause,
    "agent_kill": agent_kill,
    "agent_stop": agent_stop,
    "node_kill": node_kill,
    "node_replace": node_replace,
    "two_nodes": two_nodes,
    "two_agents": two_agents,
    "endpoint_restart": endpoint_restart,
    "coordinator_restart": coordinator_restart,
    "storm": storm,
    "node_cut": lose_link("cut", "heal"),
    "node_mute": lose_link("mute", "unmute"),
    "node_deaf": lose_link("deafen", "undeafen"),
    "node_flap": node_flap,
    "coordinator_kill": coordinator_kill,
    "coordinator_cut": coordinator_cut,
    "disk_full": disk_full,
    "disk_full_kill": disk_full_kill,
    "snapshot_truncated": snapshot_truncated,
    "clock_back": clock_back,
    "silent_connections": silent_connections,
    "stranger": stranger,
}
