"""A Kubernetes API server as far as Leases go, for what no real one can be asked to do, and where there is
none. kube_apiserver_test.py asks both the same. Over TLS, or in plain text as `kubectl proxy` answers."""
import copy
import http.server
import json
import re
import ssl
import threading

# API concepts, "Resource versions"; pkg/registry/coordination/lease/strategy.go, validation.go;
# apimachinery's ValidateObjectMeta and ValidateAnnotations; meta/v1's MicroTime.
PATH = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/([^/]+)/leases(?:/([^/]+))?$")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
FIELDS = {"holderIdentity": str, "leaseDurationSeconds": int, "acquireTime": str, "renewTime": str,
          "leaseTransitions": int}
ANNOTATION_BYTES_MAX = 256 * 1024
VERBS = {"GET": "get", "POST": "create", "PUT": "update"}


def status(code, reason, message, kind="leases", name=""):
    return code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                  "reason": reason, "details": {"name": name, "group": "coordination.k8s.io", "kind": kind},
                  "code": code}


class ApiServer:
    """What a test may set: token (None: none is asked for), forbidden (verbs), away, has_api, busy (how many
    answers say 429), refuses_writes (each write gets 409), conflicts (so many writes of a stranger come first), lost (how many writes are done, and
    not answered)."""

    def __init__(self, certificate=None, key=None, namespace="ml", port=0):
        self.token, self.forbidden, self.away, self.has_api = "first", set(), False, True
        self.busy = self.conflicts = self.lost = 0
        self.refuses_writes = False
        self.namespace, self.leases, self.version = namespace, {}, 100
        self.asked = []  # (verb, Authorization), in their order
        self.mistakes = []  # what a real one refuses, or client-go's programs would not understand
        self.lock = threading.Lock()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with api.lock:
                    reply = None if api.away else api.answer(VERBS[self.command], self.path,
                                                             self.headers["Authorization"], body)
                if reply is None:
                    self.close_connection = True
                    return
                code, said = reply
                text = said.encode() if isinstance(said, str) else json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Type", "text/plain" if isinstance(said, str) else "application/json")
                self.send_header("Content-Length", str(len(text)))
                if code == 429:
                    self.send_header("Retry-After", "1")
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a client that went, or did not trust this server

        self.server = Server(("127.0.0.1", port), Handler)
        self.is_tls = certificate is not None
        if self.is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            # The handshake belongs to the thread of the connection.
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()

    def lease(self, name="ddprun-job"):
        with self.lock:
            return copy.deepcopy(self.leases.get(name))

    def annotations(self, name="ddprun-job"):
        lease = self.lease(name)
        return lease["metadata"]["annotations"] if lease else {}

    # --- Answers, under the lock ---

    def answer(self, verb, path, authorization, body):
        self.asked.append((verb, authorization))
        if not self.has_api:
            return 404, "404 page not found\n"
        if self.token is not None and authorization != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized", kind="")
        namespace, name = PATH.match(path).groups()
        if verb in self.forbidden:
            which = f'leases.coordination.k8s.io "{name}"' if name else "leases.coordination.k8s.io"
            return status(403, "Forbidden", f'{which} is forbidden: User '
                          f'"system:serviceaccount:{namespace}:default" cannot {verb} resource "leases" in API group '
                          f'"coordination.k8s.io" in the namespace "{namespace}"', name=name)
        if self.busy:
            self.busy -= 1
            return status(429, "TooManyRequests", "The server has received too many requests and has asked us to "
                          "try again later", kind="")
        if verb == "get":
            return self.get(name)
        reply = self.write(verb, namespace, name, json.loads(body))
        if reply[0] in (200, 201) and self.lost:
            self.lost -= 1
            return None
        return reply

    def get(self, name):
        if name not in self.leases:
            return status(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found', name=name)
        return 200, self.leases[name]

    def write(self, verb, namespace, name, written):
        if namespace != self.namespace and verb == "create":
            return status(404, "NotFound", f'namespaces "{namespace}" not found', kind="namespaces", name=namespace)
        metadata = written["metadata"]
        name = metadata["name"] if verb == "create" else name
        before = self.leases.get(name)
        if before and verb == "update" and self.conflicts:
            self.conflicts -= 1
            self.version += 1
            before["metadata"]["resourceVersion"] = str(self.version)
            before["metadata"]["annotations"]["example.org/note"] = f"written {self.version}"
        if verb == "create":
            if before:
                return status(409, "AlreadyExists", f'leases.coordination.k8s.io "{name}" already exists', name=name)
            metadata["uid"] = f"uid-{self.version}"
        elif not metadata.get("resourceVersion"):
            self.mistakes.append("a PUT without a version")
            return status(422, "Invalid", f'leases.coordination.k8s.io "{name}" is invalid: metadata.resourceVersion: '
                          "Invalid value: 0x0: must be specified for an update", name=name)
        elif not before or metadata.get("uid") != before["metadata"]["uid"]:
            there = before["metadata"]["uid"] if before else ""
            return status(409, "Conflict", f'Operation cannot be fulfilled on leases.coordination.k8s.io "{name}": '
                          f"StorageError: invalid object, Code: 4, Key: /registry/leases/{namespace}/{name}, "
                          "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
                          f"{metadata.get('uid')}, UID in object meta: {there}", name=name)
        elif self.refuses_writes or metadata["resourceVersion"] != before["metadata"]["resourceVersion"]:
            return status(409, "Conflict", f'Operation cannot be fulfilled on leases.coordination.k8s.io "{name}": the '
                          "object has been modified; please apply your changes to the latest version and try again",
                          name=name)
        invalid = self.invalid(written, before)
        if invalid:
            self.mistakes.append(invalid)
            return status(422, "Invalid", f'Lease.coordination.k8s.io "{name}" is invalid: {invalid}', name=name)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        metadata["managedFields"] = [{"manager": "ddprun", "operation": "Update", "fieldsV1": {"f:spec": {}}}]
        self.leases[name] = written
        return (201 if verb == "create" else 200), written

    def invalid(self, lease, before):
        """What is wrong with it; empty: nothing."""
        metadata, spec = lease["metadata"], lease["spec"]
        if (lease["apiVersion"], lease["kind"]) != ("coordination.k8s.io/v1", "Lease"):
            return "apiVersion, kind"
        if not SUBDOMAIN.match(metadata["name"]) or len(metadata["name"]) > 253:
            return f"metadata.name: {metadata['name']}"
        annotations = metadata["annotations"]
        if any(not isinstance(value, str) for value in annotations.values()):
            return "metadata.annotations: must be texts"
        if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATION_BYTES_MAX:
            return f"metadata.annotations: Too long: must have at most {ANNOTATION_BYTES_MAX} bytes"
        if set(spec) != set(FIELDS) or any(type(spec[field]) is not kind for field, kind in FIELDS.items()):
            return f"spec: {spec}"
        if spec["leaseDurationSeconds"] <= 0:
            return f"spec.leaseDurationSeconds: Invalid value: {spec['leaseDurationSeconds']}: must be greater than 0"
        if not all(MICRO_TIME.match(spec[field]) for field in ("acquireTime", "renewTime")):
            return f"spec: {spec}"
        held_by, holder = before["spec"]["holderIdentity"] if before else "", spec["holderIdentity"]
        is_another = bool(held_by and holder and holder != held_by)
        if held_by and spec["leaseTransitions"] != before["spec"]["leaseTransitions"] + is_another:
            return f"spec.leaseTransitions: {spec['leaseTransitions']} after {before['spec']}"
        return ""
