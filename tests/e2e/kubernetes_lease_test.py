"""Jobs whose coordinator is decided by a Lease of Kubernetes (docs/kubernetes.md), through the built ddprun. The
API server is played (tests/support/api_server.py); nothing of Kubernetes runs here.
usage: kubernetes_lease_test.py DDPRUN [TEST...]"""
import os
import pathlib
import re
import shutil
import signal
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from api_server import ApiServer  # noqa: E402
from certificates import Authority  # noqa: E402
from program import Program, children_of, wait_until  # noqa: E402
from service_job import WAITS, ServiceJob  # noqa: E402

DDPRUN = ServiceJob.ddprun = os.path.abspath(sys.argv.pop(1))


class Kubernetes(ServiceJob):
    def setUp(self):
        skip.need(skip.PROGRAM, shutil.which("openssl"), "openssl is not installed (scripts/setup --with-etcd)")
        super().setUp()
        self.authority = Authority(self.folder)
        self.token = self.folder / "token"
        self.token.write_text("first\n")
        self.api = self.serve()

    def serve(self, *files):
        api = ApiServer(*(files or self.authority.issue("apiserver", "IP:127.0.0.1", "DNS:localhost")))
        self.addCleanup(api.end)
        return api

    def conf(self, **changed):
        values = {"last_call_timeout": "1", "namespace": "ml", "token_file": self.token,
                  "cacert": self.authority.certificate, **changed}
        return ["--rdzv-conf", ",".join(f"{key}={value}" for key, value in values.items() if value)]

    def start(self, nnodes, *words, program=WAITS, conf=None, env=None):
        """As a pod finds its API server: by the variables that Kubernetes sets."""
        return self.start_agent(nnodes, "--rdzv-backend", "kubernetes", *(conf or self.conf()), *words,
                                program=program, env={"KUBERNETES_SERVICE_HOST": "127.0.0.1",
                                                      "KUBERNETES_SERVICE_PORT": str(self.api.port), **(env or {})})

    def end_well(self, agents):
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)
        self.assertEqual(self.api.mistakes, [])
        self.assertEqual(self.api.lease()["spec"]["holderIdentity"], "")
        self.assertFalse(set(self.api.annotations()) & {"ddprun.io/leader", "ddprun.io/term", "ddprun.io/state"})

    def fails(self, why, *words, **how):
        agent = self.start("1", "--join-timeout", "1", *words, **how)
        self.assertEqual(agent.wait(), 1, agent)
        self.assertIn(why, agent.err.splitlines()[-1])  # why there is no job, where people look first


