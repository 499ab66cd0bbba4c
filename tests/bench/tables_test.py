"""That the tables of scripts/bench say what was measured, whatever is missing; and that README.md has
those that are made from tests/bench/figures.json and trainer_figures.json: no figure in them is written by hand."""
import copy
import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import measure  # noqa: E402
import steps  # noqa: E402
import tables  # noqa: E402
import trainer_steps  # noqa: E402
from series import Series, exponent, ratio  # noqa: E402

RECORDED = json.loads((HERE / "recorded.json").read_text())
README = HERE.parents[1] / "README.md"
BEGIN, END = tables.BLOCKS["launchers"]


def lines(found, asked=None):
    """The table's rows of these raw values."""
    report = dict(copy.deepcopy(RECORDED), found=found, asked=asked or list(found))
    return tables.table(report).splitlines()[2:]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split(" | ")]


class ASeries(unittest.TestCase):
    def test_has_median_number_of_runs_and_the_range_of_the_middle_half(self):
        self.assertEqual(Series([0.005, 0.001, 0.003, 0.002, 0.004]).text("s"),
                         "3.00 ms (n=5, 2.00-4.00)")

    def test_of_one_run_has_no_range(self):
        self.assertEqual(Series([1234.5]).text("MiB"), "1,234 MiB (n=1)")

    def test_counts_the_runs_that_gave_no_value(self):
        self.assertEqual(Series([None, 2, 2, 2]).text("ms"), "2.00 ms (3 of n=4, 2.00-2.00)")

    def test_of_nothing_is_a_dash(self):
        for values in ([], [None], [float("nan")]):
            self.assertEqual(Series(values).text("s"), "-")
            self.assertIsNone(Series(values).median)


class AnExponent(unittest.TestCase):
    def test_is_1_for_what_is_linear_and_2_for_what_is_quadratic(self):
        self.assertAlmostEqual(exponent([(n, 3e-6 * n) for n in (100, 1000, 10000)]), 1)
        self.assertAlmostEqual(exponent([(n, 5e-9 * n * n) for n in (100, 1000, 10000)]), 2)

    def test_cannot_be_had_of_a_time_that_was_too_short_to_be_seen(self):
        self.assertIsNone(exponent([(100, 0.0), (1000, 0.01), (10000, 0.1)]))
        self.assertIsNone(exponent([(100, None), (1000, 0.01)]))

    def test_cannot_be_had_of_one_point(self):
        self.assertIsNone(exponent([(100, 1.0)]))
        self.assertIsNone(exponent([]))
        self.assertIsNone(exponent([(100, 1.0), (100, 2.0)]))

    def test_a_ratio_to_nothing_cannot_be_had(self):
        self.assertIsNone(ratio(1.0, 0.0))
        self.assertIsNone(ratio(None, 1.0))


