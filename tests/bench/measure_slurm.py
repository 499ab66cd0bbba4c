"""What scripts/bench measures under Slurm: `srun ddprun` and `srun torchrun`, each a job of one worker on each
of four nodes of a Slurm of this machine's own (tests/support/slurm_cluster.py), and `srun true`, whose time
both pay. As a program, in namespaces of its own: measures one run of each name that it reads."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import measure  # noqa: E402
import namespaces  # noqa: E402
import slurm_cluster  # noqa: E402

NODES = 4
SRUN = ["srun", f"--nodes={NODES}", "--ntasks-per-node=1"]
CLUSTER_BOUND_S = 60
JOB_BOUND_S = 120  # the torchruns of all nodes import PyTorch at the same time
FIRST_NODE = "10.77.0.1"  # by named_hosts.py
# What srun starts on each node: the launcher, once it is written down that this node has begun. torchrun finds
# out by its host's name whether it hosts the endpoint, and all nodes here have the same: so it is told.
BEGIN = """
[ "$1" != torchrun ] || export PET_RDZV_CONF=is_host=$((SLURM_PROCID == 0))
shift
echo "${EPOCHREALTIME/[.,]/}" >>"$DDPRUN_BENCH_BEGUN"
exec "$@"
"""
missing = slurm_cluster.missing


def words(name, launcher, run):
    """torchrun is told what ddprun finds out by itself."""
    meeting = ["--nnodes", str(NODES), "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id",
               f"bench{run}", "--rdzv-endpoint", f"{FIRST_NODE}:{20000 + run}"]
    return ["bash", "-c", BEGIN, "bash", name, *launcher, *(meeting if name == "torchrun" else []), "--no-python"]


def moments(path):
    """Of CLOCK_MONOTONIC, in nanoseconds."""
    offset = time.time_ns() - time.monotonic_ns()
    return [int(us) * 1000 - offset for us in path.read_text().split()] if path.exists() else []


def one(cluster, name, launcher, stamp_worker, run):
    """total_s: from before srun to the first instruction of the first worker; of srun alone, to its end. beyond_s:
    to that instruction from the moment at which the last node has begun its launcher."""
    stamps, begun = cluster.folder / f"stamps{run}", cluster.folder / f"begun{run}"
    command = ["true"] if name == "srun" else [*words(name, launcher, run), stamp_worker]
    begin = time.monotonic_ns()
    srun = cluster.start(*SRUN, *command, env={"DDPRUN_BENCH_STAMPS": str(stamps), "DDPRUN_BENCH_BEGUN": str(begun)})
    try:
        if name == "srun":
            if srun.wait(JOB_BOUND_S):
                raise RuntimeError(str(srun))
            return {"total_s": (time.monotonic_ns() - begin) / 1e9}
        deadline = time.monotonic() + JOB_BOUND_S
        while len(workers := measure.read_stamps(stamps)) < NODES:
            if time.monotonic() > deadline or srun.process.poll() is not None:
                raise RuntimeError(f"{len(workers)} of {NODES} workers began: {srun}")
            time.sleep(0.005)
        first = min(ns for ns, _, _ in workers)
        return {"total_s": (first - begin) / 1e9, "beyond_s": (first - max(moments(begun))) / 1e9}
    finally:
        srun.end()
        cluster.end_jobs()


def starts(launchers, stamp_worker, runs, into):
    """{"srun", "ddprun", "torchrun": [what one() returns]}, in turns."""
    asked = json.dumps({"launchers": launchers, "stamp_worker": stamp_worker})
    program = subprocess.Popen([sys.executable, "-B", __file__, asked], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)

    def measure_one(name):
        program.stdin.write(name + "\n")
        program.stdin.flush()
        told = program.stdout.readline()
        if not told:
            raise RuntimeError("a job under Slurm did not begin; the reason is above")
        return json.loads(told)

    try:
        for name in runs:
            measure_one(name)  # warms the caches
        measure.by_turns(runs, measure_one, into)
    finally:
        program.stdin.close()
        try:
            program.wait(CLUSTER_BOUND_S)
        except subprocess.TimeoutExpired:
            program.kill()  # and with it all that is in its namespaces
            program.wait()


def main():
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-slurm-") as folder:
        cluster = slurm_cluster.SlurmCluster(pathlib.Path(folder), count=NODES, gpus=0)
        try:
            for run, line in enumerate(sys.stdin):
                name = line.strip()
                told = one(cluster, name, asked["launchers"].get(name), asked["stamp_worker"], run)
                print(json.dumps(told), flush=True)
        finally:
            cluster.close()


if __name__ == "__main__":
    namespaces.inside()
    main()
