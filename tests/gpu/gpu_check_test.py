"""scripts/gpu-check: that it says what is missing where there is no GPU, and, over the stand-ins, that
its own steps work: it finds workers, kills one, compares, and fails when something is wrong.

usage: gpu_check_test.py BUILD_DIR [TEST...]"""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402

BUILT = pathlib.Path(sys.argv.pop(1)).resolve()


def check(*words, **more):
    return subprocess.run([ROOT / "scripts" / "gpu-check", "--built", BUILT, *words], text=True,
                          capture_output=True, timeout=300, **more)


class GpuCheck(unittest.TestCase):
    def test_without_a_gpu_it_skips_and_says_what_is_missing(self):
        done = check("--quick")
        if "checks passed" in done.stdout:  # there is one: gpu-check is run by a person
            return
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^skipped: needs gpu: \S.*; what only a GPU can show stays "
                                      r"unproved here\n$")

    def test_over_the_stand_ins_every_check_passes_and_says_that_it_proves_nothing(self):
        done = check("--standin")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("7 of 7 checks passed, 0 were skipped, on a stand-in", done.stdout)

    def test_a_folder_without_programs_is_named_with_or_without_a_gpu(self):
        for words in (["--standin"], []):
            done = subprocess.run([ROOT / "scripts" / "gpu-check", *words, "--built", "/dev"],
                                  text=True, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
            self.assertIn("/dev/bin/ddprun is missing", done.stderr)

    def test_help_is_the_same_wherever_it_is_asked_for(self):
        shown = {subprocess.run([ROOT / "scripts" / "gpu-check", *words, "--help"], text=True, check=True,
                                capture_output=True, timeout=60).stdout
                 for words in ([], ["--built", "build"], ["--quick"])}
        self.assertEqual(len(shown), 1)
        self.assertTrue(shown.pop().startswith("gpu-check [--built DIR] [--quick]: "))


if __name__ == "__main__":
    skip.main()
