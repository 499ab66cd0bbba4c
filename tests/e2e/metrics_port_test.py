"""What programs and strangers ask at --metrics-port: HTTP.
usage: metrics_port_test.py DDPRUN DDPCTL TRAIN [TEST...]"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import browser  # noqa: E402
import skip  # noqa: E402
from free_port import free_port  # noqa: E402
from operated_job import FAILS, TRAIN, WAITS, Jobs, exchange, get, main  # noqa: E402
from program import children_of, wait_until  # noqa: E402


class Metrics(Jobs):
    def test_metrics_are_what_prometheus_reads(self):
        first, _ = self.start_nodes("2", FAILS, "--max-restarts", "3", "--metrics-port", "0")
        address = self.metrics_address(first)
        wait_until(lambda: "ddprun_incidents_total 1\n" in get(address, "/metrics")[1], lambda: first)
        status, text = get(address, "/metrics")
        self.assertEqual(status, 200)
        for line in ("ddprun_restarts_total 1", 'ddprun_job_state{state="running"} 1',
                     'ddprun_nodes{state="working"} 2', "ddprun_restarts_left 2",
                     "# TYPE ddprun_incidents_total counter"):
            self.assertIn(line + "\n", text)
        self.assertRegex(text, r'ddprun_downtime_seconds\{kind="worker_failed"\} [0-9.e-]+\n')
        # Each sample belongs to a family that was told before it, and is there once.
        seen, kinds = set(), {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                kinds[line.split()[2]] = line.split()[3]
            elif not line.startswith("#"):
                series = line.rpartition(" ")[0]
                name = series.partition("{")[0]
                self.assertIn(name, kinds)
                self.assertEqual(kinds[name] == "counter", name.endswith("_total"))
                self.assertNotIn(series, seen)
                seen.add(series)
                float(line.rpartition(" ")[2])

    def test_promtool_has_nothing_against_them(self):
        promtool = shutil.which("promtool")
        skip.need("program", promtool, "promtool (of Prometheus) is not installed")
        agent = self.start_alone("--metrics-port", "0", TRAIN, "linear", "1000000", "10")
        address = self.metrics_address(agent)
        wait_until(lambda: "ddprun_checkpoint_number" in get(address, "/metrics")[1], lambda: agent)
        done = subprocess.run([promtool, "check", "metrics"], input=get(address, "/metrics")[1],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_health_is_200_while_it_gathers_and_503_with_the_reason_while_it_ends(self):
        port = free_port()
        agent = self.start("--nnodes", "1:2", "--rdzv-endpoint", self.endpoint, "--rdzv-conf",
                           "last_call_timeout=2", "--metrics-port", str(port), "--preempt-grace", "20s",
                           "sh", "-c", "trap '' TERM; echo here; while :; do sleep 1000 & wait; done")
        address = f"127.0.0.1:{port}"

        def answers():
            try:
                return get(address, "/healthz")
            except urllib.error.URLError:
                return None
        self.assertEqual(wait_until(answers, lambda: agent), (200, "ok\n"))
        wait_until(lambda: "here" in agent.out, lambda: agent)
        self.assertEqual(get(address, "/healthz"), (200, "ok\n"))
        self.told(agent, "stop")
        status, why = wait_until(lambda: (lambda told: told[0] != 200 and told)(get(address, "/healthz")),
                                 lambda: agent)
        self.assertEqual(status, 503)
        self.assertTrue(why.startswith("the job ends: SIGTERM was sent to "), why)
        self.told(agent, "stop")
        agent.wait()

    def test_every_node_is_unhealthy_while_the_job_saves_for_its_end(self):
        waits = "trap '' TERM USR1; echo here; while :; do sleep 1000 & wait; done"
        first, second = self.start_nodes("2", ["sh", "-c", waits], "--metrics-port", "0",
                                         "--preempt-grace", "60s")
        at = {agent: self.metrics_address(agent) for agent in (first, second)}
        for agent in at:
            wait_until(lambda: "here" in agent.out, lambda: agent)
            self.assertEqual(get(at[agent], "/healthz"), (200, "ok\n"))
        self.told(second, "save")
        for agent in at:
            # The coordinator knows of the end a moment before its own agent has the order.
            status, _ = wait_until(
                lambda: (lambda told: "the job ends: SIGUSR1 was sent to " in told[1] and told)(
                    get(at[agent], "/healthz")), lambda: agent)
            self.assertEqual(status, 503)
            self.assertIn("ddprun_healthy 0\n", get(at[agent], "/metrics")[1])
        for worker in [self.status(agent)["workers"][0] for agent in at]:
            self.assertTrue(worker["running"])
            os.kill(worker["pid"], signal.SIGKILL)
        for agent in at:
            agent.wait()

    def test_the_port_that_was_chosen_is_told_at_any_log_level(self):
        self.environment["LOGLEVEL"] = "CRITICAL"
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        self.assertEqual(get(self.metrics_address(agent), "/healthz"), (200, "ok\n"))

    def test_a_port_that_cannot_be_had_is_one_sentence(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for words, code, what in (
                    (["--metrics-port", port], 1, "Address already in use"),
                    (["--metrics-port", "70000"], 1, "is not a port"),
                    (["--metrics-port", "0", "--metrics-address", "localhost"], 1, "numeric"),
                    (["--metrics-address", "::1"], 1, "without --metrics-port"),
                    (["--metrics-port", "x"], 2, "--metrics-port")):
                with self.subTest(words):
                    agent = self.start("--standalone", *words, *WAITS)
                    self.assertEqual(agent.wait(), code, agent)
                    self.assertEqual(len(agent.err.splitlines()), 1, agent)
                    self.assertIn(what, agent.err)

    def test_the_page_needs_nothing_but_the_status(self):
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        address = self.metrics_address(agent)
        with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
            page = answer.read().decode()
            self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
            self.assertEqual(answer.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertTrue(page.endswith("</script>\n"))
        self.assertNotIn("://", page)
        self.assertNotIn("innerHTML", page)
        # What it shows are fields of the status.
        status = json.loads(get(address, "/status.json")[1])
        fields = set(re.findall(r"\bstatus\.(\w+)", page)) - {"json"}  # the name of the file
        self.assertLessEqual(fields, set(status), fields - set(status))
        self.assertLessEqual(set(re.findall(r"\bworker\.(\w+)", page)), set(status["workers"][0]))
        self.assertLessEqual(set(re.findall(r"\baccounts\.(\w+_ms)", page)), set(status["accounts"]))

    def test_the_last_lines_of_workers_are_text(self):
        line = "<script>document.title = 'taken'</script>"
        says = ["sh", "-c", f"""echo "{line}" >&2; seq 60; printf 'a\\033[31mb\\n'; exec sleep 1000"""]
        agent = self.start_alone("--metrics-port", "0", "--redirects", "1", *says)
        address = self.metrics_address(agent)
        text = wait_until(lambda: (lambda told: "[rank 0 stdout] ab" in told and told)(
            get(address, "/log.txt")[1]), lambda: agent)
        # stderr comes by a pipe here, stdout from its file; both together fill a screen.
        self.assertEqual(text.splitlines()[-2:], ["[rank 0 stdout] ab", f"[rank 0 stderr] {line}"])
        self.assertEqual(len(text.splitlines()), 50)
        skip.need("program", browser.program(), "chromium, which shows the page")
        with contextlib.closing(browser.Page(self.folder, f"http://{address}/", 390)) as page:
            shown = wait_until(lambda: (lambda told: told and line in told and told)(
                page.value("document.getElementById('log').textContent")), "the page shows the lines")
            self.assertEqual(shown, text)
            self.assertEqual(page.value("document.title"), "ddprun")
            self.assertLessEqual(page.value("document.documentElement.scrollWidth"), 390)
            self.assertIn("sh", page.value("document.getElementById('job').textContent"))

    def test_the_page_has_each_incident_where_it_happened(self):
        skip.need("program", browser.program(), "chromium, which shows the page")
        fails = ["sh", "-c", "[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exec sleep 1000; exit 3"]
        agent = self.start_alone("--metrics-port", "0", "--max-restarts", "2", *fails)
        with contextlib.closing(browser.Page(self.folder, f"http://{self.metrics_address(agent)}/", 390)) as page:
            left = "[...document.querySelectorAll('#line div:not(.start)')].map(mark => parseFloat(mark.style.left))"
            places = wait_until(lambda: (lambda told: told and len(told) == 2 and told)(page.value(left)),
                                "the page shows two incidents")
            self.assertEqual(places, sorted(places))
            self.assertTrue(all(0 <= place <= 100 for place in places), places)
            self.assertIn("2 incidents", page.value("document.getElementById('line').getAttribute('aria-label')"))
            self.assertLessEqual(page.value("document.documentElement.scrollWidth"), 390)

    def test_head_tells_all_but_the_body(self):
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        host, port = self.metrics_address(agent).split(":")
        for path in ("/", "/log.txt", "/metrics", "/healthz", "/status.json"):
            with self.subTest(path):
                answer = exchange(lambda: socket.create_connection((host, int(port)), timeout=10),
                                  f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
                self.assertIn(b"\r\nContent-Length: ", answer)
                self.assertTrue(answer.endswith(b"\r\n\r\n"), answer)

    def test_a_path_is_asked_for_as_a_proxy_does_and_only_to_be_read(self):
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        host, port = self.metrics_address(agent).split(":")
        for request, code, told in ((b"GET http://x/healthz", b" 200 ", b"\r\n\r\nok\n"),
                                    (b"GET http://x", b" 200 ", b"<title>ddprun"),
                                    (b"DELETE /healthz", b" 405 ", b"\r\nAllow: GET, HEAD\r\n")):
            with self.subTest(request):
                answer = exchange(lambda: socket.create_connection((host, int(port)), timeout=10),
                                  request + b" HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertIn(code, answer.split(b"\r\n")[0])
                self.assertIn(told, answer)

    def test_over_tcp_nothing_can_be_ordered(self):
        agent = self.start_alone("--metrics-port", "0", *WAITS)
        address = self.metrics_address(agent)
        for path in ("/stop", "/save", "/drain", "/stacks", "/x", "/metrics/.."):
            request = urllib.request.Request(f"http://{address}{path}", method="POST", data=b"")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=10)
            self.assertEqual(refused.exception.code, 404)
        self.assertEqual(get(address, "/healthz"), (200, "ok\n"))


class Attacks(Jobs):
    def setUp(self):
        super().setUp()
        self.agent = self.start_alone("--metrics-port", "0", *WAITS)
        host, port = self.metrics_address(self.agent).split(":")
        self.place = (host, int(port))

    def connect(self):
        return socket.create_connection(self.place, timeout=10)

    def open_sockets(self):
        [own] = children_of(self.agent.pid)
        fds = pathlib.Path(f"/proc/{own}/fd")
        return sum("socket:" in os.readlink(fd) for fd in fds.iterdir() if fd.is_symlink())

    def has_taken(self, client):
        """Whether a process has the other end of that connection; false again once it has closed it."""
        ends = [self.place[1], client.getsockname()[1]]
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if [int(end.split(":")[1], 16) for end in fields[1:3]] == ends:
                return fields[9] != "0"  # the inode
        return False

    def check_it_serves(self):
        self.assertEqual(get("{}:{}".format(*self.place), "/healthz"), (200, "ok\n"))

    def test_what_is_too_long_or_no_http_is_refused(self):
        head = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
        for request, code in ((head + b"X: " + b"y" * 20_000 + b"\r\n\r\n", b" 431 "),
                              (b"GET /" + b"z" * 20_000 + b" HTTP/1.1\r\n\r\n", b" 431 "),
                              (b"\x00\x01\x02\r\n\r\n", b" 400 "),
                              (b"POST /metrics HTTP/1.1\r\nContent-Length: 999999\r\n\r\n", b" 413 "),
                              (head + b"Content-Length: -1\r\n\r\n", b" 400 "),
                              (b"PUT /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b" 405 "),
                              (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", b" 404 ")):
            with self.subTest(request[:40]):
                self.assertIn(code, exchange(self.connect, request).split(b"\r\n")[0])
        self.check_it_serves()

    def test_bytes_at_random_do_no_harm(self):
        import random
        dice = random.Random(17)
        good = b"GET /status.json?rank=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for _ in range(100):
            bad = bytearray(good)
            for _ in range(dice.randrange(1, 8)):
                at = dice.randrange(len(bad))
                if dice.random() < 0.5:
                    bad[at] = dice.randrange(256)
                else:
                    del bad[at:at + dice.randrange(1, 9)]
                bad = bad or bytearray(b"x")
            with self.connect() as client:
                client.sendall(bytes(bad))
                client.shutdown(socket.SHUT_WR)
        self.check_it_serves()

    def test_who_sends_nothing_is_ended_and_keeps_nobody_out(self):
        idle = [self.connect() for _ in range(40)]
        for one in idle:
            self.addCleanup(one.close)
            one.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        # All are taken, and no more than a few are kept.
        self.check_it_serves()
        self.assertLess(self.open_sockets(), 30)
        for one in idle:
            one.settimeout(20)
            try:
                self.assertEqual(one.recv(1), b"")  # within the server's five seconds
            except ConnectionResetError:
                pass

    def test_who_does_not_read_is_ended(self):
        with self.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            wait_until(lambda: self.has_taken(client), "the agent takes the connection")
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: not self.has_taken(client), "the agent closes its end")
        self.check_it_serves()


if __name__ == "__main__":
    main()
