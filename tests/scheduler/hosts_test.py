"""`ddprun --hosts` and `--hostfile` over real ssh: one shell, several hosts, one job. Each host is a network
namespace with an sshd of its own (ssh_hosts.py)."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import namespaces  # noqa: E402
import skip  # noqa: E402
import ssh_hosts  # noqa: E402
from program import children_of, family_of, parent_of, wait_until  # noqa: E402

BIN = pathlib.Path(os.environ.get("DDPRUN_BIN_DIR", ROOT / "build" / "bin"))
MISSING = ssh_hosts.missing()
MANY = 40
DOWN = 3  # of the hosts, one has no sshd
BARE = 4  # and another has a folder of its own where all others see the same one
HOSTS = None


def setUpModule():
    global HOSTS
    if MISSING:
        skip.need(MISSING[0], False, MISSING[1])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-ssh-"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    os.environ.update(PATH=f"{BIN}:{os.environ['PATH']}", OMP_NUM_THREADS="1")
    HOSTS = ssh_hosts.SshHosts(folder, MANY, down=[DOWN], hidden={BARE: folder / "only" / "shared"})
    unittest.addModuleCleanup(HOSTS.close)


class Hosts(unittest.TestCase):
    def setUp(self):
        self.folder = HOSTS.folder / self.id().rsplit(".", 1)[1]
        self.folder.mkdir()

    def start(self, *words, hosts="node0,node1,node2", ssh=None, program="ddprun", **how):
        named = ["--hosts", hosts] if hosts else []
        started = HOSTS.start(program, *named, "--ssh-command", ssh or HOSTS.ssh, *words,
                              folder=self.folder, **how)
        self.addCleanup(started.end)
        return started

    def run_to_end(self, *words, code=0, **how):
        done = self.start(*words, **how)
        self.assertEqual(done.wait(60), code, str(done))
        self.assertNothingIsLeft()
        return done

    def assertNothingIsLeft(self):
        wait_until(lambda: not HOSTS.left(), lambda: f"nothing of the job is left, but {HOSTS.left()}", 20)

    def wait_for_lines(self, job, count, pattern):
        wait_until(lambda: len(re.findall(pattern, job.out, re.M)) >= count,
                   lambda: f"{count} times {pattern!r} in:\n{job}", 60)

    # ---- a job and its end -----------------------------------------------------------------------

    def test_three_hosts_train_as_one_job(self):
        done = self.run_to_end("train", "linear", "2", "1")
        found = set(re.findall(r"^\[node(\d)\] \[CPU(\d)\] Epoch 1 ", done.out, re.M))
        self.assertEqual(found, {("0", "0"), ("1", "1"), ("2", "2")}, str(done))
        self.assertIn("Training finished: 2 epochs", done.out)

    def test_nobody_else_joins_a_job_that_was_started_as_one(self):
        job = self.start("bash", "-c", "echo $TORCHELASTIC_RUN_ID at ${DDPRUN_JOB_TOKEN-none}; read < $0",
                         self.gate())
        self.wait_for_lines(job, 3, r"at none$")
        agent = next(pid for pid in family_of(job.pid) if "--node-rank=0" in ssh_hosts.command_line(pid))
        words = ssh_hosts.command_line(agent).split()
        variables = pathlib.Path(f"/proc/{agent}/environ").read_text()
        secret = re.search(r"\0DDPRUN_JOB_TOKEN=([^\0]{16,})\0", f"\0{variables}")[1]
        self.assertNotIn(secret, " ".join(words))
        endpoint, name = (next(word for word in words if word.startswith(f"--rdzv-{option}="))
                          for option in ("endpoint", "id"))
        stranger = HOSTS.start("ddprun", "--nnodes", "3", endpoint, name, "--join-timeout", "20", "true",
                               folder=self.folder)
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.wait(60), 1, stranger)
        self.assertIn("the job has a token, and this agent was started without one", stranger.err)
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(60), 1, job)
        self.assertNothingIsLeft()

    def test_a_hostfile_gives_unequal_slots_and_the_order_of_ranks(self):
        file = self.folder / "hosts"
        file.write_text("# our hosts\nnode2 slots=2\n\nroot@node0  # the rest: --nproc-per-node\nnode1:1\n")
        done = self.run_to_end("--hostfile", file, "--nproc-per-node", "3", "bash", "-c",
                               "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE", hosts=None)
        self.assertEqual(sorted(done.out.splitlines()), sorted(
            [f"[node2] {r} of 6, {r} of 2" for r in range(2)] +
            [f"[node0] {2 + r} of 6, {r} of 3" for r in range(3)] + ["[node1] 5 of 6, 0 of 1"]))

    def test_a_failed_worker_restarts_on_all_hosts(self):
        done = self.run_to_end("--max-restarts", "1", "bash", "-c",
                               "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec echo again $RANK; "
                               "[ $RANK = 1 ] && exit 3; exec sleep 100")
        self.assertEqual(sorted(done.out.splitlines()), [f"[node{r}] again {r}" for r in range(3)])

    def test_a_job_that_fails_has_its_own_code(self):
        done = self.run_to_end("bash", "-c", "[ $RANK = 2 ] && exit 3; exec sleep 100", code=1)
        self.assertRegex(done.err, r"(?m)^\[node0\] ddprun: job failed.*rank 2 on node2 exited with code 3")

    def test_many_hosts_are_started_through_a_tree(self):
        names = [name for name in HOSTS.names if name != f"node{DOWN}"]
        job = self.start("--fan-out", "5", "--join-timeout", "60", "bash", "-c",
                         "echo $RANK; read < $0", self.gate(), hosts=",".join(names))
        self.wait_for_lines(job, len(names), r"^\[node\d+\] \d+$")
        wanted = [f"[{name}] {rank}" for rank, name in enumerate(names)]
        self.assertEqual(sorted(job.out.splitlines()), sorted(wanted))
        ssh = [pid for pid in family_of(job.pid) if ssh_hosts.command_line(pid).startswith("ssh ")]
        # Below ddprun itself: four of its own, since its fifth host is this one, and five of the relay here.
        self.assertEqual(len(ssh), 9)
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(60), 1, job)
        self.assertNothingIsLeft()

    def gate(self):
        """A FIFO that nobody opens to write: who reads it waits."""
        os.mkfifo(self.folder / "gate")
        return self.folder / "gate"

    # ---- signals ---------------------------------------------------------------------------------

    def test_ctrl_c_ends_all_hosts(self):
        job = self.start("bash", "-c", "echo up; exec sleep 100")
        self.wait_for_lines(job, 3, "up$")
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(60), 1, job)
        self.assertEqual(len(re.findall(r"^\[node\d\] ddprun: job stopped by SIGINT", job.err, re.M)), 3, job)
        self.assertNothingIsLeft()

    def test_a_second_ctrl_c_ends_workers_that_do_not_stop(self):
        job = self.start("bash", "-c", "trap '' INT TERM; echo up; while :; do sleep 100 & wait; done")
        self.wait_for_lines(job, 3, "up$")
        begin = time.monotonic()
        job.process.send_signal(signal.SIGINT)
        # Half a second later it is another wish (docs/preemption.md), so the first may not be held up.
        wait_until(lambda: time.monotonic() - begin > 0.9, "half a second is over, and the way there")
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(20), 1, job)  # --shutdown-timeout is 30 s
        self.assertNothingIsLeft()

    def slow_login(self, hosts):
        """An ssh that waits, for these hosts, until a line comes into what is returned with it."""
        gate = os.open(self.gate(), os.O_RDWR)
        self.addCleanup(os.close, gate)
        slow = self.folder / "slow-login"
        slow.write_text(f'#!/bin/sh\ncase $1 in {hosts}) read line <gate ;; esac\nexec {HOSTS.ssh} "$@"\n')
        slow.chmod(0o755)
        return slow, gate

    def test_a_host_that_is_too_late_for_the_job_is_ended_and_decides_nothing(self):
        slow, gate = self.slow_login("node2")
        job = self.start("--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=1", "echo", "done",
                         ssh=slow)
        self.wait_for_lines(job, 2, "done$")
        wait_until(lambda: not any(re.match(r"\S*ddprun --relay", line) for line in HOSTS.left().values()),
                   lambda: f"the others have ended: {HOSTS.left()}", 60)
        os.write(gate, b"\n")
        self.assertEqual(job.wait(60), 0, job)
        self.assertIn("ddprun: node2: the job is over without it, so its agent is ended\n", job.err)
        self.assertNothingIsLeft()

    def test_a_host_that_comes_when_the_others_have_left_does_not_wait_for_them(self):
        slow, gate = self.slow_login("node1")
        for nnodes in ("3", "1:3"):
            with self.subTest(nnodes=nnodes):
                job = self.start("--nnodes", nnodes, "bash", "-c", "exec sleep 100", hosts="node0,node1,node2", ssh=slow)
                wait_until(lambda: "2 of " in job.err, lambda: f"two nodes are here: {job}", 60)
                job.process.send_signal(signal.SIGUSR2)
                wait_until(lambda: "so its agent is ended" in job.err, lambda: f"node1 is ended: {job}", 60)
                os.write(gate, b"\n")
                self.assertEqual(job.wait(60), 75, job)
                self.assertNothingIsLeft()

    def test_a_signal_that_comes_while_hosts_connect_waits_for_their_agents(self):
        slow, gate = self.slow_login("node[12]")
        job = self.start("bash", "-c", "exec sleep 100", hosts="node1,node2", ssh=slow)
        wait_until(lambda: len([pid for pid in family_of(job.pid)
                                if "slow-login" in ssh_hosts.command_line(pid) and pid not in
                                (job.pid, *children_of(job.pid))]) == 2, "both connect", 30)
        job.process.send_signal(signal.SIGINT)
        wait_until(lambda: "ddprun: waiting for node1, node2 to end; a second signal" in job.err, lambda: job)
        os.write(gate, b"\n\n")
        self.assertEqual(job.wait(60), 1, job)
        self.assertEqual(len(re.findall(r"^\[node\d\] ddprun: job stopped by SIGINT", job.err, re.M)), 2, job)
        self.assertNothingIsLeft()

    def test_sigterm_saves_and_the_same_command_resumes(self):
        job = self.start("train", "linear", "1000000000", "1000000000")
        self.wait_for_lines(job, 3, r"\[CPU\d\] Epoch 3 ")
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(60), 75, job)
        again = self.start("train", "linear", "1000000000", "1000000000")
        self.wait_for_lines(again, 3, r"Resuming training from snapshot at Epoch [1-9]")
        again.process.send_signal(signal.SIGUSR1)
        self.assertEqual(again.wait(60), 75, again)
        self.assertNothingIsLeft()

    # ---- what is lost ----------------------------------------------------------------------------

    def test_sigkill_of_the_shells_ddprun_leaves_nothing_on_any_host(self):
        for which in ("guardian", "its child", "both"):
            with self.subTest(which=which):
                job = self.start("bash", "-c", "trap '' INT TERM HUP; echo up; while :; do sleep 100; done")
                self.wait_for_lines(job, 3, "up$")
                victims = {"guardian": [job.pid], "its child": children_of(job.pid)[:1],
                           "both": [job.pid, children_of(job.pid)[0]]}[which]
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                job.wait(60)
                self.assertNothingIsLeft()

    def ssh_to(self, job, host):
        [found] = [pid for pid in family_of(job.pid)
                   if re.match(rf"ssh .* {host} ", ssh_hosts.command_line(pid))]
        return found

    def test_a_killed_ssh_ends_its_host_and_a_job_of_fixed_size(self):
        job = self.start("bash", "-c", "echo up; exec sleep 100")
        self.wait_for_lines(job, 3, "up$")
        os.kill(self.ssh_to(job, "node2"), signal.SIGKILL)
        self.assertEqual(job.wait(60), 1, job)
        self.assertRegex(job.err, r"(?m)^ddprun: node2: the connection to its ddprun is lost: ssh was killed by SIGKILL")
        self.assertNothingIsLeft()

    def test_a_killed_relay_ends_what_it_has_started(self):
        for which in ("guardian", "its child"):
            with self.subTest(which=which):
                job = self.start("bash", "-c", "trap '' INT TERM HUP; echo up; while :; do sleep 100; done",
                                 hosts="node1,node2", env={"PET_SHUTDOWN_TIMEOUT": "1"})
                self.wait_for_lines(job, 2, "up$")
                [relay] = [pid for pid, node in HOSTS.nodes.processes(2).items()
                           if re.match(r"\S*ddprun --relay-of-hosts", ssh_hosts.command_line(pid))
                           and not re.match(r"\S*ddprun --relay-of-hosts", ssh_hosts.command_line(parent_of(pid)))]
                os.kill(relay if which == "guardian" else children_of(relay)[0], signal.SIGKILL)
                self.assertEqual(job.wait(60), 1, job)
                self.assertRegex(job.err, r"(?m)^ddprun: node2: the connection to its ddprun is lost: ")
                self.assertNothingIsLeft()

    def test_an_elastic_job_goes_on_without_a_host_that_is_lost(self):
        job = self.start("--nnodes", "2:3", "bash", "-c",
                         "echo world $WORLD_SIZE; [ $WORLD_SIZE = 2 ] || exec sleep 100")
        self.wait_for_lines(job, 3, "world 3$")
        os.kill(self.ssh_to(job, "node1"), signal.SIGKILL)
        self.assertEqual(job.wait(60), 0, job)
        self.assertEqual(len(re.findall(r"^\[node[02]\] world 2$", job.out, re.M)), 2, job)
        self.assertIn("ddprun: node1: the connection to its ddprun is lost", job.err)
        self.assertNothingIsLeft()

    # ---- hosts that cannot be started ------------------------------------------------------------

    def test_a_host_that_refuses_ends_the_others_and_is_named(self):
        done = self.run_to_end("sleep", "100", hosts=f"node0,node1,node{DOWN},nobody", code=1)
        self.assertRegex(done.err, rf"(?m)^ddprun: node{DOWN}: ssh: connect to host node{DOWN} port 22: "
                         rf"Connection refused; try `ssh node{DOWN} true`$")
        self.assertRegex(done.err, r"(?m)^ddprun: nobody: ssh: Could not resolve hostname nobody: ")

    def test_an_elastic_job_starts_without_a_host_that_refuses(self):
        done = self.run_to_end("--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=1", "bash", "-c",
                               "echo world $WORLD_SIZE", hosts=f"node0,node1,node{DOWN}")
        self.assertEqual(sorted(done.out.splitlines()), ["[node0] world 2", "[node1] world 2"])
        self.assertIn(f"ddprun: node{DOWN}: ssh: connect to host", done.err)

    def test_a_key_that_is_not_known_is_refused_in_the_words_of_ssh(self):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "other"], check=True)
        other = self.folder / "config of another key"
        other.write_text((HOSTS.folder / "ssh_config").read_text().replace(
            f"{HOSTS.folder}/user_key", f"{self.folder}/other"))
        for ssh, words in {
                f"ssh -F '{other}'": "Permission denied (publickey)",
                f"{HOSTS.ssh} -o UserKnownHostsFile=/dev/null": "Host key verification failed"}.items():
            with self.subTest(words=words):
                done = self.run_to_end("sleep", "100", hosts="node1,node2", ssh=ssh, code=1)
                for host in ("node1", "node2"):
                    self.assertRegex(done.err, rf"(?m)^ddprun: {host}: ssh: .*{re.escape(words)}; try `ssh {host} true`$")

    def test_a_host_without_the_program_or_the_folder_says_so(self):
        shared = HOSTS.folder / "only" / "shared"
        copied = shared / "ddprun"
        shutil.copy(BIN / "ddprun", copied)
        done = self.run_to_end("sleep", "100", hosts=f"node0,node{BARE}", program=copied, code=1)
        self.assertRegex(done.err, rf"(?m)^ddprun: node{BARE}: there is no program {copied} there .*; "
                         "install ddprun at the same path on every host$")
        started = HOSTS.start("ddprun", "--hosts", f"node0,node{BARE}", "--ssh-command", HOSTS.ssh, "sleep", "100",
                              folder=shared)
        self.addCleanup(started.end)
        self.assertEqual(started.wait(60), 1, started)
        self.assertRegex(started.err, rf"(?m)^ddprun: node{BARE}: its agent cannot work in {shared}: No such file "
                         "or directory; the job works in the same folder on every host$")

    def test_ssh_that_is_not_there_is_one_sentence(self):
        done = self.run_to_end("true", ssh="no-such-ssh -p 22", code=1)
        self.assertRegex(done.err, r"^ddprun: --ssh-command: it is not there: [^\n]*no-such-ssh[^\n]*\n$")

    # ---- output and environment ------------------------------------------------------------------

    def test_bytes_are_unchanged_and_lines_are_whole(self):
        done = self.run_to_end("bash", "-c",
                               r"for i in {1..200}; do printf '%s line %s \x00\xff\r\x1b[0m end\n' $RANK $i; done; "
                               "printf 'no end'; printf 'to stderr\nand more' >&2")
        lines = [f"[node{r}] {r} line {i} ".encode() + b"\0\xff\r\x1b[0m end" for r in range(3)
                 for i in range(1, 201)]
        # The last line of a host has no end, so the next one's goes on behind it.
        text = done.out_bytes
        for rank in range(3):
            self.assertEqual(text.count(f"[node{rank}] no end".encode()), 1, done)
            self.assertEqual(done.err.count(f"[node{rank}] to stderr\n"), 1, done)
            text = text.replace(f"[node{rank}] no end".encode(), b"")
        self.assertEqual(sorted(text.split(b"\n")[:-1]), sorted(lines))

    def test_one_host_has_no_prefix_and_every_byte(self):
        done = self.run_to_end("bash", "-c", r"printf 'a\0b\nend'; head -c 3000000 /dev/zero", hosts="node1")
        self.assertEqual(done.out_bytes, b"a\0b\nend" + bytes(3000000))

    def test_a_slow_reader_makes_workers_wait_and_nothing_grow(self):
        size = 30_000_000
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        job = self.start("bash", "-c", f"echo $BASHPID > pid.$RANK; exec head -c {size} /dev/zero",
                         hosts="node1,node2", out=writer)
        os.close(writer)
        wait_until(lambda: all((self.folder / f"pid.{r}").exists() and (self.folder / f"pid.{r}").read_text()
                               for r in range(2)), "both workers run", 60)
        workers = [int((self.folder / f"pid.{r}").read_text()) for r in range(2)]

        def written():
            return [int(re.search(r"wchar: (\d+)", pathlib.Path(f"/proc/{pid}/io").read_text())[1])
                    for pid in workers]

        seen = [[0, 0]]

        def stands_still():
            seen.append(written())
            return min(seen[-1]) > 0 and seen[-1] == seen[-2]

        wait_until(stands_still, lambda: f"the workers wait: {seen}", 60, every=0.5)
        self.assertLess(sum(seen[-1]), size)
        for pid in HOSTS.nodes.processes():
            if "ddprun" in ssh_hosts.command_line(pid):
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                self.assertLess(int(re.search(r"VmRSS:\s+(\d+)", status)[1]), 32_000, status)
        got = 0
        while data := os.read(reader, 1 << 20):
            got += data.count(b"\0")
        self.assertEqual(got, 2 * size)
        self.assertEqual(job.wait(60), 0, job)

    def test_listed_variables_travel_and_nothing_stands_on_a_command_line(self):
        job = self.start("--pass-env", "MINE,YOURS_*", "bash", "-c",
                         "echo $NCCL_X,$MINE,$YOURS_1,$OTHER,${CUDA_VISIBLE_DEVICES-unset}; read < $0 # secret-word",
                         self.gate(), hosts="node1,node2",
                         env={"NCCL_X": "secret-a", "MINE": "secret-b", "YOURS_1": "secret-c", "OTHER": "d",
                              "CUDA_VISIBLE_DEVICES": "7"})
        self.wait_for_lines(job, 2, r"^\[node\d\] secret-a,secret-b,secret-c,,unset$")
        shown = [ssh_hosts.command_line(pid) for pid in HOSTS.nodes.processes()]
        way = [line for line in shown if line.startswith("ssh ") or "--relay-of-hosts" in line]
        self.assertGreaterEqual(len(way), 4, shown)
        self.assertFalse([line for line in way if "secret" in line])
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(60), 1, job)


if __name__ == "__main__":
    if not MISSING:
        namespaces.inside()
    skip.main()
