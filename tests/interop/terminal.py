"""A terminal with a program in it, as a person would have it: a pseudo-terminal of our own, which is
the program's controlling terminal."""
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time


class Terminal:
    """Starts `command` with the terminal as its stdin, stdout and stderr."""

    def __init__(self, command, env, cwd, columns=80, rows=24):
        self.screen = b""
        self.code = None
        self._ended = False
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.execve(command[0], command, env)
            finally:
                os._exit(127)
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self._fd, keys)

    def _read(self, seconds):
        if self._ended or not select.select([self._fd], [], [], seconds)[0]:
            return
        try:
            got = os.read(self._fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # the terminal's end
                raise
            got = b""
        self.screen += got
        self._ended = not got

    def wait_for(self, text, seconds=60):
        """Until the screen has shown `text`."""
        deadline = time.monotonic() + seconds
        while text not in self.screen:
            if self._ended or time.monotonic() > deadline:
                raise AssertionError(f"never shown: {text!r}; but:\n{self}")
            self._read(0.1)

    def wait(self, seconds=60):
        """Until the program has ended; its exit code."""
        deadline = time.monotonic() + seconds
        while not self._ended:
            if time.monotonic() > deadline:
                raise AssertionError(f"still running after {seconds} s:\n{self}")
            self._read(0.1)
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def end(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGTERM)
            try:
                self.wait(5)
            except AssertionError:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        os.close(self._fd)

    def __str__(self):
        return self.screen.decode(errors="replace")
