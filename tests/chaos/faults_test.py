#!/usr/bin/env python3
"""The pure parts of scripts/chaos: what a seed draws, the bounds, the verdict."""
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import chaos  # noqa: E402
import faults  # noqa: E402
import inject  # noqa: E402
import job as job_module  # noqa: E402
import namespaces  # noqa: E402
import verdict  # noqa: E402

FIXED, ELASTIC = faults.Setup(), faults.Setup(elastic=True)
SLOW = faults.Setup(heartbeat_s=3.0)
ALL = list(faults.KINDS)


class Draw(unittest.TestCase):
    def test_a_seed_always_draws_the_same_and_another_seed_something_else(self):
        first = faults.draw(ALL, 50, 7, FIXED)
        self.assertEqual(first, faults.draw(ALL, 50, 7, FIXED))
        self.assertNotEqual(first, faults.draw(ALL, 50, 8, FIXED))

    def test_a_longer_run_begins_like_a_shorter_one(self):
        self.assertEqual(faults.draw(ALL, 5, 7, FIXED), faults.draw(ALL, 50, 7, FIXED)[:5])

    def test_every_kind_comes_before_any_comes_again(self):
        kinds = [fault.kind.name for fault in faults.draw(ALL, 3 * len(ALL), 1, FIXED)]
        for turn in range(3):
            part = kinds[turn * len(ALL):(turn + 1) * len(ALL)]
            self.assertEqual(len(set(part)), len(ALL))

    def test_every_node_gets_its_turn(self):
        hit = {v for fault in faults.draw(ALL, 500, 3, FIXED) for v in fault.victims}
        self.assertEqual(hit, {0, 1, 2, 3})

    def test_two_nodes_are_two(self):
        for fault in faults.draw([faults.BY_NAME["two_nodes"]], 200, 3, FIXED):
            self.assertEqual(len(set(fault.victims)), 2)

    def test_a_fault_that_must_be_noticed_outlasts_the_heartbeat_timeout(self):
        for fault in faults.draw(ALL, 500, 3, ELASTIC):
            if fault.kind.loses != "none" and fault.kind.lasts:
                self.assertGreater(fault.lasts_s, ELASTIC.heartbeat_s)


class Storm(unittest.TestCase):
    def storms(self, setup=FIXED):
        for fault in faults.draw([faults.BY_NAME["storm"]], 500, 5, setup):
            coordinator = fault.number % setup.nodes
            yield coordinator, faults.storm(fault, coordinator, setup)

    @staticmethod
    def hit(blows, *what):
        return {blow.node for blow in blows if blow.what in what}

    def test_it_hits_every_node_twice_and_workers_agents_nodes_and_links(self):
        for _, blows in self.storms():
            self.assertEqual(sorted(b.node for b in blows), [0, 0, 1, 1, 2, 2, 3, 3], blows)
            self.assertTrue(self.hit(blows, "cut"), blows)
            self.assertTrue(self.hit(blows, "worker", "agent", "off"), blows)
        seen = {what for _, blows in self.storms() for what in {b.what for b in blows}}
        self.assertEqual(seen, {"worker", "agent", "off", "on", "cut", "heal"})

    def test_it_leaves_the_quorum_that_the_job_needs(self):
        lost = {"nobody": 0, "the coordinator": 0}
        for coordinator, blows in self.storms():
            dead = self.hit(blows, "agent", "off")
            if coordinator in dead | self.hit(blows, "cut"):
                self.assertEqual(len(dead), 1, blows)
                lost["the coordinator"] += 1
            else:
                self.assertLessEqual(len(self.hit(blows, "off")), 1, blows)
                self.assertFalse(self.hit(blows, "cut") & dead, blows)
                lost["nobody"] += 1
        self.assertGreater(min(lost.values()), 150, lost)

    def test_an_elastic_world_has_three_nodes_when_its_coordinator_is_lost(self):
        away = {True: set(), False: set()}
        for coordinator, blows in self.storms(ELASTIC):
            lost = self.hit(blows, "agent", "off", "cut")
            away[coordinator in lost].add(len(lost - {coordinator}))
        self.assertEqual(away, {True: {1}, False: {3}})

    def test_what_was_taken_away_comes_back_in_the_storm_or_at_its_end_only(self):
        for _, blows in self.storms():
            away = set()
            for blow in blows:
                if blow.what in ("off", "cut"):
                    self.assertNotIn(blow.node, away)
                    away.add(blow.node)
                elif blow.what in ("on", "heal"):
                    away.remove(blow.node)


