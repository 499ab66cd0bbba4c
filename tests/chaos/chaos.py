"""chaos [--faults N] [--seed S] [--elastic] [--build-dir DIR]: faults at random on four nodes (network
namespaces), one after the other, under a training job that keeps accounts. Passes when each job ends,
every epoch that any node completed ended in the weights of an undisturbed run, bit for bit, and had
each sample once, no process is left over, and the job recovered from each fault within its bound.
  --faults N       how many (default 30)
  --seed S         of the schedule (default: a new one, which is printed)
  --elastic        --nnodes 2:4; without it 4, always. The weights depend on who was there then, the
                   account of samples does not
  --only KIND,...  only these kinds
  --per-job N      faults per job (default 10)
  --slack S        seconds that the bounds grant to the machine (default 2)
  --timeouts N     the job's heartbeat and hang timeouts, in seconds and two seconds (default 1)
  --build-dir DIR  what is built there; otherwise builds the release preset first
  --list           the table of faults, and which this ddprun cannot stand yet
  --keep           keep the logs of a run that passes, too
"""
import argparse
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults  # noqa: E402
import inject  # noqa: E402
import job as job_module  # noqa: E402
import nodes as nodes_module  # noqa: E402
import verdict  # noqa: E402


SKIPPED = 77  # for ctest


def options():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--per-job", type=int, default=10)
    parser.add_argument("--slack", type=float, default=faults.Setup.slack_s)
    parser.add_argument("--timeouts", type=int, default=1)
    parser.add_argument("--build-dir", type=pathlib.Path, required=True)
    for flag in ("--elastic", "--list", "--keep", "--skip-code"):
        parser.add_argument(flag, action="store_true")
    asked = parser.parse_args()
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
    programs = {name: str(path) for name, path in programs.items()}
    programs["help"] = subprocess.run([programs["ddprun"], "--help"], check=True, text=True,
                                      capture_output=True, timeout=60).stdout
    return programs


def one_job(setup, programs, schedule, folder):
    """Runs it through its faults. Returns (epochs, nodes' records, [(kind, what was measured)])."""
    folder.mkdir()
    only_host = "--witness" not in programs["help"]
    nodes = nodes_module.Nodes(setup.nodes, folder)
    measured = []
    fault = None
    try:
        job = job_module.Job(setup, nodes, programs, folder, only_host)
        job.start_all()
        job.until(lambda: job.attempt() is not None, 4 * setup.slack_s, "the job begins")
        for fault in schedule:
            job.pause(fault.after_s)
            found = inject.run(job, fault)
            measured.append((fault.kind.name, found))
            say(f"  {fault.text()}: " + ", ".join(
                f"{what} in {took:.2f} s" for what, (took, _) in found.items()))
        fault = None
        if wrong := job.finish(4 * setup.slack_s):
            raise job_module.Broken(wrong)
        return job.state[0].ended, job.state, measured
    except job_module.Broken as broken:
        during = f"during {fault.text()}" if fault else (
            "at the end of a job" if measured else "before the first fault")
        raise job_module.Broken(f"{during}: {broken}; logs: {folder}") from None
    finally:
        nodes.close()


def run(asked, programs, setup, folder):
    kinds, left_out = faults.split(programs["help"], asked.only)
    for kind, why in left_out:
        say(f"  not drawn: {kind.name} ({kind.does}): {why}")
    if not kinds:
        raise job_module.Broken("no kind is left to draw from")
    schedule = faults.draw(kinds, asked.faults, asked.seed, setup,
                           "--witness" not in programs["help"])
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


def report(done, measured):
    worst = {}
    for kind, found in measured:
        for what, (took, bound) in found.items():
            worst.setdefault((kind, what), []).append((took, bound))
    say(f"{'fault':<20} {'':<10} times   median    worst    bound (s)")
    for (kind, what), all_times in sorted(worst.items()):
        times = [took for took, _ in all_times]
        say(f"{kind:<20} {what:<10} {len(times):5} {statistics.median(times):8.2f} "
            f"{max(times):8.2f} {all_times[0][1]:8.2f}")
    epochs = sum(len(node.epochs) for _, state in done for node in state)
    say(f"{len(done)} jobs, {sum(end for end, _ in done)} epochs, checked {epochs} times")


def main():
    asked = options()
    programs = find_programs(asked.build_dir)
    if asked.list:
        for kind in faults.KINDS:
            say(f"{kind.name:<20} {kind.does}; healed by: {kind.heals}; "
                f"bound {faults.bound_s(kind, faults.Setup()):.1f} s")
        for kind, why in faults.split(programs["help"])[1]:
            say(f"not drawn: {kind.name}: {why}")
        return 0
    if nodes_module.INSIDE not in nodes_module.os.environ:
        if why := nodes_module.unavailable():
            say(f"chaos: skipped: {why}")
            return SKIPPED if asked.skip_code else 1
        if "--seed" not in sys.argv:
            sys.argv += ["--seed", str(asked.seed)]
        nodes_module.inside()
    setup = faults.Setup.of(asked.timeouts, elastic=asked.elastic, slack_s=asked.slack)
    name = "elastic, 2 to 4 nodes" if asked.elastic else "4 nodes"
    again = f"scripts/chaos --faults {asked.faults} --seed {asked.seed}" + (
        " --elastic" if asked.elastic else "") + (
        f" --only {','.join(asked.only)}" if asked.only else "") + (
        f" --per-job {asked.per_job}" if asked.per_job != 10 else "") + (
        f" --timeouts {asked.timeouts}" if asked.timeouts != 1 else "")
    say(f"chaos: {asked.faults} faults, seed {asked.seed}, {name}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-chaos-"))
    begin = time.monotonic()
    try:
        done, measured = run(asked, programs, setup, folder)
    except job_module.Broken as broken:
        say(f"chaos: FAILED after {time.monotonic() - begin:.0f} s: {broken}")
        say(f"chaos: again: {again}")
        return 1
    report(done, measured)
    say(f"chaos: {asked.faults} faults passed in {time.monotonic() - begin:.0f} s")
    if asked.keep:
        say(f"chaos: logs: {folder}")
    else:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