class ATable(unittest.TestCase):
    def test_has_a_row_for_each_step_of_the_bench(self):
        every = [step for names in (steps.NAMES, trainer_steps.NAMES) for of_name in names.values()
                 for step in of_name]
        self.assertEqual(sorted(every), sorted(tables.ROWS))
        for step in every:
            self.assertTrue(lines(RECORDED["found"], [step]), step)
            self.assertTrue(hasattr(steps.Bench, step), step)

    def test_says_what_was_recorded(self):
        (line,) = lines({"launch": {"ddprun": [0.004, 0.0041, 0.0039], "torchrun": [1.5, 1.6, 1.4]}})
        self.assertEqual(cells(line), ["start and end of a job of two `/bin/true`",
                                       "4.00 ms (n=3, 3.95-4.05)", "1,500 ms (n=3, 1,450-1,550)",
                                       "375x", ">= 150x"])

    def test_a_missed_target_says_so(self):
        (line,) = lines({"meeting": {"ddprun": [0.052], "torchrun": [0.047]}})
        self.assertEqual(cells(line)[3:], ["0.9x", ">= 1x: **missed**"])
        (line,) = lines({"launch": {"ddprun": [0.01], "torchrun": [1.4]}})
        self.assertIn("**missed**", line)

    def test_more_operations_are_better_and_a_longer_wait_is_not(self):
        run = lambda ops, p99: [{"ops_per_s": ops, "p99_ms": p99, "server_us_per_op": 1.0}]
        operations, wait, _ = lines({"pytorch_store": {"ddprun": run(300, 5),
                                                       "torchrun": run(100, 10)}})
        self.assertEqual(cells(operations)[3:], ["3.0x as many", ">= 1.5x as many"])
        self.assertEqual(cells(wait)[3:], ["2.0x", ">= 1x"])

    def test_a_step_without_values_is_dashes(self):
        for step in tables.ROWS:
            for line in lines({}, [step]):
                self.assertEqual(cells(line)[1:4], ["-", "-", "-"], line)
                self.assertNotIn("missed", line)

    def test_a_step_that_failed_before_its_first_value_is_dashes(self):
        def emptied(value):
            if isinstance(value, dict):
                return {key: emptied(inner) for key, inner in value.items()}
            return [] if isinstance(value, list) else value
        for line in lines(emptied(RECORDED["found"])):
            self.assertEqual(cells(line)[1:4], ["-", "-", "-"], line)

    def test_of_ddprun_alone_has_dashes_for_the_other(self):
        def alone(value):
            return {key: alone(inner) for key, inner in value.items()
                    if key not in ("torchrun", "worker_fails")} if isinstance(value, dict) else value
        for line in lines(alone(RECORDED["found"])):
            self.assertEqual(cells(line)[2:4], ["-", "-"], line)

    def test_a_coordinator_that_took_no_time_leaves_a_dash_for_the_growth(self):
        found = copy.deepcopy(RECORDED["found"]["rendezvous"])
        for run in found["100"]:
            run["meeting"]["coordinator_cpu_s"] = 0
        told = [cells(line) for line in lines({"rendezvous": found})]
        (growth,) = [row for row in told if "processor time grows" in row[0]]
        self.assertEqual(growth[1], "-")
        self.assertTrue(all(row[1] != "-" for row in told if row is not growth))

    def test_a_launcher_that_does_not_go_on_is_told_with_what_happened(self):
        run = lambda went_on, ended: {"went_on_s": went_on, "ended": ended, "of": 4,
                                      "waited_s": went_on or (20.0 if ended < 4 else 6.0)}
        ours = [run(0.9, 0)] * 5
        of = lambda theirs: cells(lines({"host": {"ddprun": ours, "torchrun": theirs}})[0])
        self.assertEqual(of([run(None, 4)] * 5)[2:4], ["the job ends, after 6,000 ms (n=5, 6,000-6,000)",
                                                      "-"])
        self.assertEqual(of([run(None, 0)] * 5)[2:4], ["it stands still, for at least 20.0 s (n=5)",
                                                      "-"])
        self.assertEqual(of([run(9.0, 0)] * 5)[3], "10x")
        self.assertIn("3 of n=4", of([run(9.0, 0)] * 3 + [run(None, 4)])[2])


