"""Members of a real etcd on this machine, each with a folder of its own. Made and ended by the test."""
import json
import shutil
import signal
import urllib.error
import urllib.request

import skip
from free_port import free_port
from program import Program, wait_until

MISSING = None if shutil.which("etcd") else (skip.ETCD, "etcd is not installed (scripts/setup --with-etcd)")


class EtcdCluster:
    """With `authority`, clients have to speak TLS, and to show a certificate of it."""

    def __init__(self, folder, members=1, authority=None, names=("IP:127.0.0.1", "DNS:localhost")):
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._names = names
        self._scheme, self._tls, self._tls_options = "http", None, []
        if authority:
            self._scheme = "https"
            self.certify(authority)
        self.ports = [free_port() for _ in range(members)]
        self._peer_ports = [free_port() for _ in range(members)]
        self._programs = [None] * members
        for at in range(members):
            self.start(at)
        for at in range(members):
            wait_until(lambda: self.is_healthy(at), lambda: self._programs[at])

    def certify(self, authority):
        """By that authority, in the same files; members that are started from now on show it."""
        server = authority.issue(self._folder.name, *self._names)
        self._tls = authority.client(*server)
        self._tls_options = ["--cert-file", server[0], "--key-file", server[1], "--client-cert-auth",
                             "--trusted-ca-file", authority.certificate]

    @property
    def endpoints(self):
        return [f"127.0.0.1:{port}" for port in self.ports]

    def start(self, at, *options):
        """The member, with what it had stored when it was there before."""
        client, peer = f"{self._scheme}://{self.endpoints[at]}", f"http://127.0.0.1:{self._peer_ports[at]}"
        cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(self._peer_ports))
        self._programs[at] = Program(self._folder, f"etcd{at}", [
            "etcd", "--name", f"m{at}", "--data-dir", self._folder / f"m{at}.etcd", "--listen-client-urls", client,
            "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", cluster, *self._tls_options, *options])

    def kill(self, at):
        self._programs[at].process.send_signal(signal.SIGKILL)
        self._programs[at].process.wait()

    def end(self):
        for program in self._programs:
            program.process.kill()
            program.process.wait()

    def ask(self, path, question, at=0, token=None):
        request = urllib.request.Request(f"{self._scheme}://{self.endpoints[at]}{path}", json.dumps(question).encode(),
                                         {"Authorization": token} if token else {})
        with urllib.request.urlopen(request, timeout=10, context=self._tls) as answer:
            return json.load(answer)

    def is_healthy(self, at):
        try:
            with urllib.request.urlopen(f"{self._scheme}://{self.endpoints[at]}/health", timeout=5,
                                        context=self._tls) as answer:
                return json.load(answer)["health"] == "true"
        except (OSError, urllib.error.URLError):
            return False

    def keys(self):
        """How many there are."""
        everything = {"key": "AA==", "range_end": "AA==", "count_only": True}  # of the range from \0 on
        return int(self.ask("/v3/kv/range", everything).get("count", 0))
