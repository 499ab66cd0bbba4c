"""chaos [--faults N] [--seed S] [--elastic] [--build-dir DIR]: faults at random on four nodes (network
namespaces), one after the other, under a training job that keeps accounts. Passes when each job ends,
every epoch that any node completed ended in the weights of an undisturbed run, bit for bit, and had
each sample once, no process is left over, and the job recovered from each fault within its bound, and
from half of each kind's faults within the usual time and the slack.
  --faults N       how many (default 30)
  --seed S         of the schedule (default: a new one, which is printed)
  --elastic        --nnodes 2:4; without it 4, always. The weights depend on who was there then, the
                   account of samples does not
  --endpoints N    in --rdzv-endpoint, 1 to 4 (default 3)
  --only KIND,...  only these kinds
  --per-job N      faults per job (default 10)
  --slack S        seconds that each bound grants to the machine (default 1.5)
  --factor F       how many times as slow as a release build the programs are (default 1)
  --timeouts N     the job's heartbeat and hang timeouts, in seconds and two seconds (default 1)
  --build-dir DIR  what is built there; otherwise builds the release preset first
  --list           the table of faults
  --keep           keep the logs of a run that passes, too
"""
import argparse
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import faults  # noqa: E402
import inject  # noqa: E402
import job as job_module  # noqa: E402
import namespaces  # noqa: E402
import skip  # noqa: E402
import verdict  # noqa: E402

ENOUGH = 5  # faults of a kind, for their median to mean something


def add_common(parser):
    """What stories with names (scenario.py) take, too."""
    parser.add_argument("--build-dir", type=pathlib.Path, required=True)
    parser.add_argument("--slack", type=float, default=faults.Setup.slack_s)
    parser.add_argument("--factor", type=float, default=faults.Setup.factor)
    parser.add_argument("--timeouts", type=int, default=1)


def options(argv=None):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--per-job", type=int, default=10)
    parser.add_argument("--endpoints", type=int, choices=range(1, 5),
                        default=faults.Setup.endpoints)
    add_common(parser)
    for flag in ("--elastic", "--list", "--keep"):
        parser.add_argument(flag, action="store_true")
    asked = parser.parse_args(argv)
    asked.only = tuple(name for name in asked.only.split(",") if name)
    for name in asked.only:
        if name not in faults.BY_NAME:
            parser.error(f"--only {name}: no such kind; --list has them")
    if asked.seed is None:
        asked.seed = random.SystemRandom().randrange(10**6)
    return asked


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def find_programs(build_dir):
    build_dir = build_dir.resolve()
    programs = {"ddprun": build_dir / "bin" / "ddprun",
                "chaos_worker": build_dir / "tests" / "chaos_worker",
                "wall_clock": build_dir / "tests" / "wall_clock.so"}
    for path in programs.values():
        if not path.exists():
            sys.exit(f"chaos: {path} is not built; run scripts/build")
    return {name: str(path) for name, path in programs.items()}


def one_job(setup, programs, schedule, folder):
    """Runs it through its faults. Returns (epochs, nodes' records, [(kind, what was measured)])."""
    folder.mkdir()
    nodes = namespaces.Nodes(setup.nodes, folder)
    measured = []
    fault = None
    try:
        job = job_module.Job(setup, nodes, programs, folder)
        job.start_all()
        took = job.until(lambda: job.attempt() is not None, setup.bound_s(faults.BEGINS),
                         "the job begins")
        measured.append(("a job", {"begins": (took, faults.BEGINS)}))
        for fault in schedule:
            job.pause(fault.after_s)
            found = inject.run(job, fault)
            measured.append((fault.kind.name, found))
            say(f"  {fault.text()}: " + ", ".join(
                f"{what} in {took:.2f} s" for what, (took, _) in found.items()))
        fault = None
        begin = time.monotonic()
        if wrong := job.finish(setup.bound_s(faults.ENDS)):
            raise job_module.Broken(wrong)
        measured.append(("a job", {"ends": (time.monotonic() - begin, faults.ENDS)}))
        return job.state[0].ended, job.state, measured
    except job_module.Broken as broken:
        during = f"during {fault.text()}" if fault else (
            "at the end of a job" if measured else "before the first fault")
        raise job_module.Broken(f"{during}: {broken}; logs: {folder}") from None
    finally:
        nodes.close()


