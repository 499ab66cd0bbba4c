"""Jobs whose coordinator is decided by a Lease of a real API server (docs/kubernetes.md), through the built ddprun,
with the rights that scripts/templates/kubernetes-lease.yaml gives to a pod.
usage: kube_apiserver_test.py DDPRUN [TEST...]"""
import copy
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import kube_api_server  # noqa: E402
import skip  # noqa: E402
from api_server import ApiServer  # noqa: E402
from certificates import Authority  # noqa: E402
from program import wait_until  # noqa: E402
from service_job import WAITS, ServiceJob  # noqa: E402

ServiceJob.ddprun = os.path.abspath(sys.argv.pop(1))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"
TEMPLATE = "kubernetes-lease.yaml"


class RealServer(ServiceJob):
    """One server for all tests; each has a namespace of its own."""
    namespaces = 0

    @classmethod
    def setUpClass(cls):
        if kube_api_server.MISSING:
            skip.need(kube_api_server.MISSING[0], False, kube_api_server.MISSING[1])
        place = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-kubernetes-"))
        cls.addClassCleanup(shutil.rmtree, place, ignore_errors=True)
        cls.api = kube_api_server.KubeApiServer(place / "server", Authority(place))
        cls.addClassCleanup(cls.api.end)

    def setUp(self):
        super().setUp()
        RealServer.namespaces += 1
        self.namespace = f"team-{RealServer.namespaces}"
        self.api.make_namespace(self.namespace)
        self.api.apply_template(self.namespace, TEMPLATE, {"ServiceAccount", "Role", "RoleBinding"})
        self.token = self.folder / "token"
        self.token.write_text(self.api.token_of(self.namespace, "ddprun"))

    def start(self, nnodes, *words, program=WAITS, **changed):
        values = {"last_call_timeout": "1", "namespace": self.namespace, "token_file": self.token,
                  "cacert": self.api.authority.certificate, **changed}
        return self.start_agent(nnodes, "--rdzv-backend", "kubernetes", "--rdzv-conf",
                                ",".join(f"{key}={value}" for key, value in values.items() if value), *words,
                                program=program, env={"KUBERNETES_SERVICE_HOST": "127.0.0.1",
                                                      "KUBERNETES_SERVICE_PORT": str(self.api.port)})

    @property
    def leases(self):
        return LEASES.format(self.namespace)

    def lease(self):
        return self.api.must("GET", f"{self.leases}/ddprun-job")

    def renewed_after(self, renewed, agent):
        wait_until(lambda: self.lease()["spec"]["renewTime"] > renewed, lambda: agent)

    def end_well(self, agents):
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)
        (self.folder / "end").unlink()
        lease = self.lease()
        self.assertFalse(lease["spec"].get("holderIdentity"), lease)
        self.assertFalse(set(lease["metadata"]["annotations"]) & {"ddprun.io/leader", "ddprun.io/state"}, lease)

    def allow(self, *verbs):
        """What the pods may do with Leases from now on."""
        path = f"{ROLES.format(self.namespace)}/ddprun"
        role = self.api.must("GET", path)
        role["rules"] = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(verbs)}] * bool(verbs)
        self.api.must("PUT", path, role)

    def allowed(self, verb):
        """Whether the server's authorizer knows by now."""
        said = self.api.must("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
            "spec": {"user": f"system:serviceaccount:{self.namespace}:ddprun", "resourceAttributes": {
                "namespace": self.namespace, "verb": verb, "group": "coordination.k8s.io", "resource": "leases"}}})
        return said["status"]["allowed"]


