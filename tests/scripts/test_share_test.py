"""What `scripts/test --share` draws."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import test_share  # noqa: E402

TESTS = {number: f"unit_some: test {number}" for number in range(1, 1201)}


class AShare(unittest.TestCase):
    def test_is_about_as_large_as_it_says_and_the_same_for_a_seed(self):
        drawn = test_share.draw(TESTS, TESTS, "7", 3)
        self.assertTrue(330 < len(drawn) < 470, len(drawn))
        self.assertEqual(drawn, test_share.draw(TESTS, TESTS, "7", 3))
        self.assertNotEqual(drawn, test_share.draw(TESTS, TESTS, "8", 3))

    def test_of_a_label_has_all_tests_without_it(self):
        labelled = {number: TESTS[number] for number in range(1, 601)}
        drawn = test_share.draw(TESTS, labelled, "7", 3)
        self.assertEqual([one for one in drawn if one not in labelled], list(range(601, 1201)))
        self.assertLess(len(drawn), 900)

    def test_changes_with_no_other_test(self):
        more = {**TESTS, 1201: "unit_some: another"}
        self.assertEqual([one for one in test_share.draw(more, more, "7", 3) if one != 1201],
                         test_share.draw(TESTS, TESTS, "7", 3))

    def test_leaves_nothing_out_for_good(self):
        seen = {one for seed in range(40) for one in test_share.draw(TESTS, TESTS, str(seed), 3)}
        self.assertEqual(seen, set(TESTS))

    def test_that_is_no_share_is_refused(self):
        for share in ("", "3", "2/3", "1/0", "=1/2", "interop=3"):
            with self.assertRaisesRegex(ValueError, "it is 1/N, or LABEL=1/N"):
                test_share.parse(share)


if __name__ == "__main__":
    unittest.main()