class Lives(unittest.TestCase):
    def test_an_agent_is_killed_once_at_least_and_no_more_often_than_asked(self):
        counts, gone = set(), set()
        for fault in faults.draw([faults.BY_NAME["endpoint_restart"]], 300, 5, FIXED):
            self.assertEqual(fault.victims, ())
            lives = faults.lives(fault, 4)
            counts.add(len(lives))
            gone |= {life.gone_s for life in lives}
        self.assertEqual(counts, {1, 2, 3, 4})
        self.assertEqual(gone, set(faults.GONE_S))
        self.assertEqual(min(gone), 0.0)


class Flap(unittest.TestCase):
    def test_a_link_is_down_for_as_long_as_its_end_asks(self):
        for setup, expected in ((FIXED, {"yes", "maybe"}), (SLOW, {"yes", "no", "maybe"})):
            seen = set()
            for fault in faults.draw([faults.BY_NAME["node_flap"]], 200, 5, setup):
                down, ends = faults.flaps(fault, setup)
                self.assertEqual(len(down), faults.FLAPS)
                seen.add(ends)
                if ends == "yes":
                    self.assertGreater(max(down), setup.heartbeat_s)
                elif ends == "maybe":
                    self.assertLess(max(down), setup.heartbeat_s)
                else:
                    self.assertLessEqual(sum(down) + faults.FLAPS * faults.FLAP_PAUSE_S,
                                         faults.flap_bearable_s(setup))
            self.assertEqual(seen, expected)


class Processes(unittest.TestCase):
    def test_a_stopped_process_runs_and_one_that_was_killed_does_not(self):
        with subprocess.Popen(["sleep", "60"]) as child:
            self.assertTrue(namespaces.runs(child.pid))
            child.send_signal(signal.SIGSTOP)
            self.assertTrue(namespaces.runs(child.pid))
            child.kill()  # from here on it is pending, on its way out, or a zombie
            self.assertFalse(namespaces.runs(child.pid))
        self.assertFalse(namespaces.runs(child.pid))

    def test_a_process_that_has_to_share_its_processor_has_waited_for_it(self):
        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(processors)})
        self.addCleanup(os.sched_setaffinity, 0, processors)
        begin, waited = time.monotonic(), namespaces.waited_s()
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            try:
                while namespaces.waited_s() - waited < 0.05:
                    self.assertLess(time.monotonic() - begin, 30)
            finally:
                other.kill()


class Table(unittest.TestCase):
    def test_every_kind_can_be_done_and_nothing_else(self):
        self.assertEqual(set(inject.DO), set(faults.BY_NAME))
        self.assertEqual(len(faults.BY_NAME), len(faults.KINDS))

    def test_a_bound_is_twice_what_is_usual_and_what_the_machine_is_granted(self):
        setup = faults.Setup.of(3, slack_s=1.0)
        self.assertAlmostEqual(setup.bound_s(faults.Usual(0.2, 2.0)), 2 * (0.2 + 2 * 3.0) + 1.0)
        slow = dataclasses.replace(setup, factor=4)
        self.assertAlmostEqual(slow.bound_s(faults.Usual(0.2, 2.0)), 2 * (0.8 + 2 * 3.0) + 1.0)


class Medians(unittest.TestCase):
    def test_a_kind_that_is_usually_late_fails_and_one_late_fault_does_not(self):
        setup, usual = faults.Setup(slack_s=1.0), faults.Usual(0.2, 1.0)

        def slow(*took):
            return chaos.slow([("storm", {"recovered": (one, usual)}) for one in took], setup)
        self.assertEqual(slow(2.1, 2.1, 2.1, 3.3, 3.3), [])
        self.assertEqual(slow(2.3, 2.3, 2.3, 2.3), [])  # too few to tell
        found = slow(0.1, 0.1, 2.3, 2.3, 2.3)
        self.assertEqual(len(found), 1)
        self.assertIn("storm: half of 5 took 2.30 s or longer (recovered); 1.20 s is usual, 2.20 s",
                      found[0])


class Reset(unittest.TestCase):
    def test_a_reset_counts_when_it_was_said_since_the_last_wait_whatever_was_said_after_it(self):
        with tempfile.TemporaryDirectory() as folder:
            job = job_module.Job(FIXED, types.SimpleNamespace(count=1), {"chaos_worker": ""}, folder)
            err = job.path(0, "stderr")
            err.write_text("lost: its connection broke: Connection reset by peer\nwaiting\n")
            self.assertTrue(job.was_reset(0))
            job.agents = []
            job.until(lambda: True, 1, "the fault is over")
            self.assertFalse(job.was_reset(0))


