#!/usr/bin/env python3
"""The pure parts of scripts/chaos: what a seed draws, the bounds, the verdict."""
import dataclasses
import pathlib
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults  # noqa: E402
import inject  # noqa: E402
import nodes  # noqa: E402
import verdict  # noqa: E402

FIXED, ELASTIC = faults.Setup(), faults.Setup(elastic=True)
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

    def test_the_only_host_of_the_coordinator_is_never_taken_away(self):
        for fault in faults.draw(ALL, 500, 3, FIXED, fixed_host=True):
            if fault.kind.loses == "victims" or fault.kind.name == "node_flap":
                self.assertNotIn(0, fault.victims, fault.text())
        hit = {v for f in faults.draw(ALL, 500, 3, FIXED, fixed_host=False)
               if f.kind.loses == "victims" for v in f.victims}
        self.assertEqual(hit, {0, 1, 2, 3})

    def test_two_nodes_are_two(self):
        for fault in faults.draw([faults.BY_NAME["two_nodes"]], 200, 3, FIXED):
            self.assertEqual(len(set(fault.victims)), 2)

    def test_a_fault_that_must_be_noticed_outlasts_the_heartbeat_timeout(self):
        for fault in faults.draw(ALL, 500, 3, ELASTIC):
            if fault.kind.loses != "none" and fault.kind.lasts:
                self.assertGreater(fault.lasts_s, ELASTIC.heartbeat_s)


class Processes(unittest.TestCase):
    def test_a_stopped_process_runs_and_one_that_was_killed_does_not(self):
        with subprocess.Popen(["sleep", "60"]) as child:
            self.assertTrue(nodes.runs(child.pid))
            child.send_signal(signal.SIGSTOP)
            self.assertTrue(nodes.runs(child.pid))
            child.kill()  # from here on it is pending, on its way out, or a zombie
            self.assertFalse(nodes.runs(child.pid))
        self.assertFalse(nodes.runs(child.pid))


class Table(unittest.TestCase):
    def test_every_kind_can_be_done_and_nothing_else(self):
        self.assertEqual(set(inject.DO), set(faults.BY_NAME))
        self.assertEqual(len(faults.BY_NAME), len(faults.KINDS))

    def test_what_ddprun_cannot_stand_is_named_and_not_drawn(self):
        drawn, left_out = faults.split("  --hang-timeout SECONDS  ...")
        names = {kind.name for kind in drawn}
        self.assertIn("worker_hang", names)
        self.assertEqual({kind.name for kind, _ in left_out},
                         {"coordinator_kill", "coordinator_cut"})
        self.assertTrue(all("--witness" in why for _, why in left_out))
        self.assertEqual(len(drawn) + len(left_out), len(faults.KINDS))
        self.assertEqual(faults.split("--hang-timeout --witness")[1], [])

    def test_only_some_kinds(self):
        drawn, left_out = faults.split("", ("worker_kill", "worker_hang"))
        self.assertEqual([kind.name for kind in drawn], ["worker_kill"])
        self.assertEqual([kind.name for kind, _ in left_out], ["worker_hang"])

    def test_the_bounds_grow_with_what_they_are_made_of(self):
        for kind in faults.KINDS:
            self.assertGreaterEqual(faults.bound_s(kind, FIXED), FIXED.slack_s + FIXED.shutdown_s)
        for name, part in (("worker_kill", "shutdown_s"), ("worker_hang", "hang_s"),
                           ("node_cut", "heartbeat_s"), ("agent_kill", "slack_s")):
            more = dataclasses.replace(FIXED, **{part: getattr(FIXED, part) + 1})
            kind = faults.BY_NAME[name]
            self.assertAlmostEqual(faults.bound_s(kind, more), faults.bound_s(kind, FIXED) + 1)


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
