"""The tables of scripts/bench, made from its raw values: {"about", "asked", "when", "found", "failed",
"left_out"}. Times are kept in seconds. A row whose values are missing has dashes."""
import steps
import trainer_rows
from row import Row, at_least, at_most, field, pair, times
from series import Series, exponent, number

# What README.md has a block for: the lines round it.
BLOCKS = {
    "launchers": ("<!-- The figures: scripts/bench --readme writes all between these two lines. -->",
                  "<!-- End of the figures. -->"),
    "trainers": ("<!-- Of trainers: scripts/bench --trainers --readme writes all between these two lines. -->",
                 "<!-- End of the figures of trainers. -->"),
}


# ---- the rows of each step -----------------------------------------------------------------------


def launch(found):
    yield Row("start and end of a job of two `/bin/true`", *pair(found), "s", (times(150),),
              floors=(times(150),))


def first_line(found):
    yield Row("start of a job to the first line of its Python worker", *pair(found), "s",
              (times(10),), floors=(times(10),))
    python = Series(found.get("python", [])).median
    own = "" if python is None else f" ({python * 1e3:.0f} ms)"
    yield Row(f"the same without Python's own start{own}",
              *pair(found, lambda value: None if python is None else value - python), "s",
              (times(100),))


def recovery(found):
    yield Row("SIGKILL of a worker to the first instruction of all new ones, two nodes",
              *pair(found), "s", (at_most(0.015, "s"), times(50)),
              floors=(at_most(0.05, "s"), times(50)))


def pytorch_restart(found):
    imports = Series(found.get("imports", [])).median
    told = "" if imports is None else f" (imports alone: {imports * 1e3:,.0f} ms)"
    yield Row(f"SIGKILL of a PyTorch worker to the next completed step{told}", *pair(found), "s")
    yield Row("the same with `--warm-workers`, once the spares are ready",
              Series(found.get("warm", [])), pair(found)[1], "s", (times(10),), floors=(times(10),))
    yield Row("memory of a spare that waits, resident and not shared",
              Series([spare["private_mib"] for spare in found.get("spares", [])]), Series(), "MiB")


def meeting(found):
    yield Row(f"`init_process_group` and a barrier, {steps.WORKERS} workers", *pair(found), "s",
              (times(1),))


def footprint(found):
    one, two = found.get("one_node", {}), found.get("two_nodes", {})
    yield Row(f"resident memory of the agent, {steps.WORKERS} workers",
              *pair(one, field("rss_mib")), "MiB", (at_most(10, "MiB"),),
              floors=(at_most(10, "MiB"),))
    yield Row("the same, each shared page by its share", *pair(one, field("pss_mib")), "MiB")
    idle = field("idle_cpu_ms_per_minute")
    yield Row("processor time of an idle agent, one node, per minute", *pair(one, idle), "ms",
              (at_most(5, "ms"),))
    yield Row("the same with two nodes, of the busier agent", *pair(two, idle), "ms",
              (at_most(5, "ms"),))


def store_load(found):
    for clients in sorted(found, key=int) or ["256"]:
        values = found.get(clients, {})
        yield Row(f"set or get per second at the store, {clients} clients",
                  *pair(values, field("ops_per_s")), "", more=True)
        yield Row(f"the slowest hundredth of them, {clients} clients",
                  *pair(values, field("p99_ms")), "ms")


def pytorch_store(found):
    yield Row("set or get per second at the store, 256 PyTorch clients",
              *pair(found, field("ops_per_s")), "", (times(1.5, True),), more=True)
    yield Row("the slowest hundredth of them, 256 PyTorch clients", *pair(found, field("p99_ms")),
              "ms", (times(1),))
    yield Row("processor time of the store's process for each of them",
              *pair(found, lambda run: run["server_us_per_op"] / 1e3), "ms")


def one_client(found):
    yield Row("set+get of one store client, of a bare echo server's rate",
              *pair(found, field("ratio")), "%", (at_least(0.8, "%"),))


