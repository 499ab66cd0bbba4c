"""The faults that a cluster has, as a table, and which of them a seed draws. Pure: no file, no clock.

Of each fault: what it needs of ddprun, whether the attempt must end or must not, whose agents may
end by it, how long it lasts before the driver makes it good, and its bound: how long, from then on,
until every node trains in one attempt and has a snapshot of it."""
import dataclasses
import random

RESTART_PAUSE_S = 0.1  # between the end of an agent and its next start, as by systemd or Slurm
CONNECT_TIMEOUT_S, CONNECT_PAUSE_S = 3.0, 1.0  # rendezvous/control/join.cc: the longest of each


@dataclasses.dataclass(frozen=True)
class Setup:
    """A job's sizes and timeouts. `slack_s` is for the machine: the time that four agents and four
    workers need on a busy one."""
    nodes: int = 4
    elastic: bool = False
    nodes_min: int = 2
    heartbeat_s: float = 1.0
    shutdown_s: int = 2
    hang_s: int = 2
    slack_s: float = 2.0

    @classmethod
    def of(cls, times, **more):
        """With timeouts so many times as long: a machine that stands still for longer than one of
        them loses a node, as it should."""
        return cls(heartbeat_s=times * cls.heartbeat_s, hang_s=times * cls.hang_s, **more)


@dataclasses.dataclass(frozen=True)
class Kind:
    """`ends`: "yes": the attempt ends; "no": it must not; "maybe". `loses`: "none", "victims" or
    "coordinator": the nodes that the others must do without. `lasts`: seconds as multiples of the
    heartbeat timeout, from and to; None: over at once. `needs`: a word in `ddprun --help`."""
    name: str
    does: str
    heals: str
    ends: str
    bound: str
    loses: str = "none"
    victims: int = 1
    lasts: tuple = None
    needs: str = ""


STOP, HANG, BACK, REJOIN = "stop", "hang+stop", "stop+back", "silence+stop+rejoin"

KINDS = (
    Kind("worker_kill", "SIGKILL to a worker", "restart", "yes", STOP),
    Kind("worker_segv", "SIGSEGV to a worker", "restart", "yes", STOP),
    Kind("worker_exit", "a worker exits with 3", "restart", "yes", STOP),
    Kind("worker_hang", "a worker waits for ever", "the agents find it, restart", "yes", HANG,
         needs="--hang-timeout"),
    Kind("worker_stop", "SIGSTOP to a worker", "the agents find it, restart", "yes", HANG,
         needs="--hang-timeout"),
    Kind("worker_pause", "SIGSTOP to a worker, SIGCONT soon after", "SIGCONT", "no", STOP,
         lasts=(0.1, 0.5)),
    Kind("agent_kill", "SIGKILL to an agent", "the agent is started again", "yes", BACK,
         loses="victims"),
    Kind("agent_stop", "SIGSTOP to an agent for longer than the heartbeat timeout",
         "SIGCONT; the agent, which was given up, is started again", "yes", REJOIN,
         loses="victims", lasts=(1.5, 2.5)),
    Kind("node_kill", "power off: link down and all its processes killed",
         "the node comes back with its disk", "yes", BACK, loses="victims", lasts=(1.3, 2.0)),
    Kind("node_replace", "power off, and its disk is lost", "another comes with an empty disk",
         "yes", BACK, loses="victims", lasts=(1.3, 2.0)),
    Kind("two_nodes", "SIGKILL to an agent, and power off for another while the job restarts",
         "both come back", "yes", BACK, loses="victims", victims=2, lasts=(1.3, 2.0)),
    Kind("node_cut", "no packet from or to the node", "the link is whole again", "yes", REJOIN,
         loses="victims", lasts=(1.5, 2.5)),
    Kind("node_mute", "the node's packets are lost, it hears the others", "they go through again",
         "yes", REJOIN, loses="victims", lasts=(1.5, 2.5)),
    Kind("node_deaf", "packets to the node are lost, the others hear it", "they go through again",
         "yes", REJOIN, loses="victims", lasts=(1.5, 2.5)),
    Kind("node_flap", "the node's link goes down and up five times", "it stays up", "maybe",
         REJOIN),
    Kind("storm", "eight faults to workers, agents, nodes and links in quick succession",
         "all is made good at once", "maybe", REJOIN, loses="victims", victims=3),
    Kind("coordinator_kill", "power off of the node that hosts the coordinator",
         "another takes over; the node comes back", "yes", BACK, loses="coordinator",
         lasts=(1.5, 2.5), needs="--witness"),
    Kind("coordinator_cut", "the coordinator's node is cut off both ways",
         "another takes over; the link is whole again", "yes", REJOIN, loses="coordinator",
         lasts=(1.5, 2.5), needs="--witness"),
    Kind("disk_full", "a node's disk is full while snapshots are saved", "room is made", "no",
         STOP),
    Kind("disk_full_kill", "a node's disk is full and a worker gets SIGKILL",
         "restart from an older snapshot, or from another node's; room is made", "yes", STOP),
    Kind("snapshot_truncated", "the newest snapshot of a node is cut short and a worker gets "
         "SIGKILL", "restart from the snapshot before", "yes", STOP),
    Kind("clock_back", "a node's wall clock is set back by up to a day", "nothing", "no", STOP),
    Kind("silent_connections", "1,000 connections to the endpoint that say nothing", "they close",
         "no", STOP),
    Kind("stranger", "an agent of another job comes to the endpoint", "it is turned away", "no",
         STOP),
)
BY_NAME = {kind.name: kind for kind in KINDS}


