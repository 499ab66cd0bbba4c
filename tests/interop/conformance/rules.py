"""Differences on purpose that show up in many scenarios, each a rule with the id of its entry in
differences.md: it takes the difference out of what was seen, and says that it did."""
import ast

import observe


def apply(theirs, ours, used):
    for aspect in ("env", "tree", "logs", "errors"):
        text = repr(ours[aspect])
        if "ddprun_RANDOM" in text:
            ours[aspect] = ast.literal_eval(text.replace("ddprun_RANDOM", "torchelastic_RANDOM"))
            used.add("LOG-DIR-NAME")
    for worker, mine in ours["env"].items():
        if mine.pop("DDPRUN_PROGRESS_CHANNEL", None):
            used.add("PROGRESS-CHANNEL")
        other = theirs["env"].get(worker, {})
        host, number = other.get("MASTER_ADDR"), mine.get("MASTER_ADDR")
        if host != number and host in observe.host_names() and observe.is_own_address(number or ""):
            other["MASTER_ADDR"] = mine["MASTER_ADDR"] = "THIS-HOST"
            used.add("NUMERIC-MASTER")


def by_variable(seen):
    """The environment as an aspect for each variable: `env RANK`."""
    found = {aspect: value for aspect, value in seen.items() if aspect != "env"}
    for worker, variables in seen["env"].items():
        for name, value in variables.items():
            found.setdefault(f"env {name}", {})[worker] = value
    return found
