"""What the workers' records say about a job: where it stands, and whether what it did was right.
Pure. chaos_worker.cc has the lines."""
import collections
import dataclasses

Begun = collections.namedtuple("Begun", "ns attempt rank world pid master")


@dataclasses.dataclass
class Node:
    """What one node's workers said so far; without `history`, `pids` and `epochs` that
    is of its newest attempt."""
    begun: Begun = None
    stepped: bool = False
    saves: int = 0
    failed_saves: int = 0
    ended: int = None
    history: list = dataclasses.field(default_factory=list)  # Begun, of all attempts
    pids: dict = dataclasses.field(default_factory=dict)  # pid -> attempt, of all attempts
    epochs: list = dataclasses.field(default_factory=list)  # (epoch, exact, weights)

    def read(self, line):
        what, ns, attempt, rank, *more = line.split()
        if what == "begun":
            self.begun = Begun(int(ns), int(attempt), int(rank), int(more[0]), int(more[1]),
                               more[2] if len(more) > 2 else "")
            self.history.append(self.begun)
            self.pids[self.begun.pid] = self.begun.attempt
            self.stepped, self.saves, self.failed_saves = False, 0, 0
        elif what == "epoch":
            self.epochs.append((int(more[0]), more[1] == "1", more[2]))
        elif what == "ended":
            self.ended = int(more[0])
        elif self.begun and int(attempt) == self.begun.attempt:
            self.stepped = self.stepped or what == "stepped"
            self.saves += what == "saved"
            self.failed_saves += what == "unsaved"


def attempt_of(nodes, world):
    """The attempt in which exactly these nodes, `world` of them, train and have saved; or None."""
    begun = [node.begun for node in nodes]
    if len(nodes) != world or None in begun or {b.world for b in begun} != {world}:
        return None
    if len({b.attempt for b in begun}) != 1 or sorted(b.rank for b in begun) != list(range(world)):
        return None
    return begun[0].attempt if all(n.stepped and n.saves for n in nodes) else None


def overlap(alive, stopped=None):
    """`alive`: (node, pid, attempt) of workers that run. Two attempts at once, as a sentence. The agent of
    the node `stopped` cannot stop its workers: they may overlap with those of other nodes."""
    for node, pid, attempt in alive:
        newer = [other for other_node, _, other in alive
                 if other > attempt and stopped not in (node, other_node)]
        if newer:
            return (f"worker {pid} of attempt {attempt} runs on node{node} while attempt {max(newer)} "
                    "is under way")
    return None


def wrong_weights(nodes, calm):
    """Fixed world: every epoch that any node ever completed ends in the undisturbed run's weights,
    bit for bit. `calm`: epoch -> weights."""
    for number, node in enumerate(nodes):
        for epoch, _, weights in node.epochs:
            if epoch not in calm:
                return f"node{number} came to epoch {epoch}, beyond the undisturbed run"
            if weights != calm[epoch]:
                return (f"after epoch {epoch} node{number} has the weights {weights}, but the "
                        f"undisturbed run has {calm[epoch]}")
    return None


def wrong_samples(nodes):
    """Every epoch that any node ever completed has seen each sample once in each epoch so far."""
    for number, node in enumerate(nodes):
        for epoch, exact, _ in node.epochs:
            if not exact:
                return f"node{number}: at the end of epoch {epoch} some sample was seen twice or never"
    return None


def wrong_end(nodes):
    """All nodes end together, with the same weights."""
    ends = {node.ended for node in nodes}
    if None in ends or len(ends) != 1:
        return f"the workers ended after epochs {[node.ended for node in nodes]}"
    weights = {node.epochs[-1] for node in nodes if node.epochs}
    if len(weights) != 1:
        return f"the nodes ended with different weights: {sorted(weights)}"
    return None