@dataclasses.dataclass(frozen=True)
class Fault:
    """One that was drawn. `victims` are node numbers in the order in which they are hit, and of
    coordinator faults empty; `lasts_s` is how long it lasts, `dice` a number in [0, 1) for what
    else a kind leaves to chance."""
    number: int
    kind: Kind
    victims: tuple
    lasts_s: float
    after_s: float
    dice: float

    def text(self):
        where = " and ".join(f"node{v}" for v in self.victims) or "the coordinator's node"
        lasts = f" for {self.lasts_s:.2f} s" if self.lasts_s else ""
        return f"fault {self.number}: {self.kind.name} on {where}{lasts}"


def split(help_text, only=()):
    """(kinds to draw from, [(kind, why it is not drawn)]): what this ddprun cannot stand by its
    own help is left out, and named."""
    drawn, left_out = [], []
    for kind in KINDS:
        if only and kind.name not in only:
            continue
        if kind.needs and kind.needs not in help_text:
            left_out.append((kind, f"this ddprun has no {kind.needs}"))
        else:
            drawn.append(kind)
    return drawn, left_out


def draw(kinds, count, seed, setup, fixed_host=True):
    """The schedule of this seed. Every kind comes once before any comes again, in an order of the
    seed's own. With `fixed_host` node 0 hosts the coordinator for ever, and is spared by whatever
    takes a node away."""
    dice = random.Random(seed)
    bag, schedule = [], []
    for number in range(count):
        if not bag:
            bag = dice.sample(kinds, len(kinds))
        kind = bag.pop()
        takes_away = kind.loses == "victims" or kind.name == "node_flap"
        nodes = range(1 if takes_away and fixed_host else 0, setup.nodes)
        victims = () if kind.loses == "coordinator" else tuple(dice.sample(nodes, kind.victims))
        lasts = dice.uniform(*kind.lasts) * setup.heartbeat_s if kind.lasts else 0.0
        schedule.append(Fault(number, kind, victims, lasts, dice.uniform(0.0, 0.2),
                              dice.random()))
    return schedule


def bound_s(kind, setup):
    """From when the fault is made good until all nodes train again and have saved."""
    seconds = setup.slack_s + setup.shutdown_s
    if kind.bound == HANG:
        seconds += setup.hang_s
    if kind.bound in (BACK, REJOIN):
        seconds += RESTART_PAUSE_S + CONNECT_TIMEOUT_S + CONNECT_PAUSE_S
    if kind.bound == REJOIN:
        seconds += setup.heartbeat_s
    return seconds


def survivors_bound_s(setup):
    """Elastic: from the loss of a node until the others train without it."""
    return setup.heartbeat_s + setup.shutdown_s + setup.slack_s
