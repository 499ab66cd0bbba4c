"""Differences on purpose that show up in many scenarios, each a rule with the id of its entry in
differences.md: it takes the difference out of what was seen, and says that it did."""
import ast

import observe


def apply(theirs, ours, used):
    summaries = [aspect for aspect in ours if aspect.startswith("summary ")]
    for aspect in ("env", "tree", "logs", "errors", *summaries):
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


    for aspect in summaries:
        for one in (theirs[aspect], ours[aspect]) if len(summaries) > 1 else ():
            if one:  # ONE-CAUSE: ours has those of other nodes, which failed too or were stopped before
                one["others"] = []
        both = [[one, *one["others"]] for one in (theirs[aspect], ours[aspect]) if one]
        for other, mine in zip(*both) if len(both) == 2 else ():
            if says_more(other, mine):
                mine["traceback"] = other["traceback"]
                used.add("HOW-IT-ENDED")


def says_more(other, mine):
    """Of a worker that has left no error file."""
    if other["error_file"] != "<N/A>" or not mine["traceback"]:
        return False
    theirs, ours = other["traceback"][0], mine["traceback"][0]
    return ours.startswith(f"{theirs}; ") or (
        theirs.startswith("To enable traceback see: ") and ours.startswith("exited with code "))


def by_variable(seen):
    """The environment as an aspect for each variable: `env RANK`."""
    found = {aspect: value for aspect, value in seen.items() if aspect != "env"}
    for worker, variables in seen["env"].items():
        for name, value in variables.items():
            found.setdefault(f"env {name}", {})[worker] = value
    return found
