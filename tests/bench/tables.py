"""The tables of scripts/bench, made from what it found. Times are kept in seconds, memory in MiB or
bytes; a ratio says how many times less ddprun needs."""
import measure_loss
import measure_python
import measure_rendezvous


def _less(ours, theirs):
    return f"{theirs / ours:,.0f}" if ours and theirs else "-"


def _ms(seconds):
    return f"{seconds * 1e3:,.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:,.1f} ms"


def plain(found, workers):
    """One row per figure, of those that were measured."""
    rows = []
    if "launch_s" in found:
        rows.append(("start and end of a job of two `/bin/true`", found["launch_s"], 1e3, "ms"))
    if "recovery" in found:
        rows.append(("SIGKILL of a worker to the first instruction of all new ones, two nodes",
                     {name: value["median_s"] for name, value in found["recovery"].items()}, 1e3,
                     "ms"))
    for what, key, unit in ((f"resident memory of the agent, {workers} workers", "rss_mib", "MiB"),
                            ("the same, shared pages counted once", "pss_mib", "MiB"),
                            ("processor time of the idle agent, per minute",
                             "idle_cpu_ms_per_minute", "ms")):
        if "footprint" in found:
            rows.append((what, {name: value[key] for name, value in found["footprint"].items()}, 1,
                         unit))
    if found.get("python"):
        rows += [(what, values, 1e3, "ms") for what, values in measure_python.rows(found["python"])]
    lines = ["| | ddprun | torchrun 2.13 | times less |", "|---|---:|---:|---:|"]
    for what, values, scale, unit in rows:
        cells = [f"{values[n] * scale:,.1f} {unit}" if n in values else "-"
                 for n in ("ddprun", "torchrun")]
        lines.append(f"| {what} | {cells[0]} | {cells[1]} | "
                     f"{_less(values.get('ddprun'), values.get('torchrun'))} |")
    lines += _stores(found, workers)
    return "\n".join(lines) if len(lines) > 2 else ""


def _stores(found, workers):
    lines = []
    if "meeting_s" in found:
        values = found["meeting_s"]
        lines.append(f"| `init_process_group` and a barrier, {workers} workers | "
                     + " | ".join(f"{values[n] * 1e3:,.0f} ms" for n in ("ddprun", "torchrun"))
                     + f" | {values['torchrun'] / values['ddprun']:,.1f} |")
    for clients, values in found.get("store_load", {}).items():
        cells = [f"{values[n]['ops_per_s']:,.0f}, p99 {values[n]['p99_ms']:,.1f} ms"
                 if n in values else "-" for n in ("ddprun", "torchrun")]
        ratio = (f"{values['ddprun']['ops_per_s'] / values['torchrun']['ops_per_s']:,.1f} (more)"
                 if "torchrun" in values else "-")
        first = [f"{values[n]['first_round_s'] * 1e3:,.0f} ms" if n in values else "-"
                 for n in ("ddprun", "torchrun")]
        lines.append(f"| {clients} clients have their first answer | {' | '.join(first)} | - |")
        lines.append(f"| set or get per second, {clients} clients | {' | '.join(cells)} | {ratio} |")
    if found.get("store"):
        lines.append(f"| set+get round trips of one store client, per second | "
                     f"{found['store']['store_ops_per_s']:,.0f} ({found['store']['ratio']:.0%} of "
                     f"a bare echo server) | - | - |")
    return lines


# ---- figures with a target -----------------------------------------------------------------------


def _row(what, target, ours, theirs="-", ratio="-"):
    return f"| {what} | {target} | {ours} | {theirs} | {ratio} |"


def _rendezvous(found):
    meetings, most = found["rendezvous"], max(found["rendezvous"])
    for agents, values in meetings.items():
        yield _row(f"{agents:,} simulated agents, from the first connect until all are assigned",
                   "2 s" if agents == 10_000 else "-",
                   f"{_ms(values['wall_s'])} ({values['coordinator_cpu_s'] / agents * 1e6:.0f} us of "
                   "the coordinator each)")
    if len(meetings) > 1:
        powers = [measure_rendezvous.exponent([(n, v[key]) for n, v in meetings.items()])
                  for key in ("wall_s", "coordinator_cpu_s")]
        yield _row("the power of the number of agents with which that grows", "1",
                   f"{powers[0]:.2f} (processor time: {powers[1]:.2f})")
    values = meetings[most]
    yield _row(f"memory of the coordinator for each of {most:,} agents", "8 KiB",
               f"{values['bytes_per_agent'] / 1024:.1f} KiB")
    yield _row(f"bytes told to each of {most:,} agents until it is assigned", "-",
               f"{values['told_bytes']:.0f} (a standby {values['told_bytes_most'] / 1e6:.1f} MB)")