class TheTableOfTrainers(unittest.TestCase):
    def test_compares_with_the_faster_of_pytorchs_forms_and_says_which(self):
        run = lambda tokens: [[tokens, 1 / tokens]]
        for eager, compiled, form, missed in ((100, 50, "eager", False), (50, 140, "compiled", True)):
            rows = lines({"gpt2_tiny": {"ddprun": {"2": run(140), "1": run(80)},
                                        "PyTorch": {"2": run(eager), "1": run(eager)},
                                        "PyTorch compiled": {"2": run(compiled), "1": run(compiled)}}})
            for row in rows[:2]:
                self.assertIn(f"is {form}", cells(row)[0])
                self.assertTrue(cells(row)[3].startswith(f"{140 / max(eager, compiled):.2f}x"), row)
                self.assertEqual("**missed**" in row, missed)
            # 160 tokens in the time of a step of one rank's 80; two ranks do 140 in it.
            self.assertEqual(cells(rows[2])[1:3], ["1.14 (n=1)", "2.00 (n=1)"])
            self.assertEqual(cells(rows[3])[1:3], ["0.57 (n=1)", "1.00 (n=1)"])

    def test_counts_attention_as_arithmetic_that_sgemm_does_not_do(self):
        run = {"step": [2.0, 2.0], "sgemm": [1.5, 1.5], "step_cpu": [1.0, 1.0], "sgemm_cpu": [0.9, 0.9],
               "linear_flop": 9e9, "attention_flop": 1e9}
        by_clock, by_processor = lines({"gpt2_products": {"ddprun": [run]}})
        self.assertEqual(cells(by_clock)[1], "83.3 % (n=2, 83.3-83.3)")
        self.assertIn("**missed**", by_clock)
        self.assertEqual(cells(by_processor)[1], "100 % (n=2, 100-100)")

    def test_a_resnets_step_counts_by_its_processor_time(self):
        (row,) = lines({"resnet18": {"ddprun": [[9.0, 1.0]], "PyTorch": [[1.0, 1.5]],
                                     "PyTorch channels_last": [[1.0, 1.2]]}})
        self.assertEqual(cells(row)[1:4], ["1,000 ms (n=1)", "1,200 ms (n=1)", "1.20x"])

    def test_a_snapshots_rate_is_told_as_a_share_of_dds(self):
        run = lambda save, slower: {"call": 0.05, "save": save, "before": 0.2, "others": 0.04, "slower": slower,
                                    "harder": slower}
        found = {"megabytes": 500, "dd": [1e9, 1e9], "ddprun": [run(0.5, 1.06)], "torch.save": [run(1.0, 1.0)],
                 "DCP async": [run(2.0, 1.2)]}
        told = [cells(line) for line in lines({"snapshot": found})]
        self.assertEqual(told[0][1:], ["100 % (n=1)", "50.0 % (n=1)", "2.0x as many", ">= 80 %"])
        (slower,) = [row for row in told if "a step while" in row[0]]
        self.assertEqual(slower[1:], ["1.06 (n=1)", "1.20 (n=1)", "1.13x", "<= 1.05: **missed**"])


class TheBlock(unittest.TestCase):
    def test_says_which_steps_failed_and_why(self):
        report = dict(copy.deepcopy(RECORDED), failed={"cut": "no bridge"},
                      left_out={"host": "needs root"})
        text = tables.block(report)
        self.assertIn("Failed: cut (no bridge).", text)
        self.assertIn("Left out: host (needs root).", text)

    def test_replaces_what_is_between_the_two_lines_and_nothing_else(self):
        text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
        replaced = tables.replace_block(text, RECORDED)
        self.assertTrue(replaced.startswith(f"before\n{BEGIN}\n"))
        self.assertTrue(replaced.endswith(f"\n{END}\nafter\n"))
        self.assertNotIn("old", replaced)
        self.assertEqual(tables.replace_block(replaced, RECORDED), replaced)

    def test_says_of_each_run_on_which_day_it_was_and_how_busy_the_machine(self):
        def told(**when):
            return tables.measured({"found": dict.fromkeys(when), "when": when})
        quiet, busy = ("2026-11-25", 0.1), ("2026-11-27", 2.46)
        self.assertEqual(told(launch=quiet, store=("2026-11-25", 0.2)), "2026-11-25")
        self.assertEqual(told(slurm=busy, launch=quiet, store=quiet),
                         "2026-11-25, but slurm on 2026-11-27 with a load average of 2.5 before")
        self.assertEqual(told(slurm=busy, launch=quiet, store=quiet, scale=("2026-11-28", 0)),
                         "2026-11-25, but slurm on 2026-11-27 with a load average of 2.5 before, "
                         "scale on 2026-11-28")
        self.assertEqual(told(), "no day")

    def test_needs_the_two_lines(self):
        for text in ("", BEGIN, f"{END}\n{BEGIN}", BEGIN * 2 + END):
            with self.assertRaises(ValueError):
                tables.replace_block(text, RECORDED)

    def test_readme_has_the_figures_that_were_measured(self):
        text = README.read_text()
        for name in ("figures.json", "trainer_figures.json"):
            report = json.loads((HERE / name).read_text())
            self.assertEqual(tables.replace_block(text, report), text,
                             f"scripts/bench --readme --from tests/bench/{name} writes it")