def rendezvous(found):
    counts = sorted(found, key=int)
    for agents in counts:
        yield Row(f"{int(agents):,} simulated agents, from the first connect until all are assigned",
                  Series([run["meeting"]["wall_s"] for run in found[agents]]), Series(), "s",
                  (at_most(2, "s"),) * (agents == "10000"))
    for what, key in (("time", "wall_s"), ("the coordinator's processor time", "coordinator_cpu_s")):
        # Of each turn, which had a run of every number of agents.
        turns = zip(*([(int(agents), run["meeting"][key]) for run in found[agents]]
                      for agents in counts))
        yield Row(f"power of the number of agents with which {what} grows (1: linear)",
                  Series([exponent(points) for points in turns]), Series(), "")
    most = counts[-1] if counts else "10000"
    yield Row(f"memory of the coordinator for each of {int(most):,}",
              Series([run["bytes_per_agent"] for run in found.get(most, [])]), Series(), "KiB",
              (at_most(8192, "KiB"),))


def scale(found):
    """As rendezvous, with a longer heartbeat timeout and more agents."""
    timeout = f"heartbeat timeout {steps.SCALE_HEARTBEAT_TIMEOUT_S} s"
    agents = max(found, key=int, default=str(max(steps.SCALE_AGENTS)))
    runs = found.get(agents, [])
    yield Row(f"{int(agents):,} simulated agents, {timeout}, until all are assigned",
              Series([run["meeting"]["wall_s"] for run in runs]), Series(), "s")
    turns = zip(*([(int(count), run["meeting"]["wall_s"]) for run in found[count]]
                  for count in sorted(found, key=int)))
    yield Row("power of the number of agents with which that grows from 10,000 (1: linear)",
              Series([exponent(points) for points in turns]), Series(), "")
    yield Row("memory of the coordinator for each of them",
              Series([run["bytes_per_agent"] for run in runs]), Series(), "KiB", (at_most(3072, "KiB"),))
    yield Row("share of one core that their heartbeats cost the coordinator",
              Series([run["idle"]["coordinator_cpu_s"] / run["idle"]["wall_s"] for run in runs]),
              Series(), "%")


def restart(found):
    yield Row(f"restart of an unchanged world of {found.get('agents', steps.RESTARTED_AGENTS):,} "
              "simulated agents", Series([run["wall_s"] for run in found.get("runs", [])]),
              Series(), "s", (at_most(0.1, "s"),), floors=(at_most(0.1, "s"),))


def starts(found):
    for agents in sorted(found, key=int) or ["4"]:
        values = found.get(agents, {})
        yield Row(f"{agents} agents on this machine, to the last worker's first instruction",
                  *pair(values, field("total_s")), "s")
        yield Row("the same, of torchrun once all its agents have imported PyTorch",
                  *pair(values, field("ready_s")), "s")


def slurm(found):
    alone = Series([run["total_s"] for run in found.get("srun", [])]).text("s", with_runs=False)
    yield Row(f"`srun` of a job on four nodes to the first worker's first instruction (`srun true`: {alone})",
              *pair(found, field("total_s")), "s")
    yield Row("the same from the moment at which srun has begun the launcher on each node",
              *pair(found, field("beyond_s")), "s", (times(50),))


def _how_it_ended(runs):
    """Of torchrun's runs in which it did not go on; nothing when it always did."""
    standing = [run for run in runs if run and run["went_on_s"] is None]
    if not standing:
        return ""
    after = Series([run["waited_s"] for run in standing if run["ended"] == run["of"]])
    waited = Series([run["waited_s"] for run in standing if run["ended"] != run["of"]])
    told = [f"{Series([run['went_on_s'] for run in runs]).text('s')}"] \
        if len(standing) < len(runs) else []
    if after:
        told.append(f"the job ends, after {after.text('s')}")
    if waited:
        told.append(f"it stands still, for at least {number(min(waited.values))} s "
                    f"(n={waited.runs})")
    return "; ".join(told)