def _restart(found):
    values = found["restart"]
    yield _row(f"restart of an unchanged world of {values['agents']:,} simulated agents, from the "
               "report of a failed worker to the last assignment", "100 ms",
               f"{_ms(values['wall_s'])} (processor time: coordinator "
               f"{_ms(values['coordinator_cpu_s'])}, agents {_ms(values['agents_cpu_s'])})")


def _start_text(seconds):
    return _ms(seconds) if seconds else f"not in {measure_rendezvous.START_BOUND_S} s"


def _starts(found):
    for agents, values in found["starts"].items():
        ours, theirs = values["ddprun"], values.get("torchrun")
        yield _row(f"{agents} real agents, from the first one's start to the last worker's first "
                   "instruction", "-", _ms(ours["total_s"]),
                   _start_text(theirs["total_s"]) if theirs else "-",
                   _less(ours["total_s"], theirs["total_s"]) if theirs else "-")
        if theirs:
            yield _row("the same, counted for torchrun from where all agents have imported PyTorch",
                       "-", _ms(ours["ready_s"]), _start_text(theirs["ready_s"]),
                       _less(ours["ready_s"], theirs["ready_s"]))


def _or_never(seconds):
    return _ms(seconds) if seconds else f"not in {measure_loss.BOUND_S} s"


def _kill(found):
    ours, theirs = found["kill"]["ddprun"], found["kill"].get("torchrun", {})
    yield _row("kill -9 of an agent in `--nnodes 1:2` to the survivor's new worker", "50 ms",
               f"{_ms(ours['median_s'])} (worst of {ours['runs']}: {_ms(ours['worst_s'])})",
               _or_never(theirs["alone_s"]) if theirs else "-",
               _less(ours["median_s"], theirs["alone_s"]) if theirs else "-")
    if theirs:
        yield _row("the same, with torchrun's surviving worker killed, too", "50 ms",
                   _ms(ours["median_s"]), _or_never(theirs["worker_fails_s"]),
                   _less(ours["median_s"], theirs["worker_fails_s"]))


def _silent(found, what, text, target):
    theirs = found[what].get("torchrun")
    for timeout, ours in found[what]["ddprun"].items():
        cells = ["-", "-"]
        if theirs:
            cells = [_or_never(theirs["went_on_s"]), _less(ours["median_s"], theirs["went_on_s"])]
            if not theirs["went_on_s"]:
                cells[0] = (f"not in {theirs['waited_s']:.0f} s, {theirs['agents_ended']} of "
                            f"{theirs['of']} agents ended")
        yield _row(text.format(timeout), target(float(timeout)),
                   f"{_ms(ours['median_s'])} (worst of {ours['runs']}: {_ms(ours['worst_s'])})",
                   *cells)


def with_targets(found):
    """Figures that have a bound, and what belongs to them."""
    rows = []
    for name, make in (("rendezvous", _rendezvous), ("restart", _restart), ("starts", _starts),
                       ("kill", _kill)):
        if name in found:
            rows += make(found)
    if "cut" in found:
        rows += _silent(found, "cut", "cut cable in `--nnodes 1:2` to the survivor's new worker, "
                        "heartbeat timeout {} s", lambda t: f"{t + 0.1:.1f} s")
    if "host" in found:
        rows += _silent(found, "host", "power loss of the coordinator's node, five nodes, to the "
                        "last new worker of the other four, heartbeat timeout {} s",
                        lambda t: f"{2 * t:.1f} s")
    head = ["| | target | ddprun | torchrun 2.13 | times less |", "|---|---:|---:|---:|---:|"]
    return "\n".join(head + rows) if rows else ""
