"""torchrun 2.13 and ddprun side by side over one table (scenarios.py). Where they differ on purpose
the table names an entry of differences.md; any other difference fails, and so does an entry that no
run shows any more."""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
import interop  # noqa: E402
import observe  # noqa: E402
import rules  # noqa: E402
import scenarios  # noqa: E402

AT_ONCE = 2


def compare(scenario, theirs, ours, used):
    """Aspects in which the two differ, as text; those that differ on purpose go into `used`."""
    wrong = []
    if scenario.get("refused"):
        for name, seen in (("torchrun", theirs), ("ddprun", ours)):
            if any(code <= 0 for code in seen["exit"]) or seen["argv"]:
                wrong.append(f"{name} did not refuse it: {seen['exit']} {sorted(seen['argv'])}")
    rules.apply(theirs, ours, used)
    for aspect in theirs:
        if theirs[aspect] == ours[aspect]:
            continue
        reason = scenario.get("differs", {}).get(aspect)
        if reason:
            used.add(reason)
        else:
            wrong.append(f"{aspect}:\n  torchrun {theirs[aspect]}\n  ddprun   {ours[aspect]}")
    for aspect, reason in scenario.get("differs", {}).items():
        if theirs.get(aspect) == ours.get(aspect):
            wrong.append(f"{aspect} does not differ any more: take {reason} out of the table")
    return wrong


class Conformance(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-conformance-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def both(self, name, scenario, zygote, number):
        theirs = observe.run(observe.Torchrun(zygote), scenario, self.folder / f"{number}t")
        ours = observe.run(observe.Program("ddprun", interop.DDPRUN), scenario,
                           self.folder / f"{number}d")
        return name, scenario, theirs, ours

    def test_every_scenario_is_the_same_but_for_what_differs_on_purpose(self):
        chosen = {name: found for name, found in scenarios.table().items()
                  if re.search(os.environ.get("DDPRUN_CONFORMANCE", ""), name)}
        zygotes = [observe.Zygote() for _ in range(AT_ONCE)]
        used = set()
        items = list(enumerate(chosen.items()))

        def share(part):
            return [self.both(name, scenario, zygotes[part], number)
                    for number, (name, scenario) in items[part::AT_ONCE]]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = [one for part in pool.map(share, range(AT_ONCE)) for one in part]
        for zygote in zygotes:
            zygote.close()
        for name, scenario, theirs, ours in results:
            with self.subTest(scenario=name):
                wrong = compare(scenario, theirs, ours, used)
                if wrong:
                    self.fail(f"{' '.join(scenario['words'])}\n" + "\n".join(wrong))
        print(f"{len(results)} scenarios, {len(used)} differences on purpose")
        if "DDPRUN_CONFORMANCE" not in os.environ:
            text = (HERE.parent / "differences.md").read_text()
            listed = set(re.findall(r"^### .*\(`([A-Z-]+)`\)$", text, re.M))
            self.assertEqual(used - listed, set(), "not in differences.md")
            self.assertEqual(listed - used, set(), "in differences.md, and seen nowhere")

    def test_torchrun_in_the_zygote_is_torchrun_itself(self):
        names = ["option --nproc-per-node 2", "a worker that exits with 3", "letters -t 0:1",
                 "refused usage: --no-such-option", "refused: --nnodes 3:2"]
        zygote = observe.Zygote()
        self.addCleanup(zygote.close)
        for number, name in enumerate(names):
            with self.subTest(scenario=name):
                scenario = scenarios.table()[name]
                inside = observe.run(observe.Torchrun(zygote), scenario,
                                     self.folder / f"{number}z")
                real = observe.run(observe.Program("torchrun", interop.TORCHRUN), scenario,
                                   self.folder / f"{number}r")
                self.assertEqual(inside, real)


if __name__ == "__main__":
    interop.main()
