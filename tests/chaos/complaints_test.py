#!/usr/bin/env python3
"""What users of other launchers report of lost, cut-off and returning nodes, produced for real and
named by their numbers: I-9, I-10, I-11, I-25, I-26."""
import os
import pathlib
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults  # noqa: E402
import scenario  # noqa: E402


class Complaints(scenario.Scenario):
    def test_i_9_restarts_are_counted_by_the_job_and_neither_spent_nor_reset_by_nodes_that_return(
            self):
        with self.job(elastic=True, options=["--max-restarts", "2"]) as job:
            self.begin(job)
            for what in ("worker", "agent", "worker", "cut"):
                before = job.attempt()
                if what == "worker":
                    os.kill(job.worker(2), signal.SIGKILL)
                    self.recovers(job, before, "worker_kill")
                    continue
                job.may_end = {3}
                if what == "agent":
                    os.kill(job.agent(3), signal.SIGKILL)
                else:
                    job.nodes.cut(3)
                    self.recovers(job, before, nodes=[0, 1, 2])
                    job.nodes.heal(3)
                self.recovers(job, before)
            # Two worker failures, a killed agent, a cut-off: the next worker failure is the last.
            job.may_end = {0, 1, 2, 3}
            ended = len(job.codes)
            os.kill(job.worker(1), signal.SIGKILL)
            deadline = time.monotonic() + 10
            while len(job.codes) < ended + 4 and time.monotonic() < deadline:
                job.restart_at = [None] * 4
                job.pump()
                time.sleep(0.01)
            self.assertEqual(sorted(job.codes[ended:]), [(n, 1) for n in range(4)])
            for node in range(4):
                self.assertIn("all 2 restarts are spent", job.said(node))

    def test_i_10_every_rank_of_an_attempt_has_its_number_also_on_nodes_that_came_back(self):
        with self.job(elastic=True) as job:
            self.begin(job)
            for disturb in ("agent", "worker", "cut", "agent"):
                before = job.attempt()
                job.may_end = {1}
                if disturb == "cut":
                    job.nodes.cut(1)
                    self.recovers(job, before, nodes=[0, 2, 3])
                    job.nodes.heal(1)
                else:
                    os.kill(job.agent(1) if disturb == "agent" else job.worker(0), signal.SIGKILL)
                self.recovers(job, before)
            attempts = {}
            for begun in job.began():
                attempts.setdefault(begun.attempt, []).append(begun)
            self.assertGreaterEqual(len(attempts), 5)
            last = 0
            for number in sorted(attempts):
                ranks = attempts[number]
                self.assertEqual(len({b.rank for b in ranks}), len(ranks), f"attempt {number}")
                self.assertEqual(len({b.world for b in ranks}), 1, f"attempt {number}")
                self.assertEqual(len({b.master for b in ranks}), 1, f"attempt {number}")
                self.assertGreater(min(b.ns for b in ranks), last, "an attempt begins after the "
                                   "one before, on every node")
                last = max(b.ns for b in ranks)
            self.ends_well(job)

    def test_i_11_workers_that_wait_for_a_lost_peer_are_ended_in_time_even_stopped_ones(self):
        with self.job(elastic=True) as job:
            before = self.begin(job)
            old = job.worker(2)
            os.kill(old, signal.SIGSTOP)  # deaf to SIGTERM; the others now wait for it for ever
            job.may_end = {3}
            begin = time.monotonic()
            job.nodes.cut(3)
            self.recovers(job, before, nodes=[0, 1, 2])
            took = time.monotonic() - begin
            self.assertLess(took, job.setup.heartbeat_s + job.setup.shutdown_s + job.setup.slack_s)
            self.assertFalse(pathlib.Path(f"/proc/{old}").exists())
            job.nodes.heal(3)
            self.recovers(job, job.attempt([0, 1, 2]))
            self.ends_well(job)

    def test_i_25_nodes_wait_for_a_late_one_and_line_up_again_however_apart_they_fail(self):
        with self.job() as job:
            for node in (3, 1, 0):  # the endpoint's host last of these: nobody is there at first
                job.start(node)
                job.pause(0.3)
            self.assertEqual([s.begun for s in job.state], [None] * 4)
            job.start(2)
            job.until(lambda: job.attempt() is not None, 4 * job.setup.slack_s, "the job begins")
            before = job.attempt()
            job.may_end = {1, 2, 3}
            for node in (1, 2, 3):  # each while the job gathers for the one before
                os.kill(job.agent(node), signal.SIGKILL)
                job.pause(0.15)
            self.recovers(job, before)
            self.ends_well(job)

    def test_i_26_a_smaller_world_starts_at_once_and_waits_for_no_last_call(self):
        with self.job(elastic=True, options=["--rdzv-conf", "last_call_timeout=60"]) as job:
            before = self.begin(job)
            job.may_end = {3}
            begin = time.monotonic()
            job.power_off(3)
            self.recovers(job, before, nodes=[0, 1, 2])
            self.assertLess(time.monotonic() - begin, faults.survivors_bound_s(job.setup))
            job.power_on(3)
            self.recovers(job, job.attempt([0, 1, 2]))
            self.ends_well(job)


if __name__ == "__main__":
    scenario.main()
