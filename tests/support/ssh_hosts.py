"""Hosts that are reached by ssh: network namespaces (namespaces.Nodes) with a real sshd in each, keys of the
test's own, and one file system. Only inside of namespaces (namespaces.inside()): names, ports and processes
are nobody else's, and end with this process, however it does."""
import os
import pathlib
import re
import shutil
import subprocess

import namespaces
import skip
from program import Program, wait_until

PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin"  # where sshd is, if not on PATH already
SERVER = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
PidFile none
PrintMotd no
LogLevel ERROR
"""
CLIENT = """
Host *
  User root
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  # The cheapest: this machine does all of it for both ends.
  KexAlgorithms curve25519-sha256
  LogLevel ERROR
"""


def missing():
    """What such hosts need and do not have here, as namespaces.missing()."""
    absent = [name for name in ("sshd", "ssh", "ssh-keygen") if not shutil.which(name, path=PATH)]
    if absent:
        return skip.SSH, f"no program {absent[0]}; scripts/setup --with-ssh installs OpenSSH's server"
    return namespaces.missing()


class SshHosts:
    """`count` hosts node0, node1, ... Those of `down` have no server: their port is closed. `hidden` has
    for a host the folder that is not there on it, while all others share it; nor is its parent's content."""

    def __init__(self, folder, count, down=(), hidden=None):
        self.folder = pathlib.Path(folder)
        self.nodes = namespaces.Nodes(count, self.folder)
        self.names = [f"node{n}" for n in range(count)]
        self.sshd = shutil.which("sshd", path=PATH)
        self._servers = {}
        self._runs = 0
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(
            f"{self.nodes.address(n)} {name}\n" for n, name in enumerate(self.names)))
        # A login whose home and shell have no settings: those of this machine's root may take a second.
        passwd = self.folder / "passwd"
        passwd.write_text(re.sub(r"(?m)^root:.*$", f"root:x:0:0:root:{self.folder}/home:/bin/sh",
                                 pathlib.Path("/etc/passwd").read_text()))
        (self.folder / "home").mkdir()
        for file in (hosts, passwd):
            subprocess.run(["mount", "--bind", file, f"/etc/{file.name}"], check=True)
        os.makedirs("/run/sshd", exist_ok=True)
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        words = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text("".join(
            f"{name},{self.nodes.address(n)} {' '.join(words)}\n" for n, name in enumerate(self.names)))
        (self.folder / "sshd_config").write_text(SERVER.format(folder=self.folder))
        (self.folder / "ssh_config").write_text(CLIENT.format(folder=self.folder))
        self.ssh = f"ssh -F {self.folder}/ssh_config"
        for node in range(count):
            if node not in down:
                self._start_server(node, (hidden or {}).get(node))
        wait_until(lambda: all(self._listens(server.pid) for server in self._servers.values()),
                   "every sshd listens", 60)

    def _start_server(self, node, hidden):
        server = [self.sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        if hidden:
            hidden.mkdir(parents=True)
            server = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden.parent),
                      *server]
        with open(self.folder / "sshd.err", "ab") as err:
            self._servers[node] = self.nodes.start(node, server, {}, err, err)

    @staticmethod
    def _listens(pid):
        """At port 22 of its own network."""
        table = pathlib.Path(f"/proc/{pid}/net/tcp").read_text()
        return any(line.split()[1].endswith(":0016") and line.split()[3] == "0A"
                   for line in table.splitlines()[1:])

    def start(self, *command, node=0, env=None, folder=None, out=None):
        """A command of a user on that host, in `folder`, with `out` (a descriptor) as its stdout; returns
        its Program."""
        self._runs += 1
        return OnNode(self, node, f"run{self._runs}", ["env", "-C", folder or self.folder, *command], env or {}, out)

    def left(self, *besides):
        """{pid: command line} of all that runs on any host, but for the servers and what `besides` names."""
        found = {}
        servers = {server.pid for server in self._servers.values()}
        for pid in self.nodes.processes():
            line = command_line(pid)
            if pid not in servers and line and not any(name in line for name in besides):
                found[pid] = line
        return found

    def close(self):
        for server in self._servers.values():
            server.kill()
            server.wait()
        subprocess.run(["umount", "/etc/hosts", "/etc/passwd"], check=False)
        self.nodes.close()


class OnNode(Program):
    def __init__(self, hosts, node, name, command, env, out):  # pylint: disable=super-init-not-called
        self.command = [str(word) for word in command]
        self._out, self._err = hosts.folder / f"{name}.out", hosts.folder / f"{name}.err"
        with open(self._out, "wb") as to_file, open(self._err, "wb") as err:
            self.process = hosts.nodes.start(node, self.command, env, out or to_file, err)
        self.pid = self.process.pid

    @property
    def out_bytes(self):
        return self._out.read_bytes()


def command_line(pid):
    try:
        line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return line.replace(b"\0", b" ").decode(errors="replace").strip()