def _loss(what, found, target, theirs="torchrun", floors=()):
    runs = {"ddprun": found.get("ddprun", []), "torchrun": found.get(theirs, [])}
    return Row(what, *pair(runs, field("went_on_s")), "s", (at_most(target, "s"),),
               theirs_text=_how_it_ended(runs["torchrun"]), floors=floors)


def kill(found):
    yield _loss("`kill -9` of an agent in `--nnodes 1:2` to the survivor's new worker", found, 0.05,
                floors=(at_most(0.05, "s"),))
    yield _loss("the same, where torchrun's surviving worker is ended, too", found, 0.05,
                "worker_fails")


def cut(found):
    yield _loss("cut cable in `--nnodes 1:2` to the survivor's new worker", found, 1.1)


def host(found):
    yield _loss("power loss of the coordinator's node, one of five, to all new workers", found, 2)


ROWS = {"launch": launch, "first_line": first_line, "recovery": recovery,
        "pytorch_restart": pytorch_restart, "meeting": meeting, "footprint": footprint,
        "store_load": store_load, "pytorch_store": pytorch_store, "one_client": one_client, "rendezvous": rendezvous,
        "scale": scale,
        "restart": restart, "starts": starts, "slurm": slurm, "kill": kill, "cut": cut, "host": host, **trainer_rows.ROWS}


def rows(report):
    """Of all steps that were asked for, in the order of ROWS."""
    for step, make in ROWS.items():
        if step in report["asked"]:
            yield from make(report["found"].get(step, {}))


def table(report):
    about = report["about"]
    other = {"launchers": "torchrun", "trainers": "PyTorch"}[about["table"]]
    lines = [f"| | {about['ddprun']} | {about['torchrun'] or other} | ratio | target |",
             "|---|---:|---:|---:|---:|"]
    return "\n".join(lines + [row.line() for row in rows(report)])


def measured(report):
    """"2026-11-25, but slurm on 2026-11-27 with a load average of 2.5 before": each run of scripts/bench
    that the figures come from, the one with most steps first."""
    runs = {}
    for step in report["found"]:
        day, load = report["when"][step]
        busy = f" with a load average of {load:.1f} before" if load >= 0.5 else ""
        runs.setdefault(day + busy, []).append(step)
    first, *others = sorted(runs, key=lambda run: (-len(runs[run]), run)) or ["no day"]
    apart = [f"{' and '.join(runs[run])} on {run}" for run in others]
    return first + (", but " + ", ".join(apart) if apart else "")


def block(report):
    """What README.md has between the two lines of its table."""
    about = report["about"]
    told = [f"{about['machine']}; Python {about['python']}. Measured on {measured(report)}.",
            "Each figure: the median (n=number of runs, range of the middle half of them)."]
    told += ["", table(report)]
    for what, text in (("left_out", "Left out"), ("failed", "Failed")):
        if report[what]:
            told += ["", f"{text}: " + "; ".join(
                f"{step} ({why[:200]})" for step, why in report[what].items()) + "."]
    return "\n".join(told)


def replace_block(text, report):
    """README's text with the block of this report. ValueError without the two lines."""
    begin, end = BLOCKS[report["about"]["table"]]
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"there must be one line {begin} and after it one line {end}")
    before, after = text.split(begin)[0], text.split(end)[1]
    return f"{before}{begin}\n{block(report)}\n{end}{after}"


# ---- floors --------------------------------------------------------------------------------------


def check(report):
    """What scripts/bench --check prints, and whether every floor is held; without torchrun, each of those
    that do not compare with it."""
    lines, held, alone = [], True, report["about"]["torchrun"] is None
    for row in rows(report):
        for floor in row.floors:
            met = None if alone and floor.beside else floor.met(row)
            held = held and (met is True or alone and floor.beside)
            value = row.line().split(" | ")[1:4]
            verdict = {True: "held", False: "BROKEN", None: "NOT MEASURED"}[met]
            lines.append(f"{verdict}: {row.what}: {value[0]} beside {value[1]}, {value[2]}; "
                         f"floor {floor.text}")
    return "\n".join(lines), held
