"""A page as a browser shows it: Chromium without a window, told what to do over pipes by the words of its
DevTools protocol. The program is found by its name, and a test without it is skipped."""
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

PATIENCE = 60  # seconds for one answer


def program():
    """None: it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One page at `url`. `width`: of the window, in the page's own pixels. Its profile is in `folder`."""

    def __init__(self, folder, url, width):
        requests, self._say = os.pipe()
        self._hear, answers = os.pipe()
        command = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile",
                   "about:blank"]

        def place():
            """The descriptors 3 and 4 are where it reads and writes; ours may have these numbers."""
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (requests, answers)]
            for number, end in zip((3, 4), ends):
                os.dup2(end, number)
                os.close(end)
        self._process = subprocess.Popen(command, preexec_fn=place, pass_fds=(3, 4),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        os.close(requests)
        os.close(answers)
        self._bytes, self._count, self._session = b"", 0, {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target,
                                                flatten=True)["sessionId"]}
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1,
                  mobile=width < 500)
        self.call("Page.navigate", url=url)

    def call(self, method, **params):
        self._count += 1
        words = {"id": self._count, "method": method, "params": params, **self._session}
        os.write(self._say, json.dumps(words).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            message, mark, rest = self._bytes.partition(b"\0")
            if not mark:
                self._read(until)
                continue
            self._bytes = rest
            answer = json.loads(message)
            if answer.get("id") == self._count:  # else an event
                return answer["result"]

    def _read(self, until):
        if not select.select([self._hear], [], [], max(0, until - time.monotonic()))[0]:
            raise AssertionError(f"the browser does not answer within {PATIENCE} s")
        more = os.read(self._hear, 1 << 20)
        if not more:
            raise AssertionError("the browser has ended")
        self._bytes += more

    def value(self, expression):
        """Of an expression of the page's script."""
        return self.call("Runtime.evaluate", expression=expression,
                         returnByValue=True)["result"].get("value")

    def close(self):
        self._session = {}
        try:
            self.call("Browser.close")
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._say)
            os.close(self._hear)
