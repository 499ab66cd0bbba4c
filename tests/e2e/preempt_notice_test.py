"""--preempt-notice: the built ddprun asks metadata services, played here by their documentation, and
looks for files.
usage: preempt_notice_test.py DDPRUN [TEST...]"""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from free_port import free_port  # noqa: E402
from program import Program, children_of, is_alive, wait_until  # noqa: E402

DDPRUN = os.path.abspath(sys.argv.pop(1))
TRAIN = str(pathlib.Path(DDPRUN).parent / "train")
SAVES = "the job saves, and every agent ends with 75"
AZURE_EVENT = {"EventId": "1", "EventType": "Preempt", "ResourceType": "VirtualMachine",
               "Resources": ["vm_1"], "EventStatus": "Scheduled", "Description": "",
               "NotBefore": "Mon, 19 Sep 2022 18:29:47 GMT", "EventSource": "Platform"}


def pending(pid):
    """Signals that were sent to the process and not delivered yet."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^ShdPnd:\s+(\w+)$", status, re.M)[1], 16)


class Service:
    """Plays a metadata service. `answer(service, method, path, headers)` gives status, body, and
    headers; None: the connection is closed without a word."""

    def __init__(self, answer):
        self.gone = threading.Event()  # the machine is to go
        self.ended = threading.Event()
        self.busy_s = 0  # how late it says that there is no notice
        self.asked = []  # (method, path), in their order
        self.connections = 0
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                service.connections += 1
                super().setup()

            def reply(self):
                service.asked.append((self.command, self.path))
                given = answer(service, self.command, self.path, self.headers)
                if given is None:
                    self.close_connection = True
                    return
                status, body, *headers = given
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_PUT = reply

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # ddprun has ended while it was answered

        self.server = Server(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def end(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def wait_for(self, count, path=""):
        """Until so many questions about the path have come."""
        wait_until(lambda: sum(path in asked for _, asked in list(self.asked)) >= count,
                   lambda: f"{count} questions about {path!r} among {self.asked}")


def aws(service, method, path, headers, tokens=("token-1",)):
    """A token that is not the newest is refused."""
    if (method, path) == ("PUT", "/latest/api/token"):
        lives = headers["X-aws-ec2-metadata-token-ttl-seconds"]
        if not (lives and 1 <= int(lives) <= 21600) or headers["Content-Length"] != "0":
            return 400, ""
        return 200, tokens[0]
    if headers["X-aws-ec2-metadata-token"] != tokens[0]:
        return 401, ""
    if path == "/latest/meta-data/spot/instance-action" and service.gone.wait(service.busy_s):
        return 200, '{"action": "terminate", "time": "2017-09-18T08:22:00Z"}'
    return 404, "<html>404 - Not Found</html>"


def gcp(service, _, path, headers):
    if headers["Metadata-Flavor"] != "Google":
        return 403, ""
    flavor = ("Metadata-Flavor", "Google")
    value, *query = path.split("?")
    if value == "/computeMetadata/v1/instance/maintenance-event":
        if query:
            service.ended.wait(20)
        return 200, "NONE", flavor, ("ETag", "e0")
    if value != "/computeMetadata/v1/instance/preempted":
        return 404, "", flavor
    # Answered when the value has changed, or the time is over.
    if query and "last_etag=e1" in query[0]:
        wait_until(lambda: service.gone.is_set() or service.ended.is_set(), "the end", every=0.05)
    return 200, "TRUE" if service.gone.is_set() else "FALSE", flavor, (
        "ETag", "e2" if service.gone.is_set() else "e1")


def azure(service, _, path, headers):
    if headers["Metadata"] != "true":
        return 400, ""
    if path == "/metadata/instance/compute/name?api-version=2021-02-01&format=text":
        return 200, "vm_1"
    if path != "/metadata/scheduledevents?api-version=2020-07-01":
        return 404, ""
    other = {**AZURE_EVENT, "Resources": ["vm_10"]}
    events = [other, AZURE_EVENT] if service.gone.is_set() else [other]
    return 200, json.dumps({"DocumentIncarnation": 2, "Events": events})


CLOUDS = {  # its service, the variable that moves it, and what it announces
    "aws": (aws, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://",
            "aws: terminate of the spot instance at 2017-09-18T08:22:00Z"),
    "gcp": (gcp, "GCE_METADATA_HOST", "", "gcp: the VM is preempted within 30 seconds"),
    "azure": (azure, "DDPRUN_AZURE_METADATA_HOST", "",
              "azure: Preempt of the VM not before Mon, 19 Sep 2022 18:29:47 GMT"),
}


class Notice(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-notice-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def serve(self, answer):
        service = Service(answer)
        self.addCleanup(service.end)
        return service

    def start(self, options, program, name="job", **variables):
        """A proxy is named, where nobody is: it would swallow each question."""
        environment = {**os.environ, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1",
                       "http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9",
                       **variables}
        job = Program(self.folder, name, [DDPRUN, *options, *program], env=environment,
                      cwd=self.folder)
        self.addCleanup(job.end)
        return job

    def start_watched(self, cloud, answer, name="job"):
        """One node with this cloud's service; and that service."""
        _, variable, scheme, _ = CLOUDS[cloud]
        service = self.serve(answer)
        job = self.start(["--standalone", "--preempt-notice", cloud], ["sleep", "600"], name,
                         **{variable: scheme + service.host})
        return job, service

    def two_nodes(self, notice, *options, program, **variables):
        """The first hosts the job, and the second has a machine that may go."""
        port = free_port()
        common = ["--nproc-per-node", "1", "--rdzv-endpoint", f"127.0.0.1:{port}", *options]
        first = self.start([*common, "--rdzv-conf", "is_host=1"], program, "first")
        second = self.start([*common, "--rdzv-conf", "is_host=0", "--preempt-notice", notice], program,
                            "second", **variables)
        return first, second

    def check_resumes_at_the_very_step(self, cloud):
        answer, variable, scheme, clause = CLOUDS[cloud]
        service = self.serve(answer)
        service.busy_s = 3
        program = [TRAIN, "linear", "1000000", "1000000", "--batch-size", "1",
                   "--snapshot-path", str(self.folder / "snapshot")]
        first, second = self.two_nodes(cloud, "--nnodes", "2", program=program,
                                       **{variable: scheme + service.host})
        wait_until(lambda: "Epoch 1 |" in first.out + second.out, lambda: f"{first}\n{second}")
        service.wait_for(2)  # the token, or the name; then what is answered slowly
        service.gone.set()
        for node in (first, second):
            self.assertEqual(node.wait(), 75, f"{first}\n{second}")
            self.assertIn(f"has a preemption notice ({clause})", node.err)
        self.assertIn(f"{clause}: {SAVES}", second.err)
        self.assertNotIn(SAVES, first.err)
        saved = re.findall(r"Epoch (\d+) \| (\d+) samples done \| Training snapshot",
                           first.out + second.out)
        self.assertEqual(len(saved), 1, f"{first}\n{second}")
        again = self.start(["--standalone"], program, "again")
        epoch, done = saved[0]
        wait_until(lambda: f"{done} samples of it are done" in again.out, lambda: again)
        self.assertRegex(again.out, rf"[Ee]poch {epoch}\b")

    def test_aws_announces_and_the_job_resumes_at_the_very_step(self):
        self.check_resumes_at_the_very_step("aws")

    def test_gcp_announces_and_the_job_resumes_at_the_very_step(self):
        self.check_resumes_at_the_very_step("gcp")

    def test_azure_announces_and_the_job_resumes_at_the_very_step(self):
        self.check_resumes_at_the_very_step("azure")

    def test_a_file_in_a_folder_that_comes_later(self):
        path = self.folder / "later" / "notice"
        first, second = self.two_nodes(f"file:{path}", "--nnodes", "2",
                                       program=[TRAIN, "linear", "1000000", "1000000"])
        wait_until(lambda: "Epoch 1 |" in first.out + second.out, lambda: f"{first}\n{second}")
        path.parent.mkdir()
        whole = self.folder / "whole"
        whole.write_text("moved to\x1b[31m another rack\nand more\n")
        whole.rename(path)
        for node in (first, second):
            self.assertEqual(node.wait(), 75, f"{first}\n{second}")
        self.assertIn(f"file {path}: moved to?[31m another rack: {SAVES}", second.err)

    def test_a_file_that_is_there_already_and_has_no_text(self):
        (self.folder / "empty").touch()
        os.mkfifo(self.folder / "fifo")
        for name in ("empty", "fifo", "."):
            job = self.start(["--standalone", "--preempt-notice", f"file:{name}"], ["sleep", "600"])
            self.assertEqual(job.wait(), 75, job)
            self.assertIn(f"file {name}: {SAVES}", job.err)

    def test_notices_that_come_together_are_one(self):
        (self.folder / "notice").touch()
        (self.folder / "other").touch()
        job = self.start(["--standalone", "--preempt-notice", "file:notice,file:other"], ["sleep", "600"])
        self.assertEqual(job.wait(), 75, job)
        self.assertEqual(job.err.count(SAVES), 1, job)

    def test_only_the_node_that_goes_leaves_an_elastic_job(self):
        path = self.folder / "notice"
        first, second = self.two_nodes(
            f"file:{path}", "--nnodes", "1:2", "--on-notice", "leave",
            program=[TRAIN, "linear", "1000000", "1000000"])
        wait_until(lambda: "Epoch 1 |" in first.out and "Epoch 1 |" in second.out,
                   lambda: f"{first}\n{second}")
        path.touch()
        self.assertEqual(second.wait(), 0, f"{first}\n{second}")
        self.assertIn(f"file {path}: this node leaves the job in order", second.err)
        begun = first.out.count("Epoch")
        wait_until(lambda: first.out.count("Epoch") > begun + 2, lambda: first)
        first.process.send_signal(signal.SIGUSR1)
        self.assertEqual(first.wait(), 75, first)

    def test_the_first_signal_after_a_notice_is_the_same_wish(self):
        # The worker saves until it is told that both have come.
        saver = ["sh", "-c", "trap 'until [ -e done ]; do sleep 0.05; done; exit 0' TERM; touch ready; "
                 "while :; do sleep 0.05; done"]
        job = self.start(["--standalone", "--preempt-notice", "file:notice"], saver)
        wait_until((self.folder / "ready").exists, lambda: job)
        (self.folder / "notice").touch()
        wait_until(lambda: SAVES in job.err, lambda: job)
        job.process.send_signal(signal.SIGTERM)
        # It is no second wish: the worker still saves when the agent has long taken it.
        [agent] = children_of(job.pid)
        wait_until(lambda: not pending(agent) and not pending(job.pid), lambda: job)
        [worker] = children_of(agent)
        self.assertTrue(is_alive(worker))
        (self.folder / "done").touch()
        self.assertEqual(job.wait(), 75, job)

    def check_leaves_though(self, number):
        """The machine's shutdown signals the agent while its worker still stops."""
        slow = ["sh", "-c", "trap 'until [ -e done ]; do sleep 0.05; done; exit 0' TERM; "
                "touch ready-$PPID; until [ -e over ]; do sleep 0.05; done"]
        first, second = self.two_nodes("file:notice", "--nnodes", "1:2", "--on-notice", "leave",
                                       program=slow)
        wait_until(lambda: len(list(self.folder.glob("ready-*"))) == 2, lambda: f"{first}\n{second}")
        (self.folder / "notice").touch()
        wait_until(lambda: "this node leaves the job in order" in second.err, lambda: second)
        second.process.send_signal(number)
        [agent] = children_of(second.pid)
        wait_until(lambda: not pending(agent) and not pending(second.pid), lambda: second)
        (self.folder / "done").touch()
        self.assertEqual(second.wait(), 0, f"{first}\n{second}")
        (self.folder / "over").touch()
        self.assertEqual(first.wait(), 0, f"{first}\n{second}")

    def test_a_node_that_leaves_and_gets_sigterm_leaves_the_others_running(self):
        self.check_leaves_though(signal.SIGTERM)

    def test_a_node_that_leaves_and_gets_sigusr2_still_stops_in_order(self):
        self.check_leaves_though(signal.SIGUSR2)

    def test_a_person_who_stops_the_job_after_a_notice_is_the_reason(self):
        saver = ["sh", "-c", "trap '' TERM; touch ready; while :; do sleep 0.05; done"]
        job = self.start(["--standalone", "--preempt-notice", "file:notice"], saver)
        wait_until((self.folder / "ready").exists, lambda: job)
        (self.folder / "notice").touch()
        wait_until(lambda: SAVES in job.err, lambda: job)
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(), 1, job)
        [told] = [line for line in job.err.splitlines() if "job stopped by SIGINT" in line]
        self.assertIn("SIGINT was sent to the agent of node", told)
        self.assertNotIn("notice", told)

    def test_a_token_that_expires_is_renewed(self):
        tokens = ["token-1"]

        def answer(service, method, path, headers):
            return aws(service, method, path, headers, tokens)
        job, service = self.start_watched("aws", answer)
        service.wait_for(1, "instance-action")
        tokens[0] = "token-2"
        service.gone.set()
        self.assertEqual(job.wait(), 75, job)
        self.assertEqual([path for method, path in service.asked if method == "PUT"],
                         ["/latest/api/token"] * 2)
        self.assertEqual(job.err.count("--preempt-notice"), 0, job)

    def test_questions_share_a_connection_and_one_that_was_closed_is_opened_anew(self):
        def answer(service, method, path, headers):
            given = azure(service, method, path, headers)
            # Closed after the answer, without the header that says so.
            return (*given, ("Connection", "close")) if len(service.asked) == 3 else given
        job, service = self.start_watched("azure", answer)
        service.wait_for(4)
        self.assertEqual(service.connections, 2, service.asked)
        service.gone.set()
        self.assertEqual(job.wait(), 75, job)
        self.assertEqual(job.err.count("--preempt-notice"), 0, job)

    def test_what_comes_before_an_answer_or_behind_it_is_none(self):
        def framed(body):
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        events = json.dumps({"DocumentIncarnation": 1, "Events": [AZURE_EVENT]}).encode()
        interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(30)
            job = self.start(["--standalone", "--preempt-notice", "azure"], ["sleep", "600"],
                             DDPRUN_AZURE_METADATA_HOST=f"127.0.0.1:{server.getsockname()[1]}")
            for answer in (interim + framed(b"vm_1") + framed(b"<html>"), framed(events)):
                connection, _ = server.accept()
                with connection:
                    self.assertIn(b"\r\n\r\n", connection.recv(4096))
                    connection.sendall(answer)
                    # Until the other side has closed it: after what came behind, or at its end.
                    connection.settimeout(30)
                    self.assertEqual(connection.recv(4096), b"")
            self.assertEqual(job.wait(), 75, job)
            self.assertIn(f"{CLOUDS['azure'][3]}: {SAVES}", job.err)
            self.assertEqual(job.err.count("--preempt-notice"), 0, job)

    def check_told_once(self, jobs):
        """They wait beside each other, and all have their notice in the end."""
        for job, service, reason in jobs:
            service.gone.set()
        for job, service, reason in jobs:
            with self.subTest(reason):
                self.assertEqual(job.wait(), 75, job)
                told = [line for line in job.err.splitlines() if "--preempt-notice" in line]
                self.assertEqual(len(told), 1, job)
                self.assertIn(f": http://{service.host}: {reason}", told[0])

    def test_nonsense_is_told_once_and_the_job_goes_on(self):
        jobs = []
        for cloud, nonsense, reason in (
                ("azure", (200, "<html>\x1b[2J"), "it answers 200 '<html>?[2J' to GET /metadata/sched"),
                ("azure", (500, "sorry"), "it answers 500 'sorry' to GET /metadata/scheduledevents"),
                ("gcp", (200, "TRUE"), "its answer has no header 'Metadata-Flavor: Google'")):
            def answer(service, method, path, headers, wrong=nonsense, right=CLOUDS[cloud][0]):
                is_name = path.startswith("/metadata/instance")
                wrongs = sum("instance/compute" not in asked for _, asked in service.asked)
                return wrong if not is_name and wrongs <= 2 else right(service, method, path, headers)
            jobs.append((*self.start_watched(cloud, answer, name=f"job{len(jobs)}"), reason))
        self.check_told_once(jobs)

    def test_a_service_that_closes_or_floods_is_told_once_and_asked_again(self):
        jobs = []
        for given, reason in (((200, "x" * 100_000), "body limit exceeded; this seems to be no machine"),
                              (None, "it closed the connection before the answer was complete; this seems")):
            def answer(service, method, path, headers, broken=given):
                return broken if len(service.asked) <= 3 else azure(service, method, path, headers)
            jobs.append((*self.start_watched("azure", answer, name=f"job{len(jobs)}"), reason))
        self.check_told_once(jobs)

    def test_where_there_is_no_cloud_one_line_says_so_and_the_job_succeeds(self):
        port = free_port()
        job = self.start(["--standalone", "--preempt-notice", "aws,gcp"],
                         ["sh", "-c", "until [ -e over ]; do sleep 0.05; done"],
                         AWS_EC2_METADATA_SERVICE_ENDPOINT=f"http://127.0.0.1:{port}",
                         GCE_METADATA_HOST=f"localhost:{port}")
        wait_until(lambda: job.err.count("asked again once a minute") >= 2, lambda: job)
        (self.folder / "over").touch()
        self.assertEqual(job.wait(), 0, job)
        told = sorted(line for line in job.err.splitlines() if "--preempt-notice" in line)
        self.assertEqual(len(told), 2, job)
        self.assertIn(f"aws: http://127.0.0.1:{port}: Connection refused", told[0])
        self.assertIn(f"gcp: http://localhost:{port}: Connection refused", told[1])

    def test_a_service_that_accepts_and_says_nothing_holds_nothing_up(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            job = self.start(["--standalone", "--preempt-notice", "azure,file:notice"],
                             ["sleep", "600"],
                             DDPRUN_AZURE_METADATA_HOST=f"127.0.0.1:{silent.getsockname()[1]}")
            connection, _ = silent.accept()
            self.assertIn(b"GET /metadata/instance/compute/name", connection.recv(4096))
            (self.folder / "notice").write_text("a person says so")
            self.assertEqual(job.wait(), 75, job)
            self.assertIn(f"file notice: a person says so: {SAVES}", job.err)
            connection.close()


if __name__ == "__main__":
    skip.main()
