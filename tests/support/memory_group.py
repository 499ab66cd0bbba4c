"""A control group with a memory limit, of cgroup v2 or v1, whichever has the memory controller here."""
import os
import pathlib
import re

from program import wait_until

V1_FILES = {"limit": "memory.limit_in_bytes", "kills": "memory.oom_control"}
V2_FILES = {"limit": "memory.max", "kills": "memory.events"}


def mounts():
    """(file system type, mount point, options) of each mount."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        yield kind, pathlib.Path(left.split()[4]), options.split(",")


class MemoryGroup:
    """`why_not` says why there is none; empty when there is one."""

    def __init__(self, limit_bytes):
        self.path, self.why_not = None, "no cgroup file system with a memory controller is mounted"
        for kind, point, options in mounts():
            if kind == "cgroup2" and "memory" in (point / "cgroup.controllers").read_text().split():
                self._make(point, V2_FILES, limit_bytes)
            elif kind == "cgroup" and "memory" in options:
                self._make(point, V1_FILES, limit_bytes)
            if self.path:
                return

    def _make(self, point, files, limit_bytes):
        path = point / f"ddprun-test-{os.getpid()}"
        try:
            if files is V2_FILES:  # a group has the controllers that the one above it hands down
                (point / "cgroup.subtree_control").write_text("+memory")
            path.mkdir()
        except OSError as error:
            self.why_not = f"no control group can be made: {error}"
            return
        self.path, self._files = path, files
        try:
            (path / files["limit"]).write_text(str(limit_bytes))
            if files is V2_FILES and (path / "memory.swap.max").exists():
                (path / "memory.swap.max").write_text("0")
            self.why_not = ""
        except OSError as error:
            self.why_not = f"no memory limit can be set: {error}"
            self.remove()

    def command(self, *words):
        """Runs `words` in the group."""
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', self.path / "cgroup.procs", *words]

    def kills(self):
        """How many processes of the group the kernel has killed for want of memory."""
        return int(re.search(r"(?m)^oom_kill (\d+)", (self.path / self._files["kills"]).read_text())[1])

    def remove(self):
        def removed():
            try:
                self.path.rmdir()
                return True
            except OSError:
                return False
        wait_until(removed, "the control group is empty", seconds=10)
        self.path = None