class Again(unittest.TestCase):
    def test_the_command_that_repeats_a_run_has_all_that_it_depends_on(self):
        for words in (["--faults", "8", "--seed", "7"],
                      ["--faults", "8", "--seed", "7", "--elastic", "--only", "storm,node_cut",
                       "--endpoints", "1", "--per-job", "3", "--timeouts", "3", "--slack", "2.5", "--factor", "4"]):
            command = chaos.again(chaos.options(["--build-dir", "build", *words])).split()
            self.assertEqual(command, ["scripts/chaos", *words])


def node_of(*lines):
    node = verdict.Node()
    for line in lines:
        node.read(line)
    return node


def training(attempt, rank, world=2, pid=5):
    return node_of(f"begun 1 {attempt} {rank} {world} {pid} 10.77.0.1",
                   f"stepped 2 {attempt} {rank}", f"saved 3 {attempt} {rank} 0 64")


class Verdict(unittest.TestCase):
    def test_an_attempt_stands_when_every_rank_of_it_has_stepped_and_saved(self):
        self.assertEqual(verdict.attempt_of([training(3, 0), training(3, 1)], 2), 3)
        slow = node_of("begun 1 3 1 2 9 10.77.0.1", "stepped 2 3 1")
        self.assertIsNone(verdict.attempt_of([training(3, 0), slow], 2))
        self.assertIsNone(verdict.attempt_of([training(3, 0), verdict.Node()], 2))

    def test_nodes_of_different_attempts_worlds_or_equal_ranks_are_no_attempt(self):
        for other in (training(2, 1), training(3, 1, world=3), training(3, 0)):
            self.assertIsNone(verdict.attempt_of([training(3, 0), other], 2))

    def test_a_new_attempt_forgets_what_the_old_one_did(self):
        node = training(3, 0)
        node.read("begun 9 4 0 2 6 10.77.0.1")
        self.assertEqual((node.stepped, node.saves, node.pids), (False, 0, {5: 3, 6: 4}))
        node.read("saved 10 3 0 0 64")  # late, of the old one
        self.assertEqual(node.saves, 0)
        node.read("unsaved 10 4 0 0 64")
        self.assertEqual((node.saves, node.failed_saves), (0, 1))

    def test_two_attempts_at_once_are_seen(self):
        self.assertIsNone(verdict.overlap([(0, 5, 3), (1, 6, 3)]))
        self.assertIn("worker 5 of attempt 3", verdict.overlap([(0, 5, 3), (1, 6, 4)]))

    def test_only_a_stopped_nodes_workers_may_overlap_with_others(self):
        still = [(0, 5, 3), (1, 6, 4), (2, 7, 4)]
        self.assertIsNone(verdict.overlap(still, stopped=0))
        self.assertIsNone(verdict.overlap([(0, 5, 4), (1, 6, 3)], stopped=0))
        self.assertIn("worker 5 of attempt 3", verdict.overlap(still, stopped=1))
        self.assertIn("worker 6 of attempt 3 runs on node1 while attempt 4",
                      verdict.overlap([(0, 5, 2), (1, 6, 3), (2, 7, 4)], stopped=0))

    def test_weights_of_any_epoch_on_any_node_are_compared(self):
        calm = {1: "aa", 2: "bb"}
        good = node_of("epoch 1 0 0 1 1 aa", "epoch 1 0 0 2 1 bb")
        self.assertIsNone(verdict.wrong_weights([good], calm))
        wrong = node_of("epoch 1 0 1 1 1 aa", "epoch 1 0 1 2 1 bc")
        self.assertIn("after epoch 2 node1", verdict.wrong_weights([good, wrong], calm))
        far = node_of("epoch 1 0 0 3 1 cc")
        self.assertIn("beyond", verdict.wrong_weights([far], calm))

    def test_a_sample_seen_twice_is_seen(self):
        self.assertIsNone(verdict.wrong_samples([node_of("epoch 1 0 0 1 1 aa")]))
        self.assertIn("node0", verdict.wrong_samples([node_of("epoch 1 0 0 1 0 aa")]))

    def test_nodes_that_end_apart_or_differently_are_seen(self):
        end = ("epoch 1 0 0 1 1 aa", "ended 1 0 0 1")
        self.assertIsNone(verdict.wrong_end([node_of(*end), node_of(*end)]))
        self.assertIn("None", verdict.wrong_end([node_of(*end), node_of(end[0])]))
        other = node_of("epoch 1 0 0 1 1 ab", "ended 1 0 0 1")
        self.assertIn("different", verdict.wrong_end([node_of(*end), other]))



if __name__ == "__main__":
    unittest.main()
