"""The built ddprun as a service (sd_notify(3)): what the socket of a manager gets to read. The manager
is this test.
usage: service_manager_test.py DDPRUN [TEST...]"""
import os
import pathlib
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402
from program import PATIENCE, Program, children_of, wait_until  # noqa: E402

DDPRUN = os.path.abspath(sys.argv.pop(1))
BEAT = 0.05  # seconds; half of the watchdog's time
# A worker that runs until somebody opens its pipe, or it is ended.
WAITS = ["sh", "-c", 'env >environment; exec cat pipe']


class Service(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-service-"))
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkfifo(self.folder / "pipe")
        self.told = []  # (name, value), in their order

    def listen(self, address):
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(address.replace("@", "\0"))
        self.manager.settimeout(0.01)
        return address

    def start(self, program, notify_socket, watchdog="$$", usec=round(2e6 * BEAT)):
        """As the manager does: WATCHDOG_PID is the process that becomes ddprun."""
        words = [DDPRUN, "--standalone", *program]
        command = f"WATCHDOG_PID={watchdog} exec {shlex.join(words)}"
        environment = {**os.environ, "NOTIFY_SOCKET": notify_socket, "WATCHDOG_USEC": str(usec),
                       "TMPDIR": str(self.folder)}
        service = Program(self.folder, "service", ["sh", "-c", command], env=environment,
                          cwd=self.folder)
        self.addCleanup(service.end)
        return service

    def read(self):
        """What the manager was told since it last read."""
        try:
            lines = self.manager.recv(4096).decode().splitlines()
        except TimeoutError:
            return
        self.told += [tuple(line.split("=", 1)) for line in lines]

    def wait_for(self, name, value=None):
        def has_come():
            self.read()
            return [told for told in self.told if told[0] == name and value in (None, told[1])]
        return wait_until(has_come, lambda: f"{name}={value or '...'} among {self.told}")

    def beats(self):
        return self.told.count(("WATCHDOG", "1"))

    def test_a_service_is_ready_then_alive_then_stopping(self):
        for name in (str(self.folder / "notify"), f"@ddprun-test-{os.getpid()}"):
            with self.subTest(name):
                self.told = []
                service = self.start(WAITS, self.listen(name))
                self.wait_for("READY", "1")
                self.wait_for("STATUS", "attempt 0, world size 1")
                before = self.beats()
                wait_until(lambda: self.read() or self.beats() >= before + 3, lambda: self.told)
                self.assertNotIn(("STOPPING", "1"), self.told)
                wait_until((self.folder / "environment").exists, "the worker's environment")
                service.process.send_signal(signal.SIGTERM)
                self.wait_for("STOPPING", "1")
                self.assertEqual(service.wait(), 1, service)
                self.assertEqual(self.told.count(("READY", "1")), 1)
                self.assertEqual(self.told.count(("STOPPING", "1")), 1)
                given = (self.folder / "environment").read_text()
                self.assertIn("WORLD_SIZE=1", given)
                for variable in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
                    self.assertNotIn(variable, given)

    def test_a_loop_that_stands_still_does_not_feed_the_watchdog(self):
        service = self.start(WAITS, self.listen(str(self.folder / "notify")))
        self.wait_for("STATUS", "attempt 0, world size 1")
        [agent] = children_of(service.pid)
        os.kill(agent, signal.SIGSTOP)
        self.addCleanup(os.kill, agent, signal.SIGCONT)
        # What it had sent before may still be there to read, and no more comes.
        quiet_since = time.monotonic()
        deadline = quiet_since + PATIENCE
        while time.monotonic() < quiet_since + 8 * BEAT:
            self.assertLess(time.monotonic(), deadline, "the watchdog of a stopped agent is fed")
            had = len(self.told)
            self.read()
            if len(self.told) > had:
                quiet_since = time.monotonic()
        os.kill(agent, signal.SIGCONT)
        had = self.beats()
        wait_until(lambda: self.read() or self.beats() > had, lambda: self.told)

    def test_the_status_shows_the_step(self):
        train = pathlib.Path(DDPRUN).parent / "train"
        self.start([str(train), "linear", "1000000", "1000000"], self.listen(str(self.folder / "notify")))
        wait_until(lambda: self.read() or [value for name, value in self.told if name == "STATUS" and
                                           value.startswith("attempt 0, world size 1, step ")],
                   lambda: self.told)

    def test_the_watchdog_of_another_process_is_left_alone(self):
        service = self.start(["true"], self.listen(str(self.folder / "notify")), watchdog="1")
        self.wait_for("STOPPING", "1")
        self.assertEqual(service.wait(), 0, service)
        self.assertIn(("READY", "1"), self.told)
        self.assertEqual(self.beats(), 0)

    def test_a_manager_that_does_not_read_holds_nothing_up(self):
        # A beat each millisecond: the queue of the socket is full soon.
        service = self.start(WAITS, self.listen(str(self.folder / "notify")), usec=2000)
        wait_until((self.folder / "environment").exists, "the worker's environment")
        with open(self.folder / "pipe", "w", encoding="utf-8"):
            pass  # the worker reads the end of its pipe, and ends
        self.assertEqual(service.wait(), 0, service)
        self.assertEqual(service.err, "")

    def test_a_bad_socket_is_a_warning_and_no_more(self):
        for address, reason in (("notify", "neither a path from / nor an abstract name"),
                                (str(self.folder / "nobody"), "No such file or directory"),
                                ("@" + "x" * 200, "longer than a socket's address")):
            with self.subTest(address):
                service = self.start(["true"], address)
                self.assertEqual(service.wait(), 0, service)
                self.assertEqual(len(service.err.splitlines()), 1, service)
                self.assertIn(f"NOTIFY_SOCKET='{address}'", service.err)
                self.assertIn(reason, service.err)

    def test_what_the_variables_hold_stays_on_its_line(self):
        for name, value in (("NOTIFY_SOCKET", "x\n\x1b[2Jy"), ("WATCHDOG_USEC", "1\n\x1b[2J2")):
            with self.subTest(name):
                socket_path = self.listen(f"@ddprun-test-{name}-{os.getpid()}")
                service = self.start(["true"], value if name == "NOTIFY_SOCKET" else socket_path,
                                     usec=value if name == "WATCHDOG_USEC" else 1000000)
                self.assertEqual(service.wait(), 0, service)
                self.assertEqual(len(service.err.splitlines()), 1, service)
                told = value.replace("\n", "?").replace("\x1b", "?")
                self.assertIn(f"{name}='{told}'", service.err)

    def test_a_bad_watchdog_is_a_warning_and_no_more(self):
        service = self.start(["true"], self.listen(str(self.folder / "notify")), usec="soon")
        self.assertEqual(service.wait(), 0, service)
        self.assertEqual(len(service.err.splitlines()), 1, service)
        self.assertIn("WATCHDOG_USEC='soon'", service.err)


if __name__ == "__main__":
    skip.main()
