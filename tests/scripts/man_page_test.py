"""The man pages that the build makes: the tools that show them have nothing against them, and what
they show names what it is about.
usage: man_page_test.py FOLDER [TEST...]   (where the build has put ddprun.1, ddpctl.1 and train.1)"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402

FOLDER = pathlib.Path(sys.argv.pop(1))
SHOWN = {"ddprun.1": ("--nproc-per-node", "PET_*", "EXIT STATUS", "75 ", "ddprun@night"),
         "ddpctl.1": ("drain", "EXIT STATUS", "--json", "XDG_RUNTIME_DIR"),
         "train.1": ("message-passing", "EXIT STATUS", "75 ", "ddprun --standalone", "--validation-share",
                     "Needs --target")}
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MAN_KEEP_FORMATTING": ""}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)


class ManPage(unittest.TestCase):
    def test_man_shows_it_without_a_warning(self):
        skip.need("program", shutil.which("man"), "man is not installed")
        for page, texts in SHOWN.items():
            done = run("man", "--warnings", "-E", "UTF-8", "-l", str(FOLDER / page))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for text in texts:
                self.assertIn(text, done.stdout)

    def test_mandoc_finds_no_mistake_in_it(self):
        skip.need("program", shutil.which("mandoc"), "mandoc is not installed")
        for page in SHOWN:
            done = run("mandoc", "-T", "lint", "-W", "warning", str(FOLDER / page))
            self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    skip.main()
