"""Nodes of one machine: network namespaces with an address and a disk each, joined by a bridge.
All of it lives in namespaces of this process (inside() makes them), so nothing of the machine's own
network, mounts or processes is touched, and nothing is left when this process ends, however it does.
"""
import contextlib
import ctypes
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import skip

INSIDE = "DDPRUN_TEST_INSIDE"
CLONE_NEWUTS, CLONE_NEWNET = 0x04000000, 0x40000000
PF_EXITING = 0x4  # include/linux/sched.h; in /proc/PID/stat since ever
NOWHERE = "02:00:00:00:00:99"  # nobody has this link address
LIBC = ctypes.CDLL(None, use_errno=True)
# The shell is the first process of the new namespace, and reaps what nobody else does.
UNSHARE = ["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child",
           "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"]


def missing():
    """What such nodes need and do not have here: (need, reason) as skip.need() takes them, or None."""
    if INSIDE in os.environ:
        return None
    if os.geteuid() != 0:
        return skip.ROOT, "network namespaces are made by root"
    try:
        probe = subprocess.run(UNSHARE + ["ip", "link", "add", "name", "bridge0", "type", "bridge"],
                               capture_output=True, text=True, timeout=30)
    except FileNotFoundError as unknown:
        return skip.NAMESPACES, f"no program {unknown.filename}"
    if probe.returncode:
        return skip.NAMESPACES, probe.stderr.strip() or f"ip ended with {probe.returncode}"
    return None


