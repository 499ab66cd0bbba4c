"""Hosts of several names that are all this machine. Only inside of namespaces (namespaces.inside()): a bridge
has their addresses, and the names are known to this process and its children alone."""
import subprocess

import namespaces


class NamedHosts:
    """`names` as /etc/hosts has them: "n1", or "pod-1.service.site pod-1" with its short name. `own` is the
    name of this machine itself."""

    def __init__(self, folder, names, own):
        self._names = [name.split()[0] for name in names]
        subprocess.run(["hostname", own], check=True)
        namespaces.ip("link add name bridge0 type bridge", "link set bridge0 up",
                      *(f"addr add {self.address(name)}/24 dev bridge0" for name in self._names))
        hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {own}\n" + "".join(
            f"{self.address(name.split()[0])} {name}\n" for name in names))
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)

    def address(self, name):
        return f"10.77.0.{self._names.index(name) + 1}"
