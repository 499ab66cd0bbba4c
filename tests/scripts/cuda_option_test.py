"""What the CMake option DDPRUN_CUDA does, as far as a configuration shows it; nothing is built.
Usage: cuda_option_test.py CMAKE CXX_COMPILER [TEST...]"""
import json
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

CUDA_CMAKE = ROOT / "worker_runtime" / "cuda" / "CMakeLists.txt"
TOOLS = {}


class CudaOption(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-cuda-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.build = self.folder / "build"

    def configure(self, option, path=None):
        environment = {name: value for name, value in os.environ.items()
                       if not re.match("CUDA|NVCC", name, re.I)}
        environment["PATH"] = path or environment["PATH"]
        return subprocess.run(
            [TOOLS["cmake"], "-G", "Ninja", "-S", ROOT, "-B", self.build, "-DDDPRUN_TESTS=OFF",
             "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DCMAKE_CXX_COMPILER={TOOLS['cxx']}",
             f"-DDDPRUN_CUDA={option}"],
            env=environment, capture_output=True, text=True, timeout=240)

    def path_without_nvcc(self):
        """PATH, but of each folder that has nvcc all programs besides."""
        folders = []
        for number, folder in enumerate(filter(os.path.isdir, os.environ["PATH"].split(":"))):
            programs = os.listdir(folder)
            if "nvcc" in programs:
                beside = self.folder / f"bin{number}"
                beside.mkdir()
                for program in programs:
                    if program != "nvcc":
                        (beside / program).symlink_to(os.path.join(folder, program))
                folder = str(beside)
            folders.append(folder)
        return ":".join(folders)

    def has_target(self):
        return "build ddprun_cuda: " in (self.build / "build.ninja").read_text()

    def test_off_makes_no_library_for_gpus_and_looks_for_no_compiler(self):
        done = self.configure("OFF")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse(self.has_target())
        self.assertNotIn("CUDA compiler", done.stdout)

    def test_on_without_nvcc_ends_with_what_to_do(self):
        done = self.configure("ON", self.path_without_nvcc())
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        sentence = re.search(r'message\(FATAL_ERROR "(.*)"\)', CUDA_CMAKE.read_text())[1]
        self.assertIn("put it on the PATH", sentence)
        self.assertIn(sentence, " ".join(done.stderr.split()))

    def test_auto_without_nvcc_is_for_processors_alone_and_says_so(self):
        done = self.configure("AUTO", self.path_without_nvcc())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse(self.has_target())
        self.assertIn("No CUDA compiler was found", done.stdout)

    def test_on_compiles_for_the_promised_architectures(self):
        skip.need(skip.CUDA, shutil.which("nvcc"), "no nvcc on the PATH")
        done = self.configure("ON")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(self.has_target())
        promised = re.search(r'set\(CMAKE_CUDA_ARCHITECTURES "(.*)"\)', CUDA_CMAKE.read_text())[1]
        kinds = {"real": "sm", "virtual": "compute"}
        expected = {f"{kinds[kind]}_{number}" for number, kind in
                    (one.split("-") for one in promised.split(";"))}
        commands = [one["command"] for one in
                    json.loads((self.build / "compile_commands.json").read_text())
                    if one["file"].endswith(".cu")]
        self.assertGreater(len(commands), 0)
        for command in commands:
            found = ",".join(re.findall(r"code=\[([^]]*)\]", command)).split(",")
            self.assertEqual(set(found), expected, command)


if __name__ == "__main__":
    TOOLS.update(cmake=sys.argv.pop(1), cxx=sys.argv.pop(1))
    skip.main()