def inside():
    """Goes on with this very program in namespaces of its own; returns only there."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp(UNSHARE[0], UNSHARE + [sys.executable, "-B"] + sys.argv)
    ip("link set lo up")


def ip(*commands):
    """`ip` commands, one text each, in one go."""
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n",
                          capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise RuntimeError(f"ip {'; '.join(commands)}: {done.stderr.strip()}")


def in_node(node, *commands):
    done = subprocess.run(["ip", "-n", f"node{node}", "-batch", "-"], text=True, timeout=30,
                          input="\n".join(commands) + "\n", capture_output=True)
    if done.returncode:
        raise RuntimeError(f"ip -n node{node} {'; '.join(commands)}: {done.stderr.strip()}")


class Nodes:
    """`count` nodes; each has a folder below `folder` and in it a disk of its own."""

    def __init__(self, count, folder, disk_bytes=512 * 1024):
        self.count, self.folder, self.disk_bytes = count, pathlib.Path(folder), disk_bytes
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True) \
            if os.path.isdir("/run/netns") else self._make_netns_folder()
        ip("link add name bridge0 type bridge", "link set bridge0 up")
        for node in range(count):
            self._connect(node)
            self.disk(node).mkdir(parents=True)
            (self.folder / f"node{node}" / "tmp").mkdir()
            self._mount(node)

    @staticmethod
    def _make_netns_folder():
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        os.mkdir("/run/netns")

    def _mount(self, node):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.disk_bytes},nr_inodes=256", "disk",
                        str(self.disk(node))], check=True, timeout=30)

    def _connect(self, node):
        # A link address of its own for ever: the others remember it for many seconds.
        ip(f"netns add node{node}",
           f"link add name port{node} type veth peer name eth0 address 02:77:00:00:00:{node:02x} "
           f"netns node{node}",
           f"link set port{node} master bridge0 up")
        in_node(node, f"addr add {self.address(node)}/24 dev eth0", "link set eth0 up",
                "link set lo up")

    @staticmethod
    def address(node):
        return f"10.77.0.{node + 1}"

    def disk(self, node):
        return self.folder / f"node{node}" / "disk"

    # ---- the network ---------------------------------------------------------------------------

    def cut(self, node):
        """Off the bridge: lost in both directions, while the node's own link looks well."""
        ip(f"link set port{node} nomaster")

    def heal(self, node):
        ip(f"link set port{node} master bridge0")

    def power_off(self, node):
        """In silence: a machine that dies says nothing, not even for the sockets that it had."""
        ip(f"link del port{node}")
        self.kill_all(node)
        ip(f"netns del node{node}")

    def power_on(self, node):
        self._connect(node)

    def _others(self, node):
        return [other for other in range(self.count) if other != node]

    def mute(self, node):
        """What the node sends gets lost; it hears the others."""
        in_node(node, *(f"neigh replace {self.address(other)} lladdr {NOWHERE} dev eth0 "
                        "nud permanent" for other in self._others(node)))

    def unmute(self, node):
        in_node(node, *(f"neigh del {self.address(o)} dev eth0" for o in self._others(node)))

    def deafen(self, node):
        """What is sent to the node gets lost; the others hear it."""
        for other in self._others(node):
            in_node(other, f"neigh replace {self.address(node)} lladdr {NOWHERE} dev eth0 "
                           "nud permanent")

    def undeafen(self, node):
        for other in self._others(node):
            in_node(other, f"neigh del {self.address(node)} dev eth0")

    # ---- the disk ------------------------------------------------------------------------------

    def fill_disk(self, node):
        """Not a byte is free afterwards."""
        with open(self.disk(node) / "filler", "wb", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(64 * 1024))
            with contextlib.suppress(OSError):
                while True:
                    filler.write(b"\0")

    def fill_with_files(self, node):
        """Not a file can be made any more, nor a directory."""
        with contextlib.suppress(OSError):
            for number in range(100_000):
                (self.disk(node) / f"filler{number}").touch()

    def free_disk(self, node):
        for filler in self.disk(node).glob("filler*"):
            filler.unlink()

    def replace_disk(self, node):
        """An empty one. Nothing of the node may run."""
        deadline = time.monotonic() + 10
        # Of a process that was killed the main thread may be gone before those that it had.
        while (done := subprocess.run(["umount", str(self.disk(node))], capture_output=True,
                                      text=True, timeout=30)).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError(f"node{node}: {done.stderr.strip()}")
            time.sleep(0.002)
        self._mount(node)

    def newest_snapshot(self, node):
        found = [path for path in self.disk(node).glob("snapshot/*") if path.name.isdigit()]
        return max(found, default=None, key=lambda path: int(path.name))

    # ---- processes -----------------------------------------------------------------------------

    def start(self, node, argv, environment, out, err):
        """A program on the node, with the node's disk as its working directory."""
        namespace = os.open(f"/run/netns/node{node}", os.O_RDONLY)

        def move_in():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, most), most))  # as a login has it
            if LIBC.setns(namespace, CLONE_NEWNET) or LIBC.unshare(CLONE_NEWUTS):
                raise OSError(ctypes.get_errno(), "cannot enter the node")
            socket.sethostname(f"node{node}")

        environment = dict(os.environ, TMPDIR=str(self.folder / f"node{node}" / "tmp"),
                           **environment)
        try:
            return subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=err, cwd=self.disk(node), preexec_fn=move_in)
        finally:
            os.close(namespace)

    def processes(self, node=None):
        """{pid: node} of all that runs on any node (or on this one); zombies do not run."""
        mine = {}
        for n in range(self.count) if node is None else [node]:
            with contextlib.suppress(FileNotFoundError):  # it is off
                mine[os.stat(f"/run/netns/node{n}").st_ino] = n
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    where = mine.get(os.stat(f"/proc/{entry}/ns/net").st_ino)
                    if where is not None and state_of(int(entry)) not in "ZX":
                        found[int(entry)] = where
        return found

    def kill_all(self, node):
        """Everything on the node at once, until nothing is left of it."""
        deadline = time.monotonic() + 10
        while found := self.processes(node):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise RuntimeError(f"node{node}: {found} outlive SIGKILL")
            time.sleep(0.002)

    def close(self):
        """Ends and takes apart everything but the log files."""
        for node in range(self.count):
            self.kill_all(node)
            subprocess.run(["umount", "-l", str(self.disk(node))], check=False)
            subprocess.run(["ip", "link", "del", f"port{node}"], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", f"node{node}"], check=False, capture_output=True)
            shutil.rmtree(self.folder / f"node{node}" / "tmp", ignore_errors=True)
        ip("link del bridge0")
        subprocess.run(["umount", "-l", "/run/netns"], check=False)


def state_of(pid):
    """The letter of /proc/PID/stat: R, S, D, T, Z; X when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return "X"


def runs(pid):
    """Whether any line of its program may still be executed: it is not gone, nor on its way out, nor
    is SIGKILL pending. On a busy machine a process that was killed takes milliseconds to be gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            pending = [int(line.split()[1], 16) for line in status
                       if line.startswith(("SigPnd:", "ShdPnd:"))]
    except (OSError, IndexError):
        return False
    killed = any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)
    return fields[0] not in "ZX" and not int(fields[6]) & PF_EXITING and not killed


def waited_s():
    """For how long this process was ready to run so far, and had no processor."""
    with open("/proc/self/schedstat", encoding="ascii") as stat:
        return int(stat.read().split()[1]) / 1e9


def children_of(pid):
    """Its live children."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
                found += map(int, children.read().split())
    return found
