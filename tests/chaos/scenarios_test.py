#!/usr/bin/env python3
"""Faults that deserve a name, each with what must be seen of it. As scripts/chaos: four nodes in
network namespaces, and a training job that keeps accounts."""
import os
import pathlib
import signal
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import faults  # noqa: E402
import inject  # noqa: E402
import scenario  # noqa: E402


def fault(name, *victims, lasts_s=1.5, dice=0.3):
    return faults.Fault(0, faults.BY_NAME[name], victims, lasts_s, 0.0, dice)


class Losses(scenario.Scenario):
    def test_two_nodes_lost_within_one_restart_cost_one_wait_and_come_back(self):
        for elastic in (False, True):
            with self.subTest(elastic=elastic), self.job(elastic=elastic) as job:
                before = self.begin(job)
                job.may_end = {1, 2}
                os.kill(job.agent(1), signal.SIGKILL)
                job.restart_at[1] = None
                job.agents[1].wait(10)
                job.agents[1] = None
                job.power_off(2)
                if elastic:
                    self.recovers(job, before, "node_kill", [0, 3])
                else:
                    job.pause(1.5)
                    self.assertIsNone(job.attempt([0, 3]))
                    self.assertEqual({s.begun.attempt for s in job.state}, {before})
                job.start(1)
                job.power_on(2)
                self.recovers(job, before, "two_nodes")
                self.ends_well(job)

    def test_a_replacement_with_an_empty_disk_gets_the_state_from_a_node_that_has_it(self):
        with self.job() as job:
            before = self.begin(job)
            job.until(lambda: job.state[3].epochs, 10, "an epoch is complete")
            inject.node_replace(job, fault("node_replace", 3, lasts_s=0.1), before, {})
            self.assertIsNone(job.nodes.newest_snapshot(3))
            seen = len(job.state[3].epochs)
            had = job.state[0].epochs[-1][0]
            # The new node comes before the loss of the old one is noticed: its turn is then.
            job.until(lambda: (job.attempt() or 0) > before,
                      job.setup.bound_s(faults.NOTICED) + job.setup.bound_s(faults.AGENT_BACK),
                      "all nodes train again")
            job.until(lambda: len(job.state[3].epochs) > seen, 10, "the new node's first epoch")
            self.assertEqual(job.state[3].epochs[seen][0], had + 1)
            # Its numbers go on where the others' are: it is one of them from now on.
            self.assertGreater(int(job.nodes.newest_snapshot(3).name), had)
            self.ends_well(job)


class Coordinators(scenario.Scenario):
    def test_the_coordinators_agent_may_die_again_and_again_wherever_it_is(self):
        with self.job() as job:
            before = self.begin(job)
            for _ in range(6):
                host = job.coordinator()
                job.may_end = {host}
                os.kill(job.agent(host), signal.SIGKILL)
                self.recovers(job, before, "agent_kill")
                before = job.attempt()
            self.ends_well(job)