class Jobs(Kubernetes):
    def test_nodes_meet_and_their_lease_says_who_leads(self):
        agents = self.start_job(3, "3")
        ranks = {re.search(r"rank (\d) of 3 attempt 0", agent.out)[1] for agent in agents}
        self.assertEqual(ranks, {"0", "1", "2"})
        lease = self.api.lease()
        self.assertTrue(lease["spec"]["holderIdentity"].startswith(os.uname().nodename + "_"), lease)
        self.assertEqual(lease["spec"]["leaseDurationSeconds"], 15)
        self.assertEqual(lease["spec"]["leaseTransitions"], 0)
        self.assertEqual(lease["metadata"]["labels"], {"app.kubernetes.io/managed-by": "ddprun"})
        self.assertEqual(lease["metadata"]["annotations"]["ddprun.io/job"], "job")
        wait_until(lambda: self.api.lease()["spec"]["renewTime"] > lease["spec"]["renewTime"], lambda: agents[0])
        self.assertEqual(self.api.lease()["spec"]["acquireTime"], lease["spec"]["acquireTime"])
        # Kubernetes renews the token, and the old one is none any more.
        self.token.write_text("second")
        self.api.token = "second"
        wait_until(lambda: self.api.asked[-1] == ("update", "Bearer second"), lambda: agents[0])
        self.end_well(agents)
        # A job of the same id is another job.
        self.end_well(self.start_job(2, "2"))
        for agent in self.agents:
            self.assertNotIn("first", agent.out + agent.err)

    def test_another_node_coordinates_once_that_agent_is_killed(self):
        others = self.start_job_whose_coordinator_is_killed()
        self.assertEqual(self.api.lease()["spec"]["leaseTransitions"], 1)
        newcomer = self.start("2:3")
        self.wait_for_world([*others, newcomer], 3)
        self.end_well([*others, newcomer])

    def test_a_stopped_coordinator_leads_no_more_when_it_goes_on(self):
        agents = self.start_job_whose_coordinator_is_stopped()
        self.assertEqual(self.api.lease()["spec"]["leaseTransitions"], 1)
        self.end_well(agents)

    def test_ten_seconds_without_a_server_stop_nothing(self):
        agents = self.start_job(2, "2")
        self.api.away = True
        gone_until = time.monotonic() + 10
        wait_until(lambda: time.monotonic() > gone_until, "the clock", seconds=60)
        self.api.away = False
        renewed = self.api.lease()["spec"]["renewTime"]
        wait_until(lambda: self.api.lease()["spec"]["renewTime"] != renewed, lambda: agents[0])
        first, _ = self.coordinator_of(agents)
        wait_until(lambda: "Kubernetes answers again" in first.err, lambda: first)
        self.assertRegex(first.err, r"Kubernetes at https://127\.0\.0\.1:\d+ cannot be asked: .*; the job goes on without")
        for agent in agents:
            self.assertEqual(agent.out.count(" attempt "), 1, agent)
        self.end_well(agents)

    def test_a_job_ends_though_the_server_is_gone(self):
        agents = self.start_job(2, "2")
        self.api.away = True
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent)

    def test_writes_of_others_and_lost_answers_change_nothing(self):
        self.api.busy = 2
        self.api.lost = 3
        agents = self.start_job(2, "2:3", "--scale-up", "now")
        self.api.conflicts = 12
        self.api.lost = 3
        before = self.said(agents)
        newcomer = self.start("2:3", "--scale-up", "now")
        self.wait_for_world(agents, 3, before)
        wait_until(lambda: not self.api.conflicts, lambda: agents[0])
        note = self.api.annotations()["example.org/note"]
        renewed = self.api.lease()["spec"]["renewTime"]
        wait_until(lambda: self.api.lease()["spec"]["renewTime"] != renewed, lambda: agents[0])
        self.assertEqual(self.api.annotations()["example.org/note"], note)
        self.end_well([*agents, newcomer])
        for agent in self.agents:
            self.assertNotIn("no coordinator any more", agent.err)

    def test_a_server_that_refuses_each_write_is_not_pressed(self):
        agents = self.start_job(1, "1")
        told = "8 writes in a row of the Lease of this job came too late"
        self.api.refuses_writes = True
        wait_until(lambda: told in agents[0].err, lambda: agents[0])
        asked, since = len(self.api.asked), time.monotonic()
        wait_until(lambda: len(self.api.asked) > asked + 15, lambda: agents[0])
        # A write and a read after each pause, which is half a second at least.
        self.assertGreater(time.monotonic() - since, 3.5, agents[0])
        self.api.refuses_writes = False
        renewed = self.api.lease()["spec"]["renewTime"]
        wait_until(lambda: self.api.lease()["spec"]["renewTime"] != renewed, lambda: agents[0])
        self.end_well(agents)

    def test_nodes_meet_again_after_their_lease_was_deleted(self):
        agents = self.start_job(2, "2")
        before = self.said(agents)
        with self.api.lock:
            self.api.leases.clear()
        self.wait_for_world(agents, 2, before)
        self.assertNotIn(" attempt 0 ", "".join(agent.out[before[agent]:] for agent in agents))
        self.end_well(agents)

    def test_a_new_agent_that_makes_the_lease_anew_meets_the_old_ones(self):
        agents = self.start_job(3, "3:4")
        before = self.said(agents)
        with self.api.lock:
            self.api.leases.clear()
        newcomer = self.start("3:4", "--scale-up", "now")
        self.wait_for_world([*agents, newcomer], 4, {**before, newcomer: 0})
        self.end_well([*agents, newcomer])

    def test_a_rule_that_goes_while_a_job_runs_is_named_once(self):
        agents = self.start_job(2, "2")
        first, _ = self.coordinator_of(agents)
        self.api.forbidden = {"update"}
        wait_until(lambda: "with the verb 'update' on leases of coordination.k8s.io" in first.err, lambda: first)
        asked = len(self.api.asked)
        wait_until(lambda: len(self.api.asked) > asked + 8, lambda: first)
        self.api.forbidden = set()
        wait_until(lambda: "Kubernetes answers again" in first.err, lambda: first)
        self.assertEqual(first.err.count("the job goes on without it"), 1, first)
        self.end_well(agents)

    def test_through_kubectl_proxy_nothing_is_shown(self):
        self.api = ApiServer()
        self.addCleanup(self.api.end)
        self.api.token = None
        conf = [*self.conf(protocol="http", token_file=None, cacert=None), "--rdzv-endpoint",
                f"127.0.0.1:{self.api.port}"]
        agents = [self.start("2", conf=conf) for _ in range(2)]
        self.wait_for_world(agents, 2)
        self.assertEqual({authorization for _, authorization in self.api.asked}, {None})
        self.end_well(agents)


