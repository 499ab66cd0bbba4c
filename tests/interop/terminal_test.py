"""ddprun where people sit: in a terminal. Workers are plain Python or shell programs."""
import os
import sys

import interop
from in_step import WORKER, InStep
from terminal import Terminal

# What each line is written with: one call, so that no other worker's comes between.
SAY = """
import os, sys, time
def say(fd, text):
    os.write(fd, text.encode())
rank = int(os.environ["RANK"])
"""
SAME = r'say(1, "same out\n"); say(2, "same err\n")'


class InATerminal(interop.JobTest):
    needs_torch = False

    def open(self, *words, shell=None, variables=None, **size):
        command = [str(word) for word in [interop.DDPRUN, *words]]
        if shell:
            command = ["/bin/sh", "-c", shell, *command]
        env = interop.environment(PYTHON_EXEC=sys.executable, TERM="xterm-256color",
                                  **(variables or {}))
        terminal = Terminal(command, env, self.folder, **size)
        self.addCleanup(terminal.end)
        return terminal

    def script(self, text):
        return self.write("worker.py", SAY + text)

    def test_workers_see_a_terminal_and_nothing_else_is_open(self):
        script = self.script("""
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
opened = [fd for fd in fds if os.path.exists(f"/proc/self/fd/{fd}")]
try:
    os.close(os.open("/dev/tty", os.O_RDWR)); controlling = True
except OSError:
    controlling = False
say(1, f"{os.isatty(0)} {os.isatty(1)} {os.isatty(2)} {opened} {controlling} "
       f"{os.environ['TERM']} {os.get_terminal_size(2)}\\n")
""")
        terminal = self.open(script, columns=101, rows=37)
        self.assertEqual(terminal.wait(), 0)
        self.assertIn("True True True [0, 1, 2] False xterm-256color "
                      "os.terminal_size(columns=101, lines=37)\r\n", str(terminal))

    def test_the_size_of_the_window_is_followed(self):
        script = self.script("""
say(1, "ready\\n")
deadline = time.monotonic() + 60
while os.get_terminal_size(1) != (132, 43) or os.get_terminal_size(2) != (132, 43):
    if time.monotonic() > deadline:
        sys.exit("the size never changed")
    time.sleep(0.01)
""")
        terminal = self.open("--nproc-per-node", 2, script)
        terminal.wait_for(b"ready")
        terminal.resize(132, 43)
        self.assertEqual(terminal.wait(), 0, str(terminal))

    def test_workers_are_signalled_when_the_window_changes_its_size(self):
        script = self.script("""
import signal
seen = []
signal.signal(signal.SIGWINCH, lambda *_: seen.append(os.get_terminal_size(1)))
say(1, f"ready {rank}\\n")
deadline = time.monotonic() + 20
while (132, 43) not in seen:
    if time.monotonic() > deadline:
        sys.exit("no SIGWINCH came")
    time.sleep(0.01)
say(1, f"size {rank} {tuple(seen[-1])}\\n")
""")
        terminal = self.open("--nproc-per-node", 2, script)
        for rank in range(2):
            terminal.wait_for(b"ready %d" % rank)
        terminal.resize(132, 43)
        self.assertEqual(terminal.wait(), 0, str(terminal))
        for rank in range(2):
            self.assertIn(f"size {rank} (132, 43)", str(terminal))

    def test_equal_lines_are_folded_and_line_ends_are_as_ever(self):
        screen = self.fold_on_a_terminal(r'say(2, "\x1b[33mthe same warning\x1b[0m\n")')
        self.assertEqual(screen, "[0-7] \x1b[33mthe same warning\x1b[0m\r\n")

    def fold_on_a_terminal(self, says, *options, shell=None, **env):
        """Eight workers do what `says` says in step; what the terminal has shown."""
        workers = InStep(self, 8)
        script = self.script(f"{WORKER}\nbefore()\n{says}\nafter()\n")
        terminal = self.open("--nproc-per-node", 8, *options, script, shell=shell, **env)
        workers.let_write()
        self.assertEqual(terminal.wait(), 0, str(terminal))
        return str(terminal)

    def test_each_stream_folds_for_itself_where_only_stderr_is_a_terminal(self):
        screen = self.fold_on_a_terminal(SAME, "--tee", 3, shell='"$0" "$@" > out')
        out = (self.folder / "out").read_text()
        self.assertEqual(sorted(out.split("\n")),
                         [""] + [f"[default{rank}]:same out" for rank in range(8)])
        self.assertEqual(screen, "[default0-7]:same err\r\n")

    def test_a_template_of_the_users_is_never_folded(self):
        screen = self.fold_on_a_terminal(
            SAME, "--tee", 3, variables={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${rank}> "})
        for rank in range(8):
            self.assertEqual(screen.count(f"<{rank}> same out\r\n"), 1, screen)
            self.assertEqual(screen.count(f"<{rank}> same err\r\n"), 1, screen)

    def test_stdout_and_stderr_of_a_worker_keep_their_order(self):
        script = self.script("""
for i in range(200):
    say(1 + i % 2, f"line {i}\\n")
""")
        for nproc in (1, 2):
            terminal = self.open("--nproc-per-node", nproc, "--local-ranks-filter", 0, script)
            self.assertEqual(terminal.wait(), 0)
            self.assertEqual(str(terminal), "".join(f"line {i}\r\n" for i in range(200)))

    def test_the_progress_bar_of_one_rank_looks_as_without_ddprun(self):
        script = self.script("""
if rank == 0:
    for i in range(101):
        say(2, f"\\r{i:3}%|" + "#" * (i // 5))
    say(2, "\\n")
""")
        terminal = self.open("--nproc-per-node", 4, script)
        self.assertEqual(terminal.wait(), 0)
        bar = "".join(f"\r{i:3}%|" + "#" * (i // 5) for i in range(101))
        self.assertEqual(str(terminal), bar + "\r\n")

    def test_a_prompt_is_shown_before_its_line_ends(self):
        script = self.script("""
if rank == 0:
    say(1, "continue? ")
    open("go").close()
    say(1, "yes\\n")
""")
        os.mkfifo(self.folder / "go")
        terminal = self.open("--nproc-per-node", 2, script)
        terminal.wait_for(b"continue? ")
        os.close(os.open(self.folder / "go", os.O_WRONLY))
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual(str(terminal), "continue? yes\r\n")

    def test_I19_the_last_lines_of_stderr_are_in_the_report_without_a_decorator(self):
        script = self.script("""
if rank == 1:
    say(2, "".join(f"\\r{i}%" for i in range(1000)) + "\\n")
    say(2, "\\x1b[31mValueError: the reason\\x1b[0m\\n")
    os._exit(3)
time.sleep(1000)
""")
        terminal = self.open("--nproc-per-node", 2, script)
        self.assertEqual(terminal.wait(), 1)
        shown = str(terminal)
        report = shown[shown.index("Root Cause"):]
        self.assertIn("last line of stderr: ValueError: the reason\r\n", report)
        self.assertIn("999%", report)
        self.assertNotIn("998%", report)
        self.assertNotIn("\x1b", report)

    def test_ctrl_c_ends_the_job(self):
        script = self.script("""
import signal
def stop(*_):
    say(1, f"stopped {rank}\\n"); os._exit(0)
signal.signal(signal.SIGINT, stop)
say(1, f"ready {rank}\\n")
time.sleep(1000)
""")
        terminal = self.open("--nproc-per-node", 2, script)
        for rank in range(2):
            terminal.wait_for(b"ready %d\r\n" % rank)
        terminal.type(b"\x03")
        self.assertEqual(terminal.wait(), 1)
        for rank in range(2):
            self.assertIn(f"stopped {rank}\r\n", str(terminal))

    def test_stdout_into_a_pipe_is_data_while_stderr_is_on_the_terminal(self):
        script = self.script("""
say(1, "data\\n")
say(2, f"{os.isatty(1)} {os.isatty(2)} {rank}\\n")
""")
        terminal = self.open("--nproc-per-node", 4, script, shell='"$0" "$@" | wc -l')
        self.assertEqual(terminal.wait(), 0)
        for rank in range(4):
            self.assertIn(f"False True {rank}\r\n", str(terminal))
        self.assertIn("4\r\n", str(terminal).splitlines(keepends=True)[-1])

    def test_a_grandchild_that_keeps_the_terminal_does_not_hold_the_job(self):
        terminal = self.open("--nproc-per-node", 2, "sh", "-c",
                             "setsid sleep 1000 & echo worker $RANK")
        self.assertEqual(terminal.wait(), 0)
        for rank in range(2):
            self.assertIn(f"worker {rank}\r\n", str(terminal))

    def test_a_flood_on_the_terminal_does_not_hold_up_the_end_of_the_job(self):
        terminal = self.open("--nproc-per-node", 2, "sh", "-c",
                             'if [ $RANK = 0 ]; then yes flooding | head -n 100000; : >flood; '
                             'exec yes flooding; fi; '
                             'until [ -e flood ]; do sleep 0.01; done; echo the reason >&2; exit 7')
        self.assertEqual(terminal.wait(), 1)
        tail = terminal.screen[-20000:].decode()
        self.assertIn("last line of stderr: the reason", tail)
        self.assertNotIn("\r\r", tail)


if __name__ == "__main__":
    interop.main()
