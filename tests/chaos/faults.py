"""The faults that a cluster has, as a table, and which of them a seed draws. Pure: no file, no clock.

Of each fault: whether the attempt must end or must not, whose agents may end by it, how long it lasts
before the driver makes it good, and how long it then usually takes until every node trains in one
attempt and has a snapshot of it. A fault's bound is twice that, and `slack_s` for the machine."""
import collections
import dataclasses
import random

RESTART_PAUSE_S = 0.1  # between the end of an agent and its next start, as by systemd or Slurm
NOTICE_BEATS = 1.5  # after so many heartbeat timeouts it is known who was lost

# What something usually takes: seconds, and heartbeat timeouts besides. Medians of runs with a
# heartbeat timeout of 1 s and of 3 s, on two busy cores.
Usual = collections.namedtuple("Usual", "seconds beats", defaults=(0.0,))


@dataclasses.dataclass(frozen=True)
class Setup:
    """A job's sizes and timeouts. `slack_s`: what every bound grants a machine that does other things
    besides. `factor`: how many times as slow as a release build the programs are."""
    nodes: int = 4
    elastic: bool = False
    nodes_min: int = 2
    heartbeat_s: float = 1.0
    shutdown_s: int = 2
    hang_s: int = 2
    slack_s: float = 1.5
    factor: float = 1.0
    endpoints: int = 3

    @classmethod
    def of(cls, times, **more):
        """With timeouts so many times as long: a machine that stands still for longer than one of
        them loses a node, as it should."""
        return cls(heartbeat_s=times * cls.heartbeat_s, hang_s=times * cls.hang_s, **more)

    def usual_s(self, usual):
        return self.factor * usual.seconds + self.heartbeat_s * usual.beats

    def bound_s(self, usual):
        return 2 * self.usual_s(usual) + self.slack_s

    def median_bound_s(self, usual):
        """For the median of several: one may be late, but not most of them."""
        return self.usual_s(usual) + self.slack_s


@dataclasses.dataclass(frozen=True)
class Kind:
    """`ends`: "yes": the attempt ends; "no": it must not; "dice": its Fault knows. `usual`: from when
    it is made good until all is well; `went_on`: until the job goes on in spite of it. `loses`: "none",
    "victims", "coordinator" or "endpoint": the nodes that the others must do without. `lasts`: seconds as
    multiples of the heartbeat timeout, from and to; None: over at once."""
    name: str
    does: str
    heals: str
    ends: str
    usual: Usual
    loses: str = "none"
    victims: int = 1
    lasts: tuple = None
    went_on: Usual = None


AT_ONCE, RESTART, HANG = Usual(0.15), Usual(0.25), Usual(0.3, 2.0)
AGENT_BACK, LINK_BACK = Usual(0.45), Usual(0.7)
# Twice that, as every bound is: a heartbeat timeout, and the 2 s between a leader's calls.
FOUND = Usual(1.0, 0.5)
NOTICED = Usual(0.12, 1.0)  # a silent loss

