"""A real API server of Kubernetes on this machine, with an etcd of its own. Made and ended by the test; nothing else
of a cluster runs: no controllers, no nodes, no pods."""
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

import yaml

import skip
from etcd_cluster import EtcdCluster
from free_port import free_port
from program import Program, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".kubernetes" / "kube-apiserver"
MISSING = None if PROGRAM.exists() and shutil.which("etcd") and shutil.which("openssl") else (
    skip.KUBERNETES, "there is no API server of Kubernetes (scripts/setup --with-kubernetes compiles one)")
ADMIN = "admin-of-this-test"


class KubeApiServer:
    """Who has the token ADMIN may do all; others what RBAC lets them."""

    def __init__(self, folder, authority):
        folder.mkdir()
        self._folder, self.authority = folder, authority
        self.port = free_port()
        self.etcd = EtcdCluster(folder / "etcd")
        self._tls = ssl.create_default_context(cafile=authority.certificate)
        certificate, key = authority.issue("kubernetes", "IP:127.0.0.1", "DNS:localhost")
        tokens, signs = folder / "tokens.csv", folder / "service-accounts.key"
        tokens.write_text(f"{ADMIN},admin,admin,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", str(signs), "2048"], check=True, capture_output=True, timeout=60)
        self._command = [
            PROGRAM, "--etcd-servers", f"http://{self.etcd.endpoints[0]}", "--bind-address", "127.0.0.1",
            "--secure-port", str(self.port), "--tls-cert-file", certificate, "--tls-private-key-file", key,
            "--client-ca-file", authority.certificate, "--token-auth-file", tokens, "--authorization-mode", "RBAC",
            "--service-account-issuer", "https://kubernetes.test", "--service-account-signing-key-file", signs,
            "--service-account-key-file", signs, "--service-cluster-ip-range", "10.96.0.0/24",
            "--endpoint-reconciler-type", "none", "--cert-dir", folder]
        self.start()

    def start(self):
        self._program = Program(self._folder, "kube-apiserver", [str(word) for word in self._command],
                                env={**os.environ, "GOMAXPROCS": "2"})
        wait_until(self.is_ready, lambda: self._program, seconds=120)

    def kill(self):
        self._program.process.kill()
        self._program.process.wait()

    def end(self):
        self.kill()
        self.etcd.end()

    def is_ready(self):
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None, token=ADMIN, kind="application/json"):
        """(status, what it says): an object of JSON, or a text."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", None if body is None else json.dumps(body).encode(),
            {"Content-Type": kind, "Authorization": f"Bearer {token}"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls) as answer:
                code, said = answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            code, said = problem.code, problem.read().decode()
        try:
            return code, json.loads(said)
        except ValueError:
            return code, said

    def must(self, method, path, body=None, **how):
        code, said = self.ask(method, path, body, **how)
        if code // 100 != 2:
            raise AssertionError(f"{method} {path}: {code} {said}")
        return said

    def make_namespace(self, name):
        self.must("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def apply_template(self, namespace, template, kinds):
        """Those objects of scripts/templates/`template`."""
        places = {"ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
                  "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
                  "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
                  "Job": "/apis/batch/v1/namespaces/{}/jobs"}
        for one in yaml.safe_load_all((ROOT / "scripts" / "templates" / template).read_text()):
            if one["kind"] in kinds:
                self.must("POST", places[one["kind"]].format(namespace), one)

    def token_of(self, namespace, account):
        """A new token of that service account, as a pod is given one."""
        said = self.must("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
                         {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                          "spec": {"expirationSeconds": 3600}})
        return said["status"]["token"]