class Refusals(Kubernetes):
    def test_what_the_server_refuses_is_told(self):
        self.api.forbidden = {"get"}
        self.fails("give the pods' service account a Role in the namespace ml with the verb 'get' on leases")
        self.api.forbidden = {"create"}
        self.fails("in the namespace \"ml\"; give the pods' service account a Role in the namespace ml with the verb "
                   "'create'")
        self.api.forbidden = set()
        self.fails("namespaces \"other\" not found", conf=self.conf(namespace="other"))
        self.token.write_text("stale")
        self.fails(f"answers 401: Unauthorized; check that {self.token} holds a token of this cluster")
        self.token.write_text("first")
        self.api.busy = 1000
        self.fails("answers 429: The server has received too many requests", "--join-timeout", "8")
        self.api.busy = 0
        self.api.has_api = False
        self.fails("404 page not found; it has no coordination.k8s.io/v1")

    def test_a_server_that_is_none_or_not_trusted_is_named(self):
        stranger = Authority(self.folder, "stranger")
        self.fails("its certificate is not trusted: unable to get local issuer", conf=self.conf(cacert=stranger.certificate))
        self.fails(f"Kubernetes at http://127.0.0.1:{self.api.port} cannot be asked: it closed the connection",
                   "--rdzv-endpoint", f"127.0.0.1:{self.api.port}", conf=self.conf(protocol="http", token_file=None, cacert=None))
        plain = ApiServer()
        self.addCleanup(plain.end)
        self.fails("cannot be asked: it does not speak TLS", "--rdzv-endpoint", f"127.0.0.1:{plain.port}")

    def test_a_lease_of_somebody_else_is_left_alone(self):
        self.api.leases["ddprun-job"] = {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "ddprun-job", "uid": "u", "resourceVersion": "1"},
            "spec": {"holderIdentity": "scheduler-1"}}
        self.fails("ddprun-job: 'scheduler-1' holds the Lease, and is no ddprun; delete that Lease, or give the job "
                   "another --rdzv-id")

    def test_missing_pieces_are_told_at_once(self):
        def refused(*words, env=None, conf=()):
            environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
            done = Program(self.folder, "refused", [DDPRUN, "--nnodes", "2", "--rdzv-backend", "kubernetes", *conf,
                                                    *words, "true"], env={**environment, **(env or {})})
            self.assertEqual(done.wait(), 1, done)
            self.assertEqual(done.err.count("\n"), 1, done)
            return done.err

        named = ["--rdzv-id", "job"]
        pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
        self.assertIn("give each job an --rdzv-id", refused(env=pod))
        self.assertIn("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, as they are in a pod; run it in "
                      "a pod, or give --rdzv-endpoint HOST:PORT", refused(*named))
        self.assertIn("KUBERNETES_SERVICE_PORT: 'x' is not a port",
                      refused(*named, env={**pod, "KUBERNETES_SERVICE_PORT": "x"}))
        self.assertIn("serviceaccount/namespace: the namespace of this pod cannot be read; let the pod have its service "
                      "account's token", refused(*named, env=pod))
        self.assertIn("cannot be a namespace", refused(*named, env=pod, conf=self.conf(namespace="A_b")))
        self.assertIn("/none: there is no token in it that could be read; let the pod have",
                      refused(*named, env=pod, conf=self.conf(token_file="/none")))
        self.assertIn("/none: the authorities that sign the API server's certificate cannot be read",
                      refused(*named, env=pod, conf=self.conf(cacert="/none")))
        plain = {"protocol": "http", "token_file": None, "cacert": None}
        self.assertIn("only kubectl proxy answers", refused(*named, env=pod, conf=self.conf(**plain)))
        self.assertIn("--rdzv-conf: protocol=http is plain text, so cacert= would be ignored; write protocol=https, or "
                      "leave out cacert=", refused(*named, env=pod, conf=self.conf(protocol="http")))
        self.assertIn("--master-addr: with --rdzv-backend kubernetes the service decides where the nodes meet, so this "
                      "would be ignored; leave it out", refused(*named, "--master-addr", "n1", env=pod, conf=self.conf()))
        for host in (" ", "[::1", "a b"):
            self.assertIn(f"KUBERNETES_SERVICE_HOST: '{host}' is not a host name or address; give the API server as "
                          "--rdzv-endpoint HOST:PORT",
                          refused(*named, env={**pod, "KUBERNETES_SERVICE_HOST": host}, conf=self.conf()))
        self.assertIn("'a,b' is not one address of an API server",
                      refused(*named, "--rdzv-endpoint", "a,b", conf=self.conf()))


if __name__ == "__main__":
    skip.main()