def run(asked, programs, setup, folder):
    kinds = [kind for kind in faults.KINDS if not asked.only or kind.name in asked.only]
    schedule = faults.draw(kinds, asked.faults, asked.seed, setup)
    done, measured = [], []
    for first in range(0, len(schedule), asked.per_job):
        epochs, state, found = one_job(setup, programs,
                                       schedule[first:first + asked.per_job],
                                       folder / f"job{first // asked.per_job}")
        done.append((epochs, state))
        measured += found
    if not setup.elastic:
        furthest = max(epoch for _, state in done for n in state for epoch, _, _ in n.epochs)
        (folder / "calm").mkdir()
        calm = job_module.calm_weights(programs, setup, furthest, folder / "calm")
        for _, state in done:
            if wrong := verdict.wrong_weights(state, calm):
                raise job_module.Broken(f"{wrong}; logs: {folder}")
    return done, measured


def times_by_kind(measured):
    """{(kind, what, usual): [seconds]} of what one_job() measured."""
    times = {}
    for kind, found in measured:
        for what, (took, usual) in found.items():
            times.setdefault((kind, what, usual), []).append(took)
    return times


def slow(measured, setup):
    """The kinds that are usually late, though each of their faults was within its bound, as sentences."""
    found = []
    for (kind, what, usual), took in sorted(times_by_kind(measured).items()):
        median, bound = statistics.median(took), setup.median_bound_s(usual)
        if len(took) >= ENOUGH and median > bound:
            found.append(f"{kind}: half of {len(took)} took {median:.2f} s or longer ({what}); "
                         f"{setup.usual_s(usual):.2f} s is usual, {bound:.2f} s allowed")
    return found


def report(done, measured, setup):
    say(f"{'fault':<20} {'':<10} times   median    worst    bound (s)")
    for (kind, what, usual), took in sorted(times_by_kind(measured).items()):
        say(f"{kind:<20} {what:<10} {len(took):5} {statistics.median(took):8.2f} "
            f"{max(took):8.2f} {setup.bound_s(usual):8.2f}")
    epochs = sum(len(node.epochs) for _, state in done for node in state)
    say(f"{len(done)} jobs, {sum(end for end, _ in done)} epochs, checked {epochs} times")


def again(asked):
    """The command that does the same faults once more."""
    words = ["scripts/chaos", f"--faults {asked.faults}", f"--seed {asked.seed}"]
    words += ["--elastic"] * asked.elastic
    words += [f"--only {','.join(asked.only)}"] if asked.only else []
    for name, usual in (("endpoints", faults.Setup.endpoints), ("per_job", 10), ("timeouts", 1), ("slack", faults.Setup.slack_s),
                        ("factor", faults.Setup.factor)):
        if getattr(asked, name) != usual:
            words.append(f"--{name.replace('_', '-')} {getattr(asked, name):g}")
    return " ".join(words)


def main():
    asked = options()
    setup = faults.Setup.of(asked.timeouts, elastic=asked.elastic, slack_s=asked.slack,
                            factor=asked.factor, endpoints=asked.endpoints)
    if asked.list:
        for kind in faults.KINDS:
            say(f"{kind.name:<20} {kind.does}; healed by: {kind.heals}; "
                f"bound {setup.bound_s(kind.usual):.1f} s")
        return 0
    if missing := namespaces.missing():
        say("skipped: needs {}: {}".format(*missing))
        return skip.SKIPPED
    if "--seed" not in sys.argv:
        sys.argv += ["--seed", str(asked.seed)]
    namespaces.inside()
    programs = find_programs(asked.build_dir)
    say(f"chaos: {asked.faults} faults, seed {asked.seed}, "
        f"{'elastic, 2 to 4 nodes' if asked.elastic else '4 nodes'}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-chaos-"))
    begin = time.monotonic()
    try:
        done, measured = run(asked, programs, setup, folder)
    except job_module.Broken as broken:
        say(f"chaos: FAILED after {time.monotonic() - begin:.0f} s: {broken}")
        say(f"chaos: again: {again(asked)}")
        return 1
    report(done, measured, setup)
    if late := slow(measured, setup):
        say("\n".join(f"chaos: FAILED: {sentence}" for sentence in late))
        say(f"chaos: again: {again(asked)}; logs: {folder}")
        return 1
    say(f"chaos: {asked.faults} faults passed in {time.monotonic() - begin:.0f} s")
    if asked.keep:
        say(f"chaos: logs: {folder}")
    else:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
