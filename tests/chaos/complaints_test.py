#!/usr/bin/env python3
"""What users of other launchers report of lost, cut-off and returning nodes, produced for real and
named by their numbers: I-6, I-7, I-9, I-10, I-11, I-25, I-26, I-27."""
import os
import pathlib
import signal
import sys
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import faults  # noqa: E402
import scenario  # noqa: E402


class Coordinator(scenario.Scenario):
    def test_i_6_the_death_of_the_node_that_hosts_the_meeting_point_ends_nobody_else(self):
        with self.job(elastic=True) as job:
            before = self.begin(job)
            host = job.coordinator()
            others = [node for node in range(4) if node != host]
            job.power_off(host)  # no other agent may end: job.may_end is empty
            self.recovers(job, before, "coordinator_kill", others)
            before = job.attempt(others)
            job.power_on(host)
            self.recovers(job, before, "coordinator_kill")
            self.ends_well(job)

    def test_i_7_every_attempt_meets_at_its_own_coordinator_and_the_old_one_comes_back_as_a_node(
            self):
        with self.job(elastic=True) as job:
            before = self.begin(job)
            first = job.coordinator()
            others = [node for node in range(4) if node != first]
            job.nodes.cut(first)
            job.may_end = {first}
            self.recovers(job, before, "coordinator_cut", others)
            second = job.coordinator()
            self.assertNotEqual(second, first)
            job.nodes.heal(first)
            self.recovers(job, job.attempt(others), "coordinator_cut")
            self.assertEqual(job.coordinator(), second)
            masters = {}
            for begun in job.began():
                masters.setdefault(begun.attempt, set()).add(begun.master)
            self.assertEqual({len(m) for m in masters.values()}, {1}, masters)
            self.ends_well(job)


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
                    self.recovers(job, before, "node_cut", [0, 1, 2])
                    job.nodes.heal(3)
                self.recovers(job, before, "agent_kill" if what == "agent" else "node_cut")
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
            for disturb in ("agent_kill", "worker_kill", "node_cut", "agent_kill"):
                before = job.attempt()
                job.may_end = {1}
                if disturb == "node_cut":
                    job.nodes.cut(1)
                    self.recovers(job, before, disturb, [0, 2, 3])
                    job.nodes.heal(1)
                else:
                    os.kill(job.agent(1) if disturb == "agent_kill" else job.worker(0),
                            signal.SIGKILL)
                self.recovers(job, before, disturb)
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

    def test_i_11_workers_that_wait_for_a_lost_peer_are_ended_in_time_even_stopped_and_deaf_ones(
            self):
        with self.job(elastic=True,
                      environment=lambda node: {"CHAOS_DEAF": "1"} if node == 1 else {}) as job:
            before = self.begin(job)
            deaf, stopped = job.worker(1), job.worker(2)
            os.kill(deaf, signal.SIGUSR2)  # it waits for ever, and SIGTERM does not end that
            os.kill(stopped, signal.SIGSTOP)
            job.may_end = {3}
            job.nodes.cut(3)
            took = job.until(lambda: (job.attempt([0, 1, 2]) or 0) > before, 60,
                             "the others go on without node3")
            self.assertLess(took, job.setup.heartbeat_s + job.setup.shutdown_s + job.setup.slack_s)
            for old in (deaf, stopped):
                self.assertFalse(pathlib.Path(f"/proc/{old}").exists())
            job.nodes.heal(3)
            self.recovers(job, job.attempt([0, 1, 2]), "node_cut")
            self.ends_well(job)

    def test_i_25_nodes_wait_for_a_late_one_and_line_up_again_however_apart_they_fail(self):
        with self.job() as job:
            for node in (3, 1, 0):  # the endpoint's host last of these: nobody is there at first
                job.start(node)
                job.pause(0.3)
            self.assertEqual([s.begun for s in job.state], [None] * 4)
            job.start(2)
            self.begins(job)
            before = job.attempt()
            job.may_end = {1, 2, 3}
            for node in (1, 2, 3):  # each while the job gathers for the one before
                os.kill(job.agent(node), signal.SIGKILL)
                job.pause(0.15)
            self.recovers(job, before, "agent_kill")
            self.ends_well(job)

    def test_i_26_a_smaller_world_starts_at_once_and_waits_for_no_last_call(self):
        with self.job(elastic=True, options=["--rdzv-conf", "last_call_timeout=60"]) as job:
            before = self.begin(job)
            job.may_end = {3}
            job.power_off(3)
            self.recovers(job, before, "node_kill", [0, 1, 2])
            job.power_on(3)
            self.recovers(job, job.attempt([0, 1, 2]), "node_kill")
            self.ends_well(job)

    def test_i_27_a_surplus_node_is_told_that_it_is_a_spare_and_takes_the_place_of_a_lost_one(self):
        with self.job(nodes=5, options=["--nnodes", "4"]) as job:
            for node in range(4):
                job.start(node)
            self.begins(job, [0, 1, 2, 3])
            before = job.attempt([0, 1, 2, 3])
            job.start(4)
            job.until(lambda: "this node is a spare" in job.said(4),
                      job.setup.bound_s(faults.BEGINS), "the fifth node is told")
            self.assertEqual(job.attempt([0, 1, 2, 3]), before)
            job.power_off(2)
            self.recovers(job, before, "node_kill", [0, 1, 3, 4])
            before = job.attempt([0, 1, 3, 4])
            job.power_on(2)
            told = job.said(2).count("this node is a spare")
            job.until(lambda: job.said(2).count("this node is a spare") > told,
                      job.setup.bound_s(faults.BY_NAME["node_kill"].usual),
                      "the node that came back is told")
            # A spare that dies is nobody's loss.
            job.may_end = {2}
            os.kill(job.agent(2), signal.SIGKILL)
            job.pause(0.3)
            self.assertEqual(job.attempt([0, 1, 3, 4]), before)


if __name__ == "__main__":
    scenario.main()
