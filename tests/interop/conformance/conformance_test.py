"""torchrun 2.13 and ddprun side by side over one table (scenarios.py). Where they differ on purpose
the table names an entry of differences.md; any other difference fails, and so does an entry that no
run shows any more."""
import os
import pathlib
import re
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
import interop  # noqa: E402
import observe  # noqa: E402
import rules  # noqa: E402
import scenarios  # noqa: E402

AT_ONCE = 6  # they wait most of the time
DIFFERENCES = (HERE.parent / "differences.md").read_text()


def compare(scenario, theirs, ours, used):
    """Aspects in which the two differ, as text; those that differ on purpose go into `used`."""
    wrong = []
    if scenario.get("refused"):
        for name, seen in (("torchrun", theirs), ("ddprun", ours)):
            if any(code <= 0 for code in seen["exit"]) or seen["argv"]:
                wrong.append(f"{name} did not refuse it: {seen['exit']} {sorted(seen['argv'])}")
    rules.apply(theirs, ours, used)
    theirs, ours = rules.by_variable(theirs), rules.by_variable(ours)
    differs = scenario.get("differs", {})
    for aspect in sorted(differs if scenario.get("only") else {*theirs, *ours, *differs}):
        if aspect == "takes" and aspect not in differs:
            continue  # also a matter of the machine
        same = theirs.get(aspect) == ours.get(aspect)
        shown = f"\n  torchrun {theirs.get(aspect)}\n  ddprun   {ours.get(aspect)}"
        if aspect in differs and same:
            wrong.append(f"{aspect} differs no more: take {differs[aspect]} out of the table{shown}")
        elif aspect in differs:
            used.add(differs[aspect])
        elif not same:
            wrong.append(aspect + shown)
    return wrong


class Conformance(interop.JobTest):
    maxDiff = None

    def zygote(self):
        zygote = observe.Zygote()
        self.addCleanup(zygote.close)
        return lambda *how: observe.Torchrun(zygote, *how)

    @staticmethod
    def program(*command):
        return lambda *how: observe.Program(command, *how)

    def test_every_scenario_is_the_same_but_for_what_differs_on_purpose(self):
        chosen = {name: found for name, found in scenarios.table().items()
                  if re.search(os.environ.get("DDPRUN_CONFORMANCE", ""), name)}
        torchrun, ddprun = self.zygote(), self.program(interop.DDPRUN)

        def both(name):
            folder = self.folder / str(list(chosen).index(name))
            folder.mkdir()
            return (observe.run("torchrun", torchrun, chosen[name], folder / "torchrun"),
                    observe.run("ddprun", ddprun, chosen[name], folder / "ddprun"))
        used = set()
        names = sorted(chosen, key=lambda name: "slow" not in chosen[name])
        with ThreadPoolExecutor(AT_ONCE) as pool:
            seen = dict(zip(names, pool.map(both, names)))
        for name, (theirs, ours) in seen.items():
            with self.subTest(scenario=name):
                wrong = compare(chosen[name], theirs, ours, used)
                if wrong:
                    self.fail(f"{' '.join(chosen[name]['words'])}\n" + "\n".join(wrong))
        print(f"{len(seen)} scenarios, {len(used)} differences on purpose")
        if "DDPRUN_CONFORMANCE" not in os.environ:
            listed = set(re.findall(r"^### .*\(`([A-Z0-9-]+)`\)$", DIFFERENCES, re.M))
            self.assertEqual(used - listed, set(), "not in differences.md")
            self.assertEqual(listed - used, set(), "in differences.md, and seen nowhere")

    def test_torchrun_in_the_zygote_is_torchrun_itself(self):
        names = ["option --nproc-per-node 2", "letters -t 0:1",
                 "refused: --nnodes 3:2", "two nodes, static: a worker of node 1 is killed",
                 "SIGTERM to the agent", "a recorded raise", "c10d, two nodes"]
        # By that Python: torchrun's first line may name another path of it, which a report then shows.
        zygote, real = self.zygote(), self.program(interop.PYTHON, interop.TORCHRUN)

        def both(name):
            scenario = scenarios.table()[name]
            return [observe.run("torchrun", start, scenario, self.folder / f"{names.index(name)}{kind}")
                    for kind, start in (("zygote", zygote), ("real", real))]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for name, (inside, itself) in zip(names, pool.map(both, names)):
                with self.subTest(scenario=name):
                    for seen in (inside, itself):
                        del seen["takes"]  # also a matter of the machine
                    self.assertEqual(inside, itself)


def cases(path):
    """The names of a test file's cases: of C++ as they stand there, of Python their words."""
    text = path.read_text()
    if path.suffix == ".py":
        return [name.replace("_", " ") for name in re.findall(r"(?m)^    def test_(\w+)\(", text)]
    names = re.findall(r'(?m)^TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', text)
    return ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', name)) for name in names]


class Differences(interop.JobTest):
    needs_torch = False

    def test_what_the_table_does_not_show_is_shown_by_a_test_case_that_its_entry_names(self):
        entries = re.findall(r"(?ms)^- (.*?)(?=^- |\Z)", DIFFERENCES)
        self.assertGreater(len(entries), 3)
        for entry in entries:
            with self.subTest(entry=entry):
                named = re.search(r"\(`([\w/.]+)`: (.+)\)\s*\Z", entry)
                self.assertTrue(named, "the file and the case that show it stand in brackets at its end")
                self.assertIn(named[2], cases(interop.ROOT / named[1]))

    def test_it_tells_how_many_command_lines_the_table_has(self):
        told = re.search(r"over some (\d+) command\s+lines", DIFFERENCES)[1]
        self.assertEqual(int(told), round(len(scenarios.table()), -1))


if __name__ == "__main__":
    interop.main()
