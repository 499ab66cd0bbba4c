"""skip.main's exit codes and lines, of a small test file that runs as a program."""
import pathlib
import subprocess
import sys
import unittest

import skip

SAMPLE = f"""
import sys, unittest
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import skip
class Sample(unittest.TestCase):
    def test_passes(self):
        skip.need("root", True, "never said")
    def test_fails(self):
        self.fail("on purpose")
    def test_needs(self):
        skip.need("gpu", False, "no device\\nhere")
    def test_needs_in_part(self):
        for present in (True, False):
            with self.subTest(present=present):
                skip.need("data", present, "no file")
    def test_bare(self):
        self.skipTest("not today")
    def test_misspelt(self):
        skip.need("gpus", False, "no device")
class Group(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        skip.need(skip.CGROUP, False, "none can be made")
    def test_one(self):
        pass
    def test_two(self):
        pass
skip.main()
"""


class Skip(unittest.TestCase):
    def assertEnds(self, code, lines, *selected):
        done = subprocess.run([sys.executable, "-c", SAMPLE, *selected], capture_output=True,
                              text=True, timeout=60)
        said = [line for line in done.stdout.splitlines() if line]
        self.assertEqual((done.returncode, said), (code, lines), done.stderr)

    def test_its_line_is_its_own_beside_what_unittest_writes(self):
        done = subprocess.run([sys.executable, "-c", SAMPLE, "Sample.test_needs"], timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertIn("skipped: needs gpu: no device here (Sample.test_needs)",
                      done.stdout.splitlines())

    def test_a_run_of_which_every_test_was_skipped_is_skipped(self):
        gpu = "skipped: needs gpu: no device here (Sample.test_needs)"
        self.assertEnds(77, [gpu], "Sample.test_needs")
        self.assertEnds(77, ["skipped: needs cgroup: none can be made (setUpClass (Group))"], "Group")
        self.assertEnds(0, [gpu], "Sample.test_needs", "Sample.test_passes")

    def test_a_test_that_was_skipped_in_part_has_not_passed(self):
        self.assertEnds(77, ["skipped: needs data: no file (Sample.test_needs_in_part "
                             "(present=False))"], "Sample.test_needs_in_part")

    def test_a_failure_is_none_of_it(self):
        self.assertEnds(1, [], "Sample.test_fails")
        self.assertEnds(1, ["skipped: needs gpu: no device here (Sample.test_needs)"],
                        "Sample.test_fails", "Sample.test_needs")

    def test_a_skip_that_names_no_need_is_a_failure(self):
        self.assertEnds(1, [], "Sample.test_bare")
        self.assertEnds(1, [], "Sample.test_misspelt")


if __name__ == "__main__":
    skip.main()