KINDS = (
    Kind("worker_kill", "SIGKILL to a worker", "restart", "yes", RESTART),
    Kind("worker_segv", "SIGSEGV to a worker", "restart", "yes", RESTART),
    Kind("worker_exit", "a worker exits with 3", "restart", "yes", RESTART),
    Kind("worker_hang", "a worker waits for ever", "the agents find it, restart", "yes", HANG),
    Kind("worker_stop", "SIGSTOP to a worker", "the agents find it, restart", "yes",
         Usual(3.2, 1.65)),
    Kind("worker_pause", "SIGSTOP to a worker, SIGCONT soon after", "SIGCONT", "no", AT_ONCE,
         lasts=(0.1, 0.5)),
    Kind("agent_kill", "SIGKILL to an agent", "the agent is started again", "yes", AGENT_BACK,
         loses="victims"),
    Kind("agent_stop", "SIGSTOP to an agent for longer than the heartbeat timeout",
         "SIGCONT; the agent, which was given up, is started again", "yes", RESTART,
         loses="victims", lasts=(1.5, 2.5), went_on=NOTICED),
    Kind("node_kill", "power off: link down and all its processes killed",
         "the node comes back with its disk", "yes", AGENT_BACK, loses="victims", lasts=(1.3, 2.0),
         went_on=NOTICED),
    Kind("node_replace", "power off, and its disk is lost", "another comes with an empty disk",
         "yes", AGENT_BACK, loses="victims", lasts=(1.3, 2.0), went_on=NOTICED),
    Kind("two_nodes", "SIGKILL to an agent, and power off for another while the job restarts",
         "both come back", "yes", AGENT_BACK, loses="victims", victims=2, lasts=(1.3, 2.0)),
    Kind("node_cut", "no packet from or to the node", "the link is whole again", "yes", LINK_BACK,
         loses="victims", lasts=(1.5, 2.5), went_on=NOTICED),
    Kind("node_mute", "the node's packets are lost, it hears the others", "they go through again",
         "yes", LINK_BACK, loses="victims", lasts=(1.5, 2.5), went_on=NOTICED),
    Kind("node_deaf", "packets to the node are lost, the others hear it", "they go through again",
         "yes", LINK_BACK, loses="victims", lasts=(1.5, 2.5), went_on=NOTICED),
    Kind("node_flap", "the node's link goes down and up five times", "it stays up", "dice",
         Usual(0.1, NOTICE_BEATS)),
    Kind("storm", "every node is hit twice, in turns: its worker, agent, power or link",
         "all is made good at once", "yes", Usual(0.1, NOTICE_BEATS)),
    Kind("coordinator_kill", "power off of the node that hosts the coordinator",
         "another takes over; the node comes back", "yes", AGENT_BACK, loses="coordinator",
         lasts=(1.5, 2.5), went_on=NOTICED),
    Kind("coordinator_cut", "the coordinator's node is cut off both ways",
         "another takes over; the link is whole again", "yes", LINK_BACK, loses="coordinator",
         lasts=(1.5, 2.5), went_on=NOTICED),
    Kind("endpoint_restart", "SIGKILL, up to four times, to the agent at the first endpoint",
         "it is started again, after 0 to 0.5 s", "yes", FOUND, loses="endpoint"),
    Kind("coordinator_restart", "SIGKILL to the coordinator's agent, up to three times",
         "it is started again, after 0 to 0.5 s", "yes", FOUND, loses="coordinator"),
    Kind("two_agents", "SIGKILL to two agents at once",
         "they are started again, after 0 to 0.5 s", "yes", FOUND, loses="victims", victims=2),
    Kind("disk_full", "a node's disk is full while snapshots are saved", "room is made", "no",
         AT_ONCE),
    Kind("disk_full_kill", "a node's disk is full and a worker gets SIGKILL",
         "restart from an older snapshot, or from another node's; room is made", "yes", AT_ONCE,
         went_on=RESTART),
    Kind("snapshot_truncated", "the newest snapshot of a node is cut short and a worker gets "
         "SIGKILL", "restart from the snapshot before", "yes", RESTART),
    Kind("clock_back", "a node's wall clock is set back by up to a day", "nothing", "no", AT_ONCE),
    Kind("silent_connections", "1,000 connections to the endpoint that say nothing", "they close",
         "no", AT_ONCE),
    Kind("stranger", "an agent of another job comes to the endpoint", "it is turned away", "no",
         AT_ONCE),
)
BY_NAME = {kind.name: kind for kind in KINDS}
BEGINS, ENDS = Usual(0.5), Usual(0.15)  # of a job: until it trains; from when it may end


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
        where = " and ".join(f"node{v}" for v in self.victims) or (
            {"coordinator": "the coordinator's node", "endpoint": "the endpoint's node"}.get(
                self.kind.loses, "all nodes"))
        lasts = f" for {self.lasts_s:.2f} s" if self.lasts_s else ""
        return f"fault {self.number}: {self.kind.name} on {where}{lasts}"