class TheCheck(unittest.TestCase):
    def checked(self, change=lambda found: None, torchrun="torchrun 2.13.0"):
        report = dict(copy.deepcopy(RECORDED), asked=list(steps.RUNS["check"]))
        report["about"]["torchrun"] = torchrun
        for run in report["found"]["restart"]["runs"]:
            run["wall_s"] /= 10  # it was recorded on a busy machine
        change(report["found"])
        return tables.check(report)

    def test_holds_each_floor(self):
        text, held = self.checked()
        self.assertTrue(held, text)
        self.assertEqual(text.count("held:"), 8, text)
        for floor in (">= 150x", ">= 50x", "<= 10 MiB", "<= 100 ms"):
            self.assertIn(f"floor {floor}", text)
        self.assertEqual(text.count("floor <= 50 ms"), 2, text)
        self.assertEqual(text.count("floor >= 10x"), 2, text)

    def test_sees_each_of_them_broken(self):
        def slower(step, name, times):
            def change(found):
                found[step][name] = [times * value for value in found[step][name]]
            return change

        def fatter(found):
            for run in found["footprint"]["one_node"]["ddprun"]:
                run["rss_mib"] = 10.1

        def late(step, name, key):
            def change(found):
                for run in found[step][name]:
                    run[key] = 0.101
            return change

        def recovers_late(found):  # beside a torchrun that is later still
            found["recovery"] = {"ddprun": [0.051] * 3, "torchrun": [5.1] * 3}
        for change in (slower("launch", "ddprun", 4), recovers_late,
                       slower("recovery", "torchrun", 0.02),
                       late("kill", "ddprun", "went_on_s"), late("restart", "runs", "wall_s"),
                       slower("first_line", "torchrun", 0.05), slower("pytorch_restart", "warm", 9),
                       fatter):
            text, held = self.checked(change)
            self.assertFalse(held, text)
            self.assertEqual(text.count("BROKEN:"), 1, text)

    def test_without_torchrun_it_holds_what_does_not_compare_with_it(self):
        def alone(found):
            for step in ("launch", "first_line", "pytorch_restart", "recovery", "footprint"):
                for values in (found[step], found[step].get("one_node", {})):
                    values.pop("torchrun", None)

        def fat(found):
            alone(found)
            for run in found["footprint"]["one_node"]["ddprun"]:
                run["rss_mib"] = 10.1
        text, held = self.checked(alone, None)
        self.assertTrue(held, text)
        self.assertEqual((text.count("held:"), text.count("NOT MEASURED:")), (4, 4), text)
        self.assertFalse(self.checked(fat, None)[1])
        self.assertFalse(self.checked(lambda found: found["restart"].clear(), None)[1])

    def test_what_was_not_measured_is_not_held(self):
        text, held = self.checked(lambda found: found["launch"].clear())
        self.assertFalse(held)
        self.assertIn("NOT MEASURED:", text)


class ByTurns(unittest.TestCase):
    def test_the_names_take_turns_as_evenly_as_their_numbers_allow(self):
        order, into = [], {}
        measure.by_turns({"a": 7, "b": 3}, lambda name: order.append(name) or len(order), into)
        self.assertEqual("".join(order), "aabaabaaab")
        self.assertEqual({name: len(values) for name, values in into.items()}, {"a": 7, "b": 3})

    def test_what_was_measured_before_a_failure_stays(self):
        into = {}
        with self.assertRaises(ZeroDivisionError):
            measure.by_turns({"a": 2, "b": 2}, lambda name: 1 / (name == "a"), into)
        self.assertEqual(into, {"a": [1.0], "b": []})


class Steps(unittest.TestCase):
    def test_a_step_that_fails_keeps_what_it_had_and_the_next_one_runs(self):
        class Broken(steps.Bench):
            def launch(self, into):
                into["ddprun"] = [0.004]
                raise RuntimeError("no processes left")

            def recovery(self, into):
                into["ddprun"] = [0.003]
        report = {"found": {}, "failed": {}, "left_out": {}}
        bench = Broken({"ddprun": ["ddprun"]}, None, HERE, "quick")
        for step in ("launch", "recovery", "meeting"):
            bench.measure(step, report)
        self.assertEqual(report["found"], {"launch": {"ddprun": [0.004]},
                                           "recovery": {"ddprun": [0.003]}})
        self.assertEqual(report["failed"], {"launch": "no processes left"})
        self.assertEqual(list(report["left_out"]), ["meeting"])


if __name__ == "__main__":
    unittest.main()
