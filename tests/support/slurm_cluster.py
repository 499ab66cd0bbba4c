"""A real Slurm: one munged, one slurmctld and several slurmd of this machine, each slurmd a node of its own
name and address. All of it lives in namespaces of this process (namespaces.inside()): its ports and host
names are nobody else's, and all its processes end with this one, however it does."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

import namespaces
import skip
from named_hosts import NamedHosts
from program import Program, parent_of, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue", "sinfo")
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin"  # where the daemons are, if not on PATH already
ASK_S = 0.1  # between two questions to Slurm, each of which is a process
HEAD = "head"  # the host that all the nodes are on
# Without proctrack/cgroup and task plugins nothing of the machine's control groups is touched. A job is
# scheduled as it comes, and what ignores SIGTERM is killed two seconds later.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={head}(127.0.0.1)
SlurmctldPort=26817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
GresTypes=gpu
{nodes}
{partitions}
"""


def missing():
    """What such a cluster needs and does not have here, as namespaces.missing()."""
    absent = [program for program in PROGRAMS if not shutil.which(program, path=PATH)]
    if absent:
        return skip.SLURM, f"no program {absent[0]}; scripts/setup --with-slurm installs Slurm"
    return namespaces.missing()


class SlurmCluster:
    """`count` idle nodes n1, n2, ... with four CPUs and no GPU each; in the partition `gpu` further ones, g1,
    g2, ..., with two. (They are device files that any machine has.)"""

    def __init__(self, folder, count=4, gpus=1):
        self.folder = pathlib.Path(folder)
        self.nodes = [f"n{i + 1}" for i in range(count)] + [f"g{i + 1}" for i in range(gpus)]
        self._daemons = {}
        os.environ["PATH"] += ":/usr/sbin"
        self._runs = 0
        self._hosts = NamedHosts(self.folder, self.nodes, HEAD)
        self._configure()
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = [f"--{name}-file={self.folder / 'munge'}.{name}" for name in ("log", "pid", "seed")]
        # As root, and in a folder that is not its own: --force has it warn only.
        self._start("munged", "munged", "--foreground", "--force", f"--key-file={key}", *files,
                    f"--socket={self.folder / 'munge.socket'}")
        wait_until((self.folder / "munge.socket").exists, "munged listens", 30)
        self._start("slurmctld", "slurmctld", "-D", "-c")
        for node in self.nodes:
            self.start_node(node)
        self.wait_for_state({"idle"}, self.nodes)

    def _configure(self):
        lines = [f"NodeName={node} NodeHostname={HEAD} NodeAddr={self._hosts.address(node)} Port={27001 + i} "
                 f"CPUs=4 State=UNKNOWN{' Gres=gpu:2' if node[0] == 'g' else ''}"
                 for i, node in enumerate(self.nodes)]
        named = {"all": [n for n in self.nodes if n[0] == "n"], "gpu": [n for n in self.nodes if n[0] == "g"]}
        partitions = [f"PartitionName={name} Nodes={','.join(nodes)} Default={'YES' if name == 'all' else 'NO'}"
                      " State=UP OverSubscribe=YES" for name, nodes in named.items() if nodes]
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(head=HEAD, folder=self.folder, nodes="\n".join(lines),
                                 partitions="\n".join(partitions)))
        (self.folder / "gres.conf").write_text("".join(
            f"NodeName={node} Name=gpu File={device}\n"
            for node in self.nodes if node[0] == "g" for device in ("/dev/null", "/dev/zero")))
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")

    def _start(self, name, *command):
        with open(self.folder / "daemons.err", "ab") as err:
            self._daemons[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=err, stderr=err)

    def start_node(self, node):
        self._start(node, "slurmd", "-D", "-N", node)

    # ---- what a user does ----------------------------------------------------------------------

    def start(self, *command, env=None, cwd=None):
        """A command of Slurm's, such as srun; returns its Program."""
        self._runs += 1
        return Program(self.folder, f"run{self._runs}", command, env=dict(os.environ, **(env or {})),
                       cwd=cwd or self.folder)

    def run(self, *command, code=0):
        """To its end; its stdout."""
        program = self.start(*command)
        if program.wait(30) != code:
            raise AssertionError(str(program))
        return program.out

    def submit(self, script, *options):
        """Gives the text of a job script to sbatch; the job's number."""
        path = self.folder / f"job{self._runs}.sh"
        path.write_text("#!/bin/bash\n" + script)
        return self.run("sbatch", "--parsable", *options, path).strip()

    def state_of(self, job):
        """RUNNING, COMPLETED, ..."""
        return self.field(job, "JobState")

    def field(self, job, name):
        words = self.run("scontrol", "show", "job", job).split()
        return next((word.split("=", 1)[1] for word in words if word.startswith(name + "=")), None)

    def wait_for_job(self, job, *states, seconds=60):
        wait_until(lambda: self.state_of(job) in states,
                   lambda: f"job {job} is {states}, but {self.state_of(job)}", seconds, every=ASK_S)

    def start_requeued(self, job):
        """In seconds, and not in two minutes, but once its first run has ended everywhere: Slurm would take the
        end of that one for the end of the next."""
        wait_until(lambda: self.state_of(job) == "PENDING" and not self.daemons_of(job),
                   f"nothing of job {job} is left", 30, every=ASK_S)
        self.wait_for_state({"idle"}, self.nodes)
        # Its nodes refuse what was granted in the very second in which they were told of the requeue.
        self.run("scontrol", "update", f"jobid={job}", "starttime=now+3seconds")
        def now():
            output = pathlib.Path(self.field(job, "StdOut")).read_text()
            return f"job {job} runs again, but is {self.state_of(job)}:\n{output}"
        wait_until(lambda: self.state_of(job) == "RUNNING", now, 30, every=ASK_S)

    @staticmethod
    def daemons_of(job):
        """Of its steps and its script, by their titles."""
        return [entry for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                if title_of(entry).startswith(f"slurmstepd: [{job}.")]

    def wait_for_state(self, states, nodes, seconds=30):
        """Until each of the nodes is in one of these states of sinfo."""
        def now():
            lines = self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
            return dict(line.split() for line in lines)
        wait_until(lambda: {now().get(node) for node in nodes} <= states,
                   lambda: f"{nodes} are {states}, but {now()}", seconds, every=ASK_S)

    # ---- faults ---------------------------------------------------------------------------------

    @staticmethod
    def processes(**variables):
        """{pid: its command} of all that was started with these variables."""
        wanted = {f"{name}={value}".encode() for name, value in variables.items()}
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    if namespaces.state_of(int(entry.name)) not in "ZX":
                        found[int(entry.name)] = command
            except OSError:
                continue
        return found

    def power_off(self, node):
        """All that runs on the node, its daemons first, as if its power failed; Slurm is told."""
        self._daemons[node].kill()
        self._daemons.pop(node).wait()
        tasks = self.processes(SLURMD_NODENAME=node)
        # The daemon of a step is what its tasks' ancestors are, up to what this process has started.
        for pid in list(tasks):
            while (pid := parent_of(pid)) > 1 and pid != os.getpid():
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "slurmstepd":
                    tasks[pid] = "slurmstepd"
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in tasks:
                with contextlib.suppress(ProcessLookupError):  # it has died with its parent
                    os.kill(pid, number)
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=power")

    def power_on(self, node):
        self.start_node(node)
        self.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.wait_for_state({"idle"}, [node])

    def end_jobs(self):
        """All of them, and at once."""
        for job in self.run("squeue", "-h", "-o", "%i").split():
            subprocess.run(["scancel", "--signal=KILL", "--full", job], check=False, capture_output=True,
                           timeout=30)
            subprocess.run(["scancel", job], check=False, capture_output=True, timeout=30)
        wait_until(lambda: not self.run("squeue", "-h", "-o", "%i"), "all jobs have ended", 30, every=ASK_S)

    def close(self):
        """The daemons, those first that ask others for something. What is left ends with this process."""
        self.end_jobs()
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            daemon.wait(30)


def title_of(path):
    """Of a process in /proc, by its cmdline; empty where it is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