def draw(kinds, count, seed, setup):
    """The schedule of this seed. Every kind comes once before any comes again, in an order of the
    seed's own."""
    dice = random.Random(seed)
    bag, schedule = [], []
    for number in range(count):
        if not bag:
            bag = dice.sample(kinds, len(kinds))
        kind = bag.pop()
        whole = kind.loses in ("coordinator", "endpoint") or kind.name == "storm"
        victims = () if whole else tuple(dice.sample(range(setup.nodes), kind.victims))
        lasts = dice.uniform(*kind.lasts) * setup.heartbeat_s if kind.lasts else 0.0
        schedule.append(Fault(number, kind, victims, lasts, dice.uniform(0.0, 0.2),
                              dice.random()))
    return schedule


# Of an agent that is killed several times: for how long it is gone, and how long it then lives.
Life = collections.namedtuple("Life", "gone_s lives_s")
GONE_S, LIVES_S = (0.0, 0.05, 0.1, 0.2, 0.5), (0.0, 0.02, 0.1, 0.3, 1.0)


def lives(fault, most):
    """Of one that is killed so many times at most: its next lives."""
    dice = random.Random(fault.dice)
    return [Life(dice.choice(GONE_S), dice.choice(LIVES_S))
            for _ in range(dice.randint(1, most))]


FLAP_PAUSE_S = 0.05  # for which a flapping link is up
FLAPS = 5


def flap_bearable_s(setup):
    """For how long all flaps together may last and end no attempt. A node gives its coordinator up
    after 0.9 heartbeat timeouts; the contact that it counts from is up to three beats old, half a
    timeout; and TCP sends what was lost again up to 0.25 s after the link is whole."""
    return (0.9 - 0.5) * setup.heartbeat_s - 0.25


def flaps(fault, setup):
    """(how long a node_flap takes the link down each time, whether that ends the attempt: "no" where
    it must be borne, "yes" where one of them is longer than a heartbeat timeout, else "maybe")."""
    dice = random.Random(fault.dice)
    down_s = flap_bearable_s(setup) / FLAPS - FLAP_PAUSE_S
    ends = dice.choice(("no", "maybe", "yes") if down_s > 0 else ("maybe", "yes"))
    if ends == "no":
        return [down_s * dice.random() for _ in range(FLAPS)], ends
    down = [0.6 * setup.heartbeat_s * dice.random() for _ in range(FLAPS)]
    if ends == "yes":
        down[dice.randrange(FLAPS)] = NOTICE_BEATS * setup.heartbeat_s
    return down, ends


Blow = collections.namedtuple("Blow", "what node pause_s")
STORMY = {
    "worker": [("worker", "worker")],
    "agent": [("agent", "agent"), ("agent", "worker"), ("worker", "agent")],
    "power": [("off", "on"), ("worker", "off")],
    "link": [("cut", "heal"), ("cut", "worker"), ("worker", "cut")],
}


def storm(fault, coordinator, setup):
    """Its blows: two to each node, in turns, without waiting for the recovery from any. A job survives
    what leaves it a quorum of the agents that it had before: a successor needs more than half of them,
    the coordinator that stays half, itself and agents whose death it was told of among them. So either
    the coordinator is lost and no second agent dies, or it stays and the others may all be lost, but
    one of them at most in silence. An elastic world shrinks meanwhile: before the coordinator is lost,
    one other node may be, since a world of two does not survive its coordinator."""
    dice = random.Random(fault.dice)
    others = dice.sample([node for node in range(setup.nodes) if node != coordinator],
                         setup.nodes - 1)
    if dice.random() < 0.5:
        first = dice.choice(("agent", "power", "link"))
        second = dice.choice(("agent", "power")) if first == "link" else "link"
        parts = [first, second, "worker" if setup.elastic else "link", "worker"]
    else:
        parts = ["worker", "agent", "power", "link"]
    turns = {node: dice.choice(STORMY[part]) for node, part in zip([coordinator, *others], parts)}
    blows = []
    for turn in range(2):
        for node in dice.sample(sorted(turns), setup.nodes):
            pause_s = dice.choice((0.0, 0.05, 0.2, 0.6)) * setup.heartbeat_s
            blows.append(Blow(turns[node][turn], node, pause_s))
    return blows
