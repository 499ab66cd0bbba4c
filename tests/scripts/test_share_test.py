"""What `scripts/test --share` draws."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import test_share  # noqa: E402

SCRIPT = pathlib.Path(test_share.__file__)
TESTS = [f"unit_some: test {number}" for number in range(1, 1201)]
CTEST = "/usr/bin/ctest" if pathlib.Path("/usr/bin/ctest").exists() else shutil.which("ctest")


class AShare(unittest.TestCase):
    def test_is_about_as_large_as_it_says_and_the_same_for_a_seed(self):
        drawn = test_share.draw(TESTS, TESTS, "7", 3)
        self.assertTrue(330 < len(drawn) < 470, len(drawn))
        self.assertEqual(drawn, test_share.draw(TESTS, TESTS, "7", 3))
        self.assertNotEqual(drawn, test_share.draw(TESTS, TESTS, "8", 3))

    def test_of_a_label_has_all_tests_without_it(self):
        labelled = set(TESTS[:600])
        drawn = test_share.draw(TESTS, labelled, "7", 3)
        self.assertEqual([one for one in drawn if one not in labelled], TESTS[600:])
        self.assertLess(len(drawn), 900)

    def test_changes_with_no_other_test(self):
        more = ["unit_first: another", *TESTS]
        self.assertEqual([one for one in test_share.draw(more, more, "7", 3) if one in TESTS],
                         test_share.draw(TESTS, TESTS, "7", 3))

    def test_leaves_nothing_out_for_good(self):
        seen = {one for seed in range(40) for one in test_share.draw(TESTS, TESTS, str(seed), 3)}
        self.assertEqual(seen, set(TESTS))

    def test_that_is_no_share_is_refused(self):
        for share in ("", "3", "2/3", "1/0", "=1/2", "interop=3", "1/\u0663"):
            with self.assertRaisesRegex(ValueError, "it is 1/N, or LABEL=1/N"):
                test_share.parse(share)


class ThroughCtest(unittest.TestCase):
    """A folder of twelve tests: those with an odd number have the label `bench`."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        (pathlib.Path(self.folder.name) / "CTestTestfile.cmake").write_text("".join(
            f'add_test("some: {n}" "true")\n' +
            (f'set_tests_properties("some: {n}" PROPERTIES LABELS bench)\n' if n % 2 else "")
            for n in range(1, 13)))

    def share(self, *words):
        return subprocess.run([sys.executable, "-B", SCRIPT, CTEST, self.folder.name, *words],
                              capture_output=True, text=True)

    def test_with_another_option_of_ctests_each_test_is_drawn_at_some_time(self):
        seen = set()
        for seed in range(30):
            done = self.share("1/3", str(seed), "-LE", "bench")
            if done.returncode:  # one seed in eleven draws none of six
                self.assertIn("leaves none of 6 tests", done.stderr)
                continue
            *options, left_out = done.stdout.split()
            would_run = test_share.listed(CTEST, self.folder.name, ["-LE", "bench", *options])
            self.assertEqual(len(would_run), 6 - int(left_out))
            seen |= set(would_run)
        self.assertEqual(seen, {f"some: {n}" for n in range(2, 13, 2)})

    def test_of_a_label_runs_all_others(self):
        *options, left_out = self.share("bench=1/1000000", "7").stdout.split()
        self.assertEqual((test_share.listed(CTEST, self.folder.name, options), left_out),
                         ([f"some: {n}" for n in range(2, 13, 2)], "6"))

    def test_of_a_label_that_no_test_has_is_an_error(self):
        done = self.share("bensh=1/2", "7")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "test: --share bensh=1/2: no test that would run has the label "
                                      "bensh\n")


if __name__ == "__main__":
    unittest.main()