class Jobs(RealServer):
    def test_nodes_meet_and_their_lease_says_who_leads(self):
        agents = self.start_job(3, "3")
        ranks = {re.search(r"rank (\d) of 3 attempt 0", agent.out)[1] for agent in agents}
        self.assertEqual(ranks, {"0", "1", "2"})
        lease = self.lease()
        self.assertTrue(lease["spec"]["holderIdentity"].startswith(os.uname().nodename + "_"), lease)
        self.assertEqual(lease["spec"]["leaseDurationSeconds"], 15)
        self.assertEqual(lease["metadata"]["labels"], {"app.kubernetes.io/managed-by": "ddprun"})
        # Kubernetes gives the pod another token.
        self.token.write_text(self.api.token_of(self.namespace, "ddprun"))
        self.renewed_after(self.lease()["spec"]["renewTime"], agents[0])
        self.assertEqual(self.lease()["spec"]["acquireTime"], lease["spec"]["acquireTime"])
        self.end_well(agents)
        # A job of the same id is another job.
        self.end_well(self.start_job(2, "2"))
        self.assertEqual(self.lease()["spec"]["leaseTransitions"], 1)

    def test_another_node_coordinates_once_that_agent_is_killed(self):
        others = self.start_job_whose_coordinator_is_killed()
        self.assertEqual(self.lease()["spec"]["leaseTransitions"], 1)
        newcomer = self.start("2:3")
        self.wait_for_world([*others, newcomer], 3)
        self.end_well([*others, newcomer])

    def test_a_stopped_coordinator_leads_no_more_when_it_goes_on(self):
        agents = self.start_job_whose_coordinator_is_stopped()
        self.assertEqual(self.lease()["spec"]["leaseTransitions"], 1)
        self.end_well(agents)

    def test_a_server_that_dies_and_comes_back_stops_nothing(self):
        for _ in range(3):
            agents = self.start_job(2, "2")
            first, _ = self.coordinator_of(agents)
            died = time.monotonic()
            self.api.kill()
            try:
                wait_until(lambda: "cannot be asked" in first.err, lambda: first)
            finally:
                self.api.start()
            if time.monotonic() - died < 10:  # of the 12 s that docs/kubernetes.md promises
                break
            self.end_well(agents)  # a busy machine: the server took too long to start
        else:
            self.fail("the server was away for more than 10 s, three times")
        wait_until(lambda: "Kubernetes answers again" in first.err, lambda: first)
        self.renewed_after(self.lease()["spec"]["renewTime"], first)
        for agent in agents:
            self.assertEqual(agent.out.count(" attempt "), 1, agent)
        self.end_well(agents)

    def test_writes_of_others_are_kept(self):
        agents = self.start_job(2, "2:3", "--scale-up", "now")
        over, count = threading.Event(), 0

        def annotate():
            nonlocal count
            while not over.is_set():
                note = {"metadata": {"annotations": {"example.org/note": str(count + 1)}}}
                self.api.must("PATCH", f"{self.leases}/ddprun-job", note, kind="application/merge-patch+json")
                count += 1

        writer = threading.Thread(target=annotate)
        writer.start()
        try:
            before = self.said(agents)
            newcomer = self.start("2:3", "--scale-up", "now")
            self.wait_for_world([*agents, newcomer], 3, {**before, newcomer: 0})
            wait_until(lambda: count > 20, lambda: agents[0])
        finally:
            over.set()
            writer.join()
        self.renewed_after(self.lease()["spec"]["renewTime"], agents[0])
        self.assertEqual(self.lease()["metadata"]["annotations"]["example.org/note"], str(count))
        self.end_well([*agents, newcomer])

    def test_nodes_meet_again_after_their_lease_was_deleted(self):
        agents = self.start_job(2, "2")
        before = self.said(agents)
        self.api.must("DELETE", f"{self.leases}/ddprun-job")
        self.wait_for_world(agents, 2, before)
        self.assertNotIn(" attempt 0 ", "".join(agent.out[before[agent]:] for agent in agents))
        self.end_well(agents)

    def test_a_rule_that_goes_while_a_job_runs_is_named(self):
        agents = self.start_job(2, "2")
        first, _ = self.coordinator_of(agents)
        self.allow("get", "create")
        told = "with the verb 'update' on leases of coordination.k8s.io"
        wait_until(lambda: told in first.err, lambda: first)
        self.allow("get", "create", "update")
        wait_until(lambda: "Kubernetes answers again" in first.err, lambda: first)
        self.end_well(agents)

    def test_by_a_clients_certificate(self):
        certificate, key = self.api.authority.issue("pipeline")
        self.api.must("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings", {
            "metadata": {"name": "pipeline"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ddprun"},
            "subjects": [{"kind": "User", "name": "pipeline"}]})
        agents = [self.start("2", cert=certificate, key=key, token_file=None) for _ in range(2)]
        self.wait_for_world(agents, 2)
        self.end_well(agents)


class Refusals(RealServer):
    def fails(self, why, *words, **how):
        agent = self.start("1", "--join-timeout", "3", *words, **how)
        self.assertEqual(agent.wait(), 1, agent)
        self.assertIn(why, agent.err.splitlines()[-1])

    def test_what_the_server_refuses_is_told(self):
        self.fails(f"give the pods' service account a Role in the namespace default with the verb 'get' on leases",
                   namespace="default")
        self.allow("get")
        wait_until(lambda: not self.allowed("create"), "the new rule")
        self.fails("with the verb 'create'")
        self.api.must("POST", self.leases, {"metadata": {"name": "ddprun-job"}})
        self.fails("with the verb 'update'")
        self.allow("get", "update")
        wait_until(lambda: self.allowed("update"), "the new rule")
        self.end_well(self.start_job(1, "1"))  # an empty Lease that an administrator has made
        self.token.write_text("stale")
        self.fails(f"answers 401: Unauthorized; check that {self.token} holds a token of this cluster")

    def test_a_lease_of_somebody_else_is_left_alone(self):
        other = {"metadata": {"name": "ddprun-job"}, "spec": {"holderIdentity": "scheduler-1",
                                                               "leaseDurationSeconds": 15}}
        made = self.api.must("POST", self.leases, other)
        self.fails("ddprun-job: 'scheduler-1' holds the Lease, and is no ddprun; delete that Lease, or give the job "
                   "another --rdzv-id")
        self.assertEqual(self.lease(), made)


class Played(RealServer):
    """tests/support/api_server.py plays a server where there is none: by the same answers, in the same words."""

    def setUp(self):
        super().setUp()
        self.played = ApiServer(namespace=self.namespace)
        self.addCleanup(self.played.end)
        self.played.token = self.token.read_text()

    def both(self, method, name="", change=None, namespace=None, token=None):
        """The code with which both answer; `change` gets a new Lease, or the Lease as that server has it."""
        path = LEASES.format(namespace or self.namespace) + (f"/{name}" if name else "")
        token = token or self.played.token
        said = []
        for ask in (self.api.ask, self.ask_played):
            body = None
            if change is not None:
                body = self.written.get(ask) if method == "PUT" else None
                body = copy.deepcopy(body) or {
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": "ddprun-job", "annotations": {"ddprun.io/job": "job"}},
                    "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                             "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z"}}
                change(body)
            code, answer = ask(method, path, body, token=token)
            if code // 100 == 2:
                self.written[ask] = answer
                said.append((code, answer["spec"], answer["metadata"]["annotations"]))
            else:
                said.append((code, answer["reason"], re.sub(r"(in object meta: ).+", r"\1UID", answer["message"])))
        real, played = said
        self.assertEqual(real, played)
        return real[0]

    def ask_played(self, method, path, body, token):
        return self.played.answer({"GET": "get", "POST": "create", "PUT": "update"}[method], path, f"Bearer {token}",
                                  json.dumps(body).encode())

    def test_its_answers_are_those_of_the_real_one(self):
        def same(lease):
            pass

        def change(**changed):
            return lambda lease: lease["spec"].update(changed)

        def of_another_version(lease):
            lease["metadata"]["resourceVersion"] = str(int(lease["metadata"]["resourceVersion"]) + 1)

        def of_another_object(lease):
            lease["metadata"].setdefault("resourceVersion", "1")
            lease["metadata"]["uid"] = "6d3a1f4c-0000-4000-8000-000000000000"

        def without_version(lease):
            del lease["metadata"]["resourceVersion"]

        def too_large(lease):
            lease["metadata"]["annotations"]["ddprun.io/state"] = "A" * (256 * 1024)

        self.written = {}
        self.assertEqual(self.both("GET", "ddprun-job"), 404)
        self.assertEqual(self.both("PUT", "ddprun-job", of_another_object), 409)
        self.assertEqual(self.both("POST", change=same), 201)
        self.assertEqual(self.both("POST", change=same), 409)
        self.assertEqual(self.both("GET", "ddprun-job"), 200)
        self.assertEqual(self.both("PUT", "ddprun-job", change(holderIdentity="b", leaseTransitions=1)), 200)
        self.assertEqual(self.both("PUT", "ddprun-job", of_another_version), 409)
        self.assertEqual(self.both("PUT", "ddprun-job", of_another_object), 409)
        self.assertEqual(self.both("PUT", "ddprun-job", without_version), 422)
        self.assertEqual(self.both("PUT", "ddprun-job", too_large), 422)
        self.assertEqual(self.both("PUT", "ddprun-job", change(leaseDurationSeconds=0)), 422)
        self.assertEqual(self.both("PUT", "ddprun-job", change(holderIdentity="")), 200)
        self.assertEqual(self.both("GET", "ddprun-job", token="stale"), 401)
        # One whom no Role names.
        self.api.must("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        self.played.token = self.api.token_of(self.namespace, "default")
        self.played.forbidden = {"get", "create", "update"}
        self.assertEqual(self.both("GET", "ddprun-job"), 403)
        self.assertEqual(self.both("POST", change=same), 403)
        self.assertEqual(self.both("PUT", "ddprun-job", same), 403)
        # One who may do all finds no namespace to create it in.
        self.played.token, self.played.forbidden = kube_api_server.ADMIN, set()
        self.assertEqual(self.both("POST", change=same, namespace="none"), 404)


if __name__ == "__main__":
    skip.main()
