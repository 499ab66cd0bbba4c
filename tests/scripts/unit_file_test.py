"""packaging/ddprun@.service: systemd has nothing against it, and it fits what ddprun does by default.
usage: unit_file_test.py DDPRUN [TEST...]"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skip  # noqa: E402

DDPRUN = os.path.abspath(sys.argv.pop(1))
UNIT = ROOT / "packaging" / "ddprun@.service"
SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)([a-z]+)", text).groups()
    return int(number) * SECONDS[unit]


class UnitFile(unittest.TestCase):
    def test_systemd_finds_no_mistake_in_it(self):
        skip.need("program", shutil.which("systemd-analyze"), "systemd is not installed")
        with tempfile.TemporaryDirectory() as folder:
            # By the path of the built program: none may be installed here.
            unit = pathlib.Path(folder) / "ddprun@night.service"
            unit.write_text(UNIT.read_text().replace("ExecStart=ddprun ", f"ExecStart={DDPRUN} "))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], text=True,
                                  capture_output=True, timeout=60)
        # Other units of the machine may have mistakes, too.
        about = [line for line in done.stderr.splitlines() if "ddprun" in line]
        self.assertEqual(about, [], done)

    def test_a_stop_gives_workers_the_time_to_save(self):
        shown = subprocess.run([DDPRUN, "--help"], capture_output=True, text=True, timeout=60).stdout
        grace = re.search(r"--preempt-grace TIME.*?\[(\w+)\]", shown, re.S)[1]
        stop = re.search(r"^TimeoutStopSec=(\w+)$", UNIT.read_text(), re.M)[1]
        shutdown = re.search(r"--shutdown-timeout SECONDS.*?or\s+(\d+)\)", shown, re.S)[1]
        self.assertGreater(seconds(stop), seconds(grace) + int(shutdown))


if __name__ == "__main__":
    skip.main()
