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
    try:
        import yaml
    except ImportError:
        print("skipped kubernetes.yaml: this Python has no yaml")
    else:
        service, job = yaml.safe_load_all((TEMPLATES / "kubernetes.yaml").read_text())
        arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
        endpoint = f"{job['metadata']['name']}-0.{service['metadata']['name']}:29400"
        if f"--rdzv-endpoint={endpoint}" not in arguments or not all(
                isinstance(word, str) for word in arguments):
            bad += 1
            print(f"kubernetes: pod 0 is {endpoint}, but the arguments are {arguments}")
    return 1 if bad else 0


sys.exit(main())