class Disks(scenario.Scenario):
    def test_a_full_disk_does_not_end_the_job_is_said_in_a_line_and_is_over_when_there_is_room(self):
        with self.job() as job:
            before = self.begin(job)
            inject.fill_until_said(job, 2)
            said = [l for l in job.said(2).splitlines() if "No space left on device" in l]
            self.assertRegex(said[0], r"snapshot/\.attempt-\d+/\d+/.*: cannot write: No space left on "
                                      r"device; snapshot \d+ was not saved, training goes on")
            newest = job.nodes.newest_snapshot(2).name
            job.nodes.free_disk(2)
            job.until(lambda: job.nodes.newest_snapshot(2).name > newest, 10, "it saves again")
            self.assertEqual(job.attempt(), before)
            self.assertEqual(list((job.nodes.disk(2) / "snapshot").glob(".*/*")), [])
            self.ends_well(job)

    def test_i_27_a_node_that_cannot_start_an_attempt_leaves_and_the_others_go_on(self):
        # Its temporary directory, where ddprun makes a directory per attempt, is on the full disk.
        with self.job(elastic=True, options=["--redirects", "3", "--log-dir", "logs"]) as job:
            before = self.begin(job)
            job.nodes.fill_with_files(2)
            job.may_end = {2}
            ended = len(job.codes)
            os.kill(job.worker(3), signal.SIGKILL)
            job.until(lambda: len(job.codes) > ended, 10, "the agent without a disk ends")
            job.restart_at[2] = None
            self.assertEqual(job.codes[-1], (2, 1))
            self.assertIn("No space left on device", job.said(2))
            self.recovers(job, before, "node_kill", [0, 1, 3])
            job.nodes.free_disk(2)
            before = job.attempt([0, 1, 3])
            job.start(2)
            self.recovers(job, before, "agent_kill")
            self.ends_well(job)

    def test_a_truncated_snapshot_is_named_and_the_one_before_is_used(self):
        with self.job() as job:
            before = self.begin(job)
            job.until(lambda: all(s.saves >= 3 for s in job.state), 10, "two snapshots each")
            for node in range(4):
                os.kill(job.worker(node), signal.SIGSTOP)
            for node in range(4):
                newest = inject.truncate_newest(job.nodes, node)
            os.kill(job.worker(1), signal.SIGKILL)
            self.recovers(job, before, "worker_stop")
            self.assertRegex(job.said(3), rf"{newest.name}/tensors.safetensors: damaged snapshot "
                                          r"passed over: it has \d+ bytes of \d+; snapshot \d+ is "
                                          "used")
            self.ends_well(job)


class Clocks(scenario.Scenario):
    def test_a_clock_set_back_hurts_neither_the_job_nor_the_order_of_blame(self):
        # Cause and victim: workers that fail when they are told to, the others as they lose a peer.
        with self.job() as job:
            before = self.begin(job)
            for node, seconds in ((1, -86400), (2, 7200)):
                job.path(node, "clock").write_text(str(seconds), encoding="ascii")
            saves = [s.saves for s in job.state]
            job.until(lambda: all(s.saves > had + 3 for s, had in zip(job.state, saves)), 10,
                      "the job goes on")
            self.assertEqual(job.attempt(), before)
            causes = []
            for victim in (2, 1):
                before = job.attempt()
                causes.append(f"rank {job.state[victim].begun.rank}")
                os.kill(job.worker(victim), signal.SIGUSR1)
                self.recovers(job, before, "worker_exit")
            self.ends_well(job)
            summary = job.said(0)[job.said(0).rindex("ddprun: job "):]
            lines = [l for l in summary.splitlines() if "rank " in l and "exit" in l]
            self.assertEqual(len(lines), 2, summary)
            for line, cause in zip(lines, causes):
                self.assertIn(cause, line)


class Strangers(scenario.Scenario):
    def test_a_thousand_silent_connections_hold_up_neither_the_job_nor_a_node_that_comes(self):
        with self.job(elastic=True) as job:
            before = self.begin(job)
            path = job.path(3, "silent")
            with open(path, "wb") as out:
                silent = job.nodes.start(
                    3, [sys.executable, "-c", inject.HOLD_CONNECTIONS, job.nodes.address(0),
                        "29400", str(inject.SILENT)], {}, out, out)
            job.until(lambda: b"held" in path.read_bytes(), 30, "all connections are made")
            self.assertEqual(job.attempt(), before)
            job.may_end = {1}
            os.kill(job.agent(1), signal.SIGKILL)
            self.recovers(job, before, "agent_kill")
            silent.kill()
            silent.wait(10)
            self.ends_well(job)

    def test_an_agent_of_another_job_is_turned_away_with_both_names_and_disturbs_nobody(self):
        with self.job() as job:
            before = self.begin(job)
            inject.stranger(job, fault("stranger", 2), before, {})
            said = job.path(2, "stranger").read_text()
            self.assertIn("this endpoint serves the job 'chaos', not 'somebody-else'", said)
            self.assertEqual(job.attempt(), before)
            self.ends_well(job)


if __name__ == "__main__":
    scenario.main()
