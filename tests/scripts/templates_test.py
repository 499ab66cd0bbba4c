"""The job templates, and README.md's line for Slurm, give ddprun the command line that they promise: each
runs with stand-ins for its scheduler's commands, which note how ddprun would be started on each node.
Then the built ddprun runs what they noted. (The manifests for Kubernetes: tests/scheduler.)
Usage: templates_test.py [DDPRUN]; without it, what was noted is not run."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from free_port import free_port  # noqa: E402

TEMPLATES = ROOT / "scripts" / "templates"
STAND_INS = {
    # With what it would read of PBS.
    "ddprun": 'echo "$@" ${PBS_NODEFILE:+of $(paste -sd, "$PBS_NODEFILE")} >>"$NOTES"',
    # Slurm
    "srun": 'echo "$@" >"$NOTES.srun"; while case $1 in -*) true ;; *) false ;; esac; do shift; done; "$@" && "$@"',
    # PBS: pbsdsh -n INDEX -- PROGRAM ARGUMENT...
    "pbsdsh": '[ "$1" = -n ] && [ "$3" = -- ] && shift 3 && exec "$@"',
}


NOTED = {}  # (command line of ddprun, template): each once, in their order


def run(script, folder, arguments=(), **variables):
    """The exit code, and the command lines that ddprun got."""
    notes = folder / "notes"
    notes.write_text("")
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "NOTES": str(notes), **variables}
    done = subprocess.run([shutil.which("bash"), script, *arguments], env=environment, cwd=folder,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
    return done.returncode, notes.read_text().splitlines(), done.stderr


def expect(name, got, code, count, pattern):
    returned, lines, errors = got
    NOTED.update(dict.fromkeys((line, name) for line in lines))
    if returned != code or len(lines) != count or not all(re.fullmatch(pattern, l) for l in lines):
        print(f"{name}: exit code {returned}, wanted {code}; wanted {count} times `{pattern}`, got:",
              *lines, errors, sep="\n  ")
        return 1
    return 0


def replay(ddprun, name, line):
    """What was noted, on this machine alone, with `true` for a program: no option of it is refused. What
    it takes from a scheduler on several nodes: tests/scheduler."""
    alone = {"--nnodes": "1", "--nproc-per-node": "1", "--rdzv-endpoint": f"127.0.0.1:{free_port()}"}
    words = re.sub(r"\btrain linear .*", "true", line)
    for option, value in alone.items():
        words, count = re.subn(rf"(?<!\S){option}([= ])\S+", rf"{option}\g<1>{value}", words)
        if count > 1:
            print(f"{name}: {count} times {option} in `{line}`")
            return 1
    done = subprocess.run([ddprun, *words.split()], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    if done.returncode == 0 and words.split()[-1] == "true":
        return 0
    print(f"{name}: ddprun {words}: exit code {done.returncode}\n{done.stderr}")
    return 1


def readme_line(folder):
    """README.md's command for Slurm, as a script."""
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```", (ROOT / "README.md").read_text())
    [block] = [block for block in blocks if block.startswith("srun ")]
    script = folder / "readme.sh"
    script.write_text(block)
    return script


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

        slurm = run(TEMPLATES / "slurm.sbatch", folder, SLURM_JOB_ID="123456", SLURM_SUBMIT_DIR=name)
        bad += expect("slurm", slurm, 0, 2, f"{train} --snapshot-path {name}/snapshot-123456")
        given = run(TEMPLATES / "slurm.sbatch", folder, SLURM_JOB_ID="1", SLURM_SUBMIT_DIR=name,
                    SLURM_CPUS_PER_TASK="16")
        asked = (folder / "notes.srun").read_text()
        bad += expect("slurm", given, 0, 2, f"{train} --snapshot-path {name}/snapshot-1")
        if " --cpus-per-task=16 ddprun " not in asked:
            print(f"slurm: the agents do not get their 16 processors: srun {asked}")
            bad += 1
        bad += expect("README.md", run(readme_line(folder), folder), 0, 2, "train linear 50 10")
        for job in ("15422", "15422[7]"):
            pbs = run(TEMPLATES / "pbs.pbs", folder, PBS_JOBID=f"{job}.login2", PBS_NODEFILE=f"{name}/nodes",
                      PBS_O_WORKDIR=name)
            bad += expect("pbs", pbs, 0, 2, f"{train} --snapshot-path {re.escape(name)}/snapshot-"
                          f"{re.escape(job)} of n1.site,n2.site")
        quoted = folder / "it's \"here\" $HOME"
        quoted.mkdir()
        pbs = run(TEMPLATES / "pbs.pbs", folder, PBS_JOBID="7.login2", PBS_NODEFILE=f"{name}/nodes",
                  PBS_O_WORKDIR=str(quoted))
        bad += expect("pbs", pbs, 0, 2, f"{train} --snapshot-path {re.escape(str(quoted))}/snapshot-7 "
                      "of n1.site,n2.site")
        (folder / "bin" / "ddprun").unlink()
        pbs = run(TEMPLATES / "pbs.pbs", folder, PBS_JOBID="8.login2", PBS_NODEFILE=f"{name}/nodes",
                  PBS_O_WORKDIR=name, PATH=f"{folder}/bin")
        bad += expect("pbs", pbs, 127, 0, "")
        if "ddprun is not on PATH" not in pbs[2]:
            print(f"pbs: it does not say that ddprun is missing: {pbs[2]}")
            bad += 1
    for line, name in NOTED if len(sys.argv) > 1 else ():
        bad += replay(sys.argv[1], name, line)
    return 1 if bad else 0


sys.exit(main())
