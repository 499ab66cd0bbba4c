"""A job tells Kubeflow's status server how it is, where Kubeflow's variables are there. The server is
played by its guide; nothing of Kubeflow runs here.
usage: kubeflow_status_test.py DDPRUN [TEST...]"""
import http.server
import json
import os
import pathlib
import shutil
import ssl
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from certificates import Authority  # noqa: E402
from program import Program, wait_until  # noqa: E402

DDPRUN = os.path.abspath(sys.argv.pop(1))
TRAIN = str(pathlib.Path(DDPRUN).parent / "train")
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/linear/status"


class StatusServer:
    def __init__(self, certificate, key, status=200):
        self.told = []  # (path, header Authorization, JSON), in their order
        told = self.told

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.append((self.path, self.headers["Authorization"], json.loads(body)))
                answer = body if status == 200 else b'{"kind":"Status","message":"no such TrainJob"}'
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()


class KubeflowStatus(unittest.TestCase):
    def setUp(self):
        skip.need(skip.PROGRAM, shutil.which("openssl"), "openssl is not installed (scripts/setup --with-etcd)")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-kubeflow-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.authority = Authority(self.folder)
        (self.folder / "token").write_text("a.b.c\n")

    def serve(self, status=200):
        server = StatusServer(*self.authority.issue("manager", "DNS:localhost"), status)
        self.addCleanup(server.end)
        return server

    def train(self, url, *words, ca=None):
        agent = Program(self.folder, "agent", [DDPRUN, "--standalone", "--nproc-per-node", "2", *words, TRAIN, "linear",
                                               "1000000", "1000000"], cwd=self.folder,
                        env={**os.environ, "KUBEFLOW_TRAINER_SERVER_URL": url,
                             "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(ca or self.authority.certificate),
                             "KUBEFLOW_TRAINER_SERVER_TOKEN": str(self.folder / "token")})
        self.addCleanup(agent.end)
        return agent

    def test_a_job_tells_how_it_is(self):
        server = self.serve()
        agent = self.train(f"https://localhost:{server.server.server_port}{PATH}")
        wait_until(lambda: server.told, lambda: agent)
        path, authorization, body = server.told[0]
        self.assertEqual((path, authorization), (PATH, "Bearer a.b.c"))
        status = body["trainerStatus"]
        self.assertEqual(status["progressPercentage"], 0)  # of a million epochs
        self.assertGreater(status["estimatedRemainingSeconds"], 0)
        metrics = {one["name"]: one["value"] for one in status["metrics"]}
        self.assertEqual(metrics["world_size"], "2")
        self.assertGreater(int(metrics["step"]), 0)
        # Kubernetes renews the token.
        (self.folder / "token").write_text("d.e.f")
        wait_until(lambda: server.told[-1][1] == "Bearer d.e.f", lambda: agent)
        self.assertGreater(int(server.told[-1][2]["trainerStatus"]["metrics"][0]["value"]), int(metrics["step"]))
        self.assertEqual(agent.err, "")

    def test_a_server_that_refuses_is_told_once(self):
        server = self.serve(404)
        agent = self.train(f"https://localhost:{server.server.server_port}{PATH}")
        wait_until(lambda: len(server.told) > 1, lambda: agent)
        self.assertEqual(agent.err.count("Kubeflow's status server"), 1)
        self.assertIn("""it answers 404 '{"kind":"Status","message":"no such TrainJob"}'; the job goes on""", agent.err)

    def test_a_server_that_cannot_be_told_is_named(self):
        stranger = Authority(self.folder, "stranger")
        server = self.serve()
        url = f"https://localhost:{server.server.server_port}{PATH}"
        agent = self.train(url, ca=stranger.certificate)
        wait_until(lambda: "its certificate is not trusted" in agent.err, lambda: agent)
        self.assertEqual(server.told, [])
        agent.end()
        for bad, ca, why in ((url.replace("https", "http"), None, "does not begin with https://"),
                             (url, "/none", "/none: cannot read the file of authorities")):
            agent = self.train(bad, ca=ca)
            wait_until(lambda: why in agent.err, lambda: agent)
            agent.end()


if __name__ == "__main__":
    skip.main()
