"""The job templates give ddprun the command line that they promise: each runs with stand-ins for
its scheduler's commands, which note how ddprun would be started on each node."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "templates"
STAND_INS = {
    "ddprun": 'echo "$@" >>"$NOTES"',
    # Slurm
    "scontrol": '[ "$*" = "show hostnames n[1-2]" ] && printf "n1\\nn2\\n"',
    "srun": 'while case $1 in -*) true ;; *) false ;; esac; do shift; done; "$@" && "$@"',
    # PBS: pbsdsh -n INDEX -- PROGRAM ARGUMENT...
    "pbsdsh": '[ "$1" = -n ] && [ "$3" = -- ] && shift 3 && exec "$@"',
    # ssh -tt -o OPTION HOST COMMAND...
    "ssh": 'shift 4; sh -c "$*"; exit "${SSH_EXIT-0}"',
}


def run(template, folder, arguments=(), **variables):
    """The exit code, and the command lines that ddprun got."""
    notes = folder / "notes"
    notes.write_text("")
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "NOTES": str(notes), **variables}
    done = subprocess.run(["bash", TEMPLATES / template, *arguments], env=environment, cwd=folder,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
    return done.returncode, notes.read_text().splitlines(), done.stderr


def expect(name, got, code, count, pattern):
    returned, lines, errors = got
    if returned != code or len(lines) != count or not all(re.fullmatch(pattern, l) for l in lines):
        print(f"{name}: exit code {returned}, wanted {code}; wanted {count} times `{pattern}`, got:",
              *lines, errors, sep="\n  ")
        return 1
    return 0


def expect_kubernetes(text):
    """Read as the few shapes of YAML that it is written in: what reads all of YAML is not everywhere."""
    service, job = text.split("\n---\n")
    name = lambda part: re.search(r"(?m)^metadata:\n  name: (\S+)$", part)[1]
    endpoint = f"{name(job)}-0.{name(service)}:29400"
    items = re.search(r"(?m)^          args:\n((?:            - .*\n)+)", job)[1]
    arguments = [line.strip().removeprefix("- ") for line in items.splitlines()]
    # Kubernetes takes texts alone: what YAML reads as a number, a truth value or a map is refused.
    other = [word for word in arguments if not re.fullmatch(r'"[^"]*"|-?-?[a-z][\w./=-]*(:\d+)?', word)
             or word in ("true", "false", "yes", "no", "on", "off", "null")]
    if f"--rdzv-endpoint={endpoint}" in arguments and not other:
        return 0
    print(f"kubernetes: pod 0 is {endpoint}, but the arguments are {arguments}; no texts: {other}")
    return 1


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        for program, body in STAND_INS.items():
            (folder / "bin" / program).write_text(f"#!/bin/sh\n{body}\n")
            (folder / "bin" / program).chmod(0o755)
        (folder / "nodes").write_text("n1.site\nn1.site\nn2.site\n")
        train = "--max-restarts 3 train linear 50 10"

        slurm = run("slurm.sbatch", folder, SLURM_JOB_NODELIST="n[1-2]", SLURM_JOB_ID="123456",
                    SLURM_JOB_NUM_NODES="2", SLURM_SUBMIT_DIR=name)
        bad += expect("slurm", slurm, 0, 2, "--nnodes 2 --nproc-per-node gpu --rdzv-id 123456 "
                      f"--rdzv-endpoint n1:23456 {train} --snapshot-path {name}/snapshot-123456")
        for job in ("15422.login2", "15422[].login2"):
            pbs = run("pbs.pbs", folder, PBS_JOBID=job, PBS_NODEFILE=f"{name}/nodes",
                      PBS_O_WORKDIR=name)
            bad += expect("pbs", pbs, 0, 2, "--nnodes 2 --nproc-per-node gpu --rdzv-id "
                          f"{re.escape(job)} --rdzv-endpoint n1.site:25422 {train} "
                          f"--snapshot-path {name}/snapshot-15422")
        ssh = run("ssh.sh", folder, ("n1", "n2"))
        bad += expect("ssh", ssh, 0, 2, r"--nnodes 2 --nproc-per-node gpu --rdzv-id \S+-\d+ "
                      f"--rdzv-endpoint n1:29400 {train}")
        bad += expect("ssh, failed", run("ssh.sh", folder, ("n1",), SSH_EXIT="1"), 1, 1, ".*")
        bad += expect("ssh, no host", run("ssh.sh", folder), 2, 0, "")
    bad += expect_kubernetes((TEMPLATES / "kubernetes.yaml").read_text())
    return 1 if bad else 0


sys.exit(main())
